// serving/batching/batcher.h — runs one model's requests: at once when it is free, together with
// others when it is not and that pays. No knob: what pays is learned (service_times.h), what runs
// next is decided by a pure function (plan.h).
//
// There are no threads here: who submits runs, and runs on with what came meanwhile until nothing
// waits. At most `runners` do at once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "serving/batching/plan.h"
#include "serving/phases.h"
#include "serving/runtime.h"

namespace falaj::serving::batching {

// How a request went.
struct Outcome {
  Result<std::vector<Tensor>> outputs;
  std::size_t runs = 0;   // 1 for the first request of a run, 0 for those that ran along.
  PhaseTimes times = {};  // Queue, batch and execute.
};

struct Job {
  std::vector<Tensor> inputs;
  Waiting order;                                  // `rows` and `shape` are filled in by submit().
  std::shared_ptr<const std::atomic<bool>> gone;  // Null: nobody looks.
  // Called exactly once, on the thread that ran it, with the inputs of the job.
  std::function<void(Outcome outcome, const std::vector<Tensor>& inputs)> done;
};

struct BatcherOptions {
  std::size_t runners = 1;
  std::size_t rows_max = 1;           // Of requests put together; 1: never (see rows_that_agree).
  std::function<std::int64_t()> now;  // Monotonic nanoseconds.
};

// Thread-safe.
class Batcher {
 public:
  Batcher(std::shared_ptr<const Session> session, BatcherOptions options);

  // Runs the job now, or leaves it to a thread that runs already, or refuses it (FJ-5040: it would
  // miss its deadline, or too many wait). A job whose caller has left before it ran is dropped with
  // kCancelled.
  void submit(Job job);

  std::size_t waiting() const;

 private:
  using Jobs = std::vector<std::unique_ptr<Job>>;
  void run_until_idle(std::unique_ptr<Job> first);
  Jobs take_next(Jobs& dropped) FALAJ_REQUIRES(mutex_);
  void take(std::size_t i, Jobs& into) FALAJ_REQUIRES(mutex_);
  void close_ranks() FALAJ_REQUIRES(mutex_);
  static void drop(const Jobs& jobs);
  void run(const Jobs& jobs);
  Duration run_alone(const Job& job) const;
  void run_together(const Jobs& jobs, std::size_t rows);

  const std::shared_ptr<const Session> session_;
  const BatcherOptions options_;
  mutable Mutex mutex_;
  ServiceTimes times_ FALAJ_GUARDED_BY(mutex_);
  // Those that wait, as they came: what decisions look at, and the jobs themselves.
  std::vector<Waiting> line_ FALAJ_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Job>> waiting_ FALAJ_GUARDED_BY(mutex_);
  std::size_t running_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::int64_t free_at_ FALAJ_GUARDED_BY(mutex_) = 0;  // When a runner is expected to be free.
};

// Up to how many rows this model gives, bit for bit, the same answers together as alone; 1 when it
// has no rows, or the kernels that it uses differ with their number. Tries seeded rows in growing
// sizes for about `limit`, and no more of them than 32 MiB hold: 1 when two rows do not fit. Runs
// the model.
std::size_t rows_that_agree(const Session& session, Duration limit);

}  // namespace falaj::serving::batching
