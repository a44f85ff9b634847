// jobs/internal/waits.h — those who wait for a job's end, without a thread each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "jobs/queue.h"

namespace falaj::jobs::internal {

// One thread looks at a job when it was changed, or when somebody's time is over, and tells them.
// Thread-safe. The thread begins with the first wait and ends with stop().
class Waits {
 public:
  using Look = std::function<Result<Job>(const JobId&)>;
  Waits(Look look, WaitLimits limits) : look_(std::move(look)), limits_(limits) {}
  ~Waits() { stop(); }

  // As Queue::when_ended.
  Status add(std::string_view who, const JobId& id, Duration limit, Queue::Then then);
  // The job may have ended.
  void changed(const JobId& id);
  // Everybody is told how their job is now, on this thread; later waits are told at once.
  void stop();

 private:
  struct Wait {
    std::string who;
    JobId id;
    std::int64_t until = 0;  // monotonic_nanos()
    Queue::Then then;
    bool due = true;  // To be looked at: new, or changed() since.
  };

  void work();
  // Takes out what is to be looked at now; waits until there is something. Empty: it is over.
  std::vector<Wait> take_due();
  void tell(std::vector<Wait> due);

  const Look look_;
  const WaitLimits limits_;
  Mutex mutex_;
  CondVar woken_;
  std::vector<Wait> waits_ FALAJ_GUARDED_BY(mutex_);
  // Those being told count too.
  std::size_t count_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::size_t, std::less<>> counts_ FALAJ_GUARDED_BY(mutex_);
  std::uint64_t changes_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool news_ FALAJ_GUARDED_BY(mutex_) = false;
  std::thread thread_ FALAJ_GUARDED_BY(mutex_);
  bool stopped_ FALAJ_GUARDED_BY(mutex_) = false;
};

}  // namespace falaj::jobs::internal
