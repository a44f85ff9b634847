#include "jobs/local_executor.h"

#include <map>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "exec/bounded_log.h"

namespace falaj::jobs {
namespace {

EndReason reason_of(exec::ExitReason reason) {
  switch (reason) {
    case exec::ExitReason::kExited:
      return EndReason::kExited;
    case exec::ExitReason::kSignalled:
      return EndReason::kSignalled;
    case exec::ExitReason::kOutOfMemory:
      return EndReason::kOutOfMemory;
    case exec::ExitReason::kTimedOut:
      return EndReason::kTimedOut;
    case exec::ExitReason::kStopped:
      return EndReason::kStopped;
    case exec::ExitReason::kOutOfDisk:
      return EndReason::kOutOfDisk;
  }
  return EndReason::kLost;
}

class LocalExecutor final : public Executor {
 public:
  explicit LocalExecutor(const Clock& clock) : clock_(clock) {}

  ~LocalExecutor() override {
    when_changed({});
    std::map<AttemptId, Held> left;
    {
      MutexLock lock(mutex_);
      left.swap(held_);
    }
  }  // Children are killed as they go.

  Status start(const AttemptId& id, const Work& work) override {
    {
      MutexLock lock(mutex_);
      if (!held_.try_emplace(id).second) return {};
      held_[id].attempt.id = id;
      held_[id].attempt.started_at = clock_.now();
    }
    auto log = exec::BoundedLog::open(work.log_path, work.log_bytes_max);
    if (!log.ok()) {
      MutexLock lock(mutex_);
      held_.erase(id);
      return log.error();
    }
    auto kept = std::make_shared<exec::BoundedLog>(std::move(log).value());
    auto child = exec::Child::start(spec_of(id, work, kept));
    if (!child.ok()) {
      kept->write("falaj: " + child.error().message + "\n");
      (void)kept->finish();
      AttemptEnd end;
      end.reason = EndReason::kNotStarted;
      end.detail = child.error().message;
      record(id, std::move(end));
      return {};
    }
    keep(id, std::move(child).value());
    return {};
  }

  Status stop(const AttemptId& id) override {
    MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end()) {
      return Error(Code::kNotFound, "no attempt " + to_string(id) + " is known");
    }
    if (found->second.attempt.end) return {};
    found->second.stopped = true;
    if (found->second.child != nullptr) found->second.child->stop();
    return {};
  }

  Result<std::vector<Attempt>> list() const override {
    std::vector<Attempt> out;
    MutexLock lock(mutex_);
    out.reserve(held_.size());
    for (const auto& [id, held] : held_) out.push_back(held.attempt);
    return out;
  }

  Status forget(const AttemptId& id) override {
    std::unique_ptr<exec::Child> child;  // Let go without the lock: its thread may want it.
    MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end()) return {};
    if (!found->second.attempt.end) {
      return Error(Code::kConflict, "attempt " + to_string(id) + " runs: stop it first");
    }
    child = std::move(found->second.child);
    held_.erase(found);
    return {};
  }

  void when_changed(std::function<void()> changed) override {
    MutexLock lock(telling_);
    changed_ = std::move(changed);
  }

 private:
  struct Held {
    Attempt attempt;
    std::unique_ptr<exec::Child> child;
    bool stopped = false;
  };

  exec::ChildSpec spec_of(const AttemptId& id, const Work& work,
                          const std::shared_ptr<exec::BoundedLog>& log) {
    exec::ChildSpec spec;
    spec.argv = work.argv;
    spec.env = work.env;
    spec.work_dir = work.work_dir;
    spec.sandbox = work.sandbox;
    spec.limits = work.limits;
    spec.channel_fd = -1;
    spec.on_output = [log](std::string_view bytes) { log->write(bytes); };
    spec.on_exit = [this, id, log](const exec::ChildExit& exit) {
      AttemptEnd end;
      end.reason = reason_of(exit.reason);
      end.code = exit.code;
      end.memory_peak_bytes = exit.memory_peak_bytes;
      end.cpu_time = exit.cpu_time;
      end.log_bytes_cut = log->finish();
      record(id, std::move(end));
    };
    return spec;
  }

  // It may have ended, and been forgotten, before this.
  void keep(const AttemptId& id, std::unique_ptr<exec::Child> child) {
    MutexLock lock(mutex_);
    const auto found = held_.find(id);
    if (found == held_.end()) return;
    Held& held = found->second;
    if (!held.attempt.end) held.attempt.pid = child->pid();
    held.child = std::move(child);
    if (held.stopped) held.child->stop();
  }

  void record(const AttemptId& id, AttemptEnd end) {
    end.ended_at = clock_.now();
    {
      MutexLock lock(mutex_);
      const auto found = held_.find(id);
      if (found == held_.end()) return;  // The executor goes down.
      found->second.attempt.pid = 0;
      if (end.reason != EndReason::kNotStarted) {
        end.run_time = end.ended_at - found->second.attempt.started_at;
      }
      found->second.attempt.end = std::move(end);
    }
    MutexLock lock(telling_);
    if (changed_) changed_();
  }

  const Clock& clock_;
  mutable Mutex mutex_;
  std::map<AttemptId, Held> held_ FALAJ_GUARDED_BY(mutex_);
  Mutex telling_;
  std::function<void()> changed_ FALAJ_GUARDED_BY(telling_);
};

}  // namespace

std::unique_ptr<Executor> make_local_executor(const Clock& clock) {
  return std::make_unique<LocalExecutor>(clock);
}

}  // namespace falaj::jobs
