// jobs/ledger.h — what queues have used and how long their jobs ran, added up from attempts that
// are over.
//
// What a queue used is kept of each resource for itself (processors, memory, GPUs), each halved per
// half-life. Which of them is its dominant one, and what queues above one another used together, is
// for scheduler::decide to say (scheduler/quota.h), so that a recorded decision has it all.
//
// It is made of job_events at the start and goes on with every attempt that ends; the replay of
// another policy keeps one in simulated time. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/time.h"
#include "jobs/admission.h"
#include "scheduler/predictor.h"

namespace falaj::jobs {

// How long a ledger looks back: longer than any window, and than half-lives that matter.
inline constexpr Duration kLookBack = Duration::days(62);

// One attempt, from its admission to its end.
struct Spell {
  std::string project;
  Request request;
  Timestamp from{};
  Timestamp to{};
  // Only those that did their work, or ran into their limit, tell how long such a job runs.
  enum class Ended : std::uint8_t { kByItself, kFailed, kInterrupted };
  Ended ended = Ended::kByItself;
};

class Ledger {
 public:
  // Constant time but for one entry an hour that it ran.
  void add(const Spell& spell);
  // An attempt of this job is over: it counts against its cost_cap.
  static void charge(Candidate& job, const Request& given, Duration ran);

  // Fills in what the scheduler knows of the past: Scene::use and each candidate's forecast,
  // attained service and what it has spent; `run_max` becomes what is left of it. Where a budget or
  // a cost_cap is charged (by p90), only jobs of the same queue, name and size say what, or else
  // the limit. A job whose queue was deleted is of its project's default. Once for a scene. Cost:
  // O(jobs + queues × hours of their windows).
  void inform(Scene& scene, Timestamp now);

 private:
  struct Hour {
    double cpu_seconds = 0;
    double gpu_seconds = 0;
    double memory_seconds = 0;  // Of bytes.
    void add(const Hour& more, double factor = 1);
  };
  static Hour taken(const Request& request, double seconds);
  struct Account {
    std::map<std::int64_t, Hour> hours;  // By hours since 1970.
    Hour use;                            // Decayed, as of `at`.
    Timestamp at{};
    std::uint32_t tenant = 0;  // To the predictor.
  };
  Account& account(const std::string& queue);
  scheduler::JobKind kind_of(const Candidate& job);
  std::uint32_t number_of(const std::string& name);
  void set_half_life(Duration half_life, Timestamp now);
  void count_use(Scene& scene, Timestamp now) const;
  void count_budgets(Scene& scene, Timestamp now) const;
  void forecast(Scene& scene, Timestamp now);
  void charge_by_its_own(Candidate& job, const scheduler::JobKind& kind, Duration elapsed) const;

  Duration half_life_ = Duration::days(7);
  std::map<std::string, Account, std::less<>> accounts_;     // By the queue's whole name.
  std::map<std::string, std::uint32_t, std::less<>> names_;  // Of jobs, as the predictor has them.
  scheduler::Predictor predictor_;
  std::int64_t observed_ = 0;
};

}  // namespace falaj::jobs
