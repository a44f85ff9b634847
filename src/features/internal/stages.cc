#include "features/internal/stages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "exec/pool.h"

namespace falaj::features {
namespace {

// What all threads look at.
class Shared {
 public:
  explicit Shared(const std::vector<Stage>& stages) : stages_(stages), done_(stages.size(), 0) {}

  void run(std::size_t worker) {
    while (const auto next = take()) {
      Status status = stages_[next->first].work(worker, next->second);
      const MutexLock lock(mutex_);
      ++done_[next->first];
      if (!status.ok() && error_.ok()) error_ = std::move(status);
      changed_.notify_all();
    }
  }

  Status error() {
    const MutexLock lock(mutex_);
    return error_;
  }

 private:
  // The next stage and task, when it may begin; nothing when there is none.
  std::optional<std::pair<std::size_t, std::size_t>> take() {
    const MutexLock lock(mutex_);
    while (stage_ < stages_.size() && task_ == stages_[stage_].tasks) {
      ++stage_;
      task_ = 0;
    }
    if (stage_ == stages_.size() || !error_.ok()) return std::nullopt;
    const std::pair out(stage_, task_++);
    changed_.wait(mutex_, [&]() FALAJ_REQUIRES(mutex_) {
      return !error_.ok() || may_begin(stages_[out.first]);
    });
    if (!error_.ok()) return std::nullopt;
    return out;
  }

  // A stage without tasks is done when those before it are.
  bool may_begin(const Stage& stage) const FALAJ_REQUIRES(mutex_) {
    for (const std::size_t before : stage.after) {
      if (done_[before] < stages_[before].tasks) return false;
      if (stages_[before].tasks == 0 && !may_begin(stages_[before])) return false;
    }
    return true;
  }

  const std::vector<Stage>& stages_;
  Mutex mutex_;
  CondVar changed_;
  std::size_t stage_ FALAJ_GUARDED_BY(mutex_) = 0;  // The next task to begin.
  std::size_t task_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::vector<std::size_t> done_ FALAJ_GUARDED_BY(mutex_);
  Status error_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace

Status run_stages(const std::vector<Stage>& stages, std::size_t threads) {
  std::size_t most = 1;
  for (const Stage& stage : stages) most = std::max(most, stage.tasks);
  const std::size_t used = std::max<std::size_t>(1, std::min(threads, most));
  Shared shared(stages);
  if (used == 1) {
    shared.run(0);
    return shared.error();
  }
  exec::Pool pool({"join", used - 1, used});
  for (std::size_t i = 1; i < used; ++i) {
    // A pool that is full leaves the work to the others.
    if (!pool.submit([&shared, i] { shared.run(i); }).ok()) break;
  }
  shared.run(0);
  pool.drain();
  return shared.error();
}

}  // namespace falaj::features
