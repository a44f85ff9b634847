// jobs/admission.h — the queue as the scheduler sees it: plain facts in, who starts, who must leave
// and why the others wait out. Pure; scheduler::decide does the deciding.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "jobs/decision_record.h"
#include "jobs/node.h"
#include "jobs/queues.h"
#include "jobs/request.h"
#include "jobs/scheduling_policy.h"

namespace falaj::jobs {

// What there is for jobs.
struct Machine {
  std::int64_t cpu_milli = 1000;
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  unsigned gpus = 0;         // At most 16.
  unsigned engines_max = 1;  // Engine jobs (training, conversion) at a time.
  unsigned numa_nodes = 1;   // At most 4.
  NodeSpec node{};           // What was declared about it.
};
// Of this machine: processors that this process may use, physical memory, /dev/nvidiaN, NUMA nodes.
Machine this_machine();

enum class Stage : std::uint8_t {
  kWaiting,
  kClaimed,  // Waits for its victims to leave: `gpus` is kept for it.
  kRunning,
  kStopping,  // Told to make room.
};
enum class Runs : std::uint8_t { kCommand, kEngine };

inline constexpr std::uint8_t kNowhere = 0xff;
// Tags that jobs avoid or are near to and that jobs have, in one scene: the scheduler tells so many
// apart. Further ones count as one to those who avoid them, and nobody is near to them.
inline constexpr std::size_t kSoughtTagsMax = 62;
// Those that jobs of one project may avoid or be near to: it leaves some to others.
inline constexpr std::size_t kProjectTagsMax = 16;

struct Candidate {
  JobId id;
  std::uint64_t sequence = 0;  // Unique, never 0; who came earlier has the smaller one.
  std::string project;
  Request request;
  Runs runs = Runs::kCommand;
  Stage stage = Stage::kWaiting;
  Timestamp queued_at{};
  Timestamp started_at{};
  Duration run_max{};                 // 0: unknown.
  std::uint32_t unmet = 0;            // Jobs that must end first …
  JobId waits_for{};                  // … the first of them …
  AfterEnd waits_for_end{};           // … and how it must end.
  std::uint16_t gpus = 0;             // Devices, unless it waits …
  std::int64_t workers = 1;           // … how many of Request::workers, …
  std::uint8_t numa = kNowhere;       // … which NUMA node it is bound to …
  std::uint8_t mig_start = kNowhere;  // … and where its instance begins on its device.
  Timestamp checkpoint{};             // The newest that is known to be kept; zero: none is.
  // Of Constraints::data, those that may not be computed on here now, by position.
  std::vector<std::size_t> barred{};
  // What is known from jobs like it (jobs/ledger.h); 0: nothing.
  Duration p50{};  // Of the remaining run time.
  Duration p90{};
  std::int64_t attained = 0;  // GPU-seconds so far, core-seconds without GPU.
  // What its attempts that are over were given; and with what runs, what that cost in millionths.
  double cpu_seconds = 0;
  double gpu_seconds = 0;
  std::int64_t spent = 0;
};

// What a queue has used.
struct QueueUse {
  // Milli-core-seconds, MiB-seconds and milli-GPU-seconds, halved per half-life: ledger.h.
  std::array<std::int64_t, 3> decayed{};
  std::vector<std::int64_t> spent;  // Of each of its budgets in this window, with all below it.
};

struct Scene {
  Machine machine;
  std::vector<QueueSpec> queues;
  std::vector<Candidate> jobs;
  SchedulingPolicy policy = first_come();
  std::map<std::string, QueueUse, std::less<>> use{};  // By queue_name().
};

// Why a job waits.
struct Why {
  std::string code;        // "capacity", "quota", …: scheduler::ReasonCode by name; or "company".
  std::string text;        // One line.
  std::string constraint;  // What binds: "cpu", "queue payments/risk: cpu", "job 01J…"; may be "".
  std::string change;      // The smallest change that would admit it; may be "".
  Timestamp earliest{};    // When it probably starts; both zero when that is not known,
  Timestamp latest{};      // Timestamp::max(): not without a change.
};
// {code, reason, constraint, change, earliest, latest}; times null when not known.
Value to_value(const Why& why);

// Positions in Scene::jobs.
struct Verdict {
  struct Place {
    std::size_t job = 0;
    std::uint16_t gpus = 0;
    std::int64_t workers = 1;
    std::uint8_t numa = kNowhere;
    std::uint8_t mig_start = kNowhere;
  };
  std::vector<Place> admit;
  std::vector<Place> claim;          // Become kClaimed …
  std::vector<std::size_t> release;  // … and these kWaiting again.
  std::vector<std::size_t> preempt;
  // Go on with so many workers: fewer for others at once, more once they have run for the least
  // time between preemptions.
  std::vector<Place> resize;
  std::vector<std::pair<std::size_t, Why>> hold;
  DecisionRecordPtr record{};  // With Telling::kRecorded, when somebody starts or leaves.
};

// How much is said about those who wait (a replay needs no start times), and whether what was
// decided upon is kept.
enum class Telling : std::uint8_t { kFull, kNothing, kRecorded };

// Deterministic. Cost: that of scheduler::decide for one node.
Verdict judge(const Scene& scene, Timestamp now, Telling telling = Telling::kFull);

// FJ-1006 when the job could never start here though nothing else ran, FJ-2001 for a queue that is
// not declared: `job` need not be in the scene. What it is near to need not be there yet.
Status check_possible(const Scene& scene, const Candidate& job);

}  // namespace falaj::jobs
