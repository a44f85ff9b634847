#include "jobs/warden_executor.h"

#include <map>
#include <utility>

#include "base/mutex.h"
#include "exec/wards.h"

namespace falaj::jobs {
namespace {

EndReason reason_of(exec::WardEndReason reason) {
  switch (reason) {
    case exec::WardEndReason::kExited:
      return EndReason::kExited;
    case exec::WardEndReason::kSignalled:
      return EndReason::kSignalled;
    case exec::WardEndReason::kOutOfMemory:
      return EndReason::kOutOfMemory;
    case exec::WardEndReason::kTimedOut:
      return EndReason::kTimedOut;
    case exec::WardEndReason::kStopped:
      return EndReason::kStopped;
    case exec::WardEndReason::kOutOfDisk:
      return EndReason::kOutOfDisk;
    case exec::WardEndReason::kNotStarted:
      return EndReason::kNotStarted;
    case exec::WardEndReason::kLost:
      return EndReason::kLost;
  }
  return EndReason::kLost;
}

exec::WardSpec spec_of(const Work& work) {
  exec::WardSpec spec;
  spec.argv = work.argv;
  spec.env = work.env;
  spec.work_dir = work.work_dir;
  spec.log_path = work.log_path;
  spec.log_bytes_max = work.log_bytes_max;
  spec.limits = work.limits;
  spec.sandbox = work.sandbox;
  spec.gpus = work.gpus;
  return spec;
}

Attempt attempt_of(AttemptId id, const exec::Ward& ward) {
  Attempt out;
  out.id = std::move(id);
  out.started_at = ward.started_at;
  out.pid = ward.pid;
  out.memory_bytes = ward.usage.memory_bytes;
  out.cpu_time = ward.usage.cpu_time;
  if (!ward.end) return out;
  AttemptEnd end;
  end.reason = reason_of(ward.end->reason);
  end.code = ward.end->code;
  end.detail = ward.end->detail;
  end.memory_peak_bytes = ward.end->memory_peak_bytes;
  end.cpu_time = ward.end->cpu_time;
  const bool ran = end.reason != EndReason::kNotStarted && end.reason != EndReason::kLost;
  if (ran && ward.end->ended_at > ward.started_at) {
    end.run_time = ward.end->ended_at - ward.started_at;
  }
  end.log_bytes_cut = ward.end->log_bytes_cut;
  end.ended_at = ward.end->ended_at;
  out.end = std::move(end);
  return out;
}

class WardenExecutor final : public Executor {
 public:
  ~WardenExecutor() override {
    when_changed({});
    // Refused while something runs: then it stays for the next server.
    if (wards_) (void)wards_->dismiss();
  }

  Status open(WardenExecutorOptions options) {
    exec::WardsOptions wards;
    wards.folder = std::move(options.folder);
    wards.warden = std::move(options.warden);
    wards.changed = [this](std::string_view) { tell(); };
    wards_ = FALAJ_TRY(exec::Wards::open(std::move(wards)));
    return {};
  }

  Status start(const AttemptId& id, const Work& work) override {
    const Status status = wards_->start(to_string(id), spec_of(work));
    if (status.ok() || status.error().code == Code::kUnavailable) return status;
    if (status.error().code == Code::kResourceExhausted) {
      return Error(Code::kUnavailable, status.error().message);
    }
    refuse(id, status.error().message);
    return {};
  }

  Status stop(const AttemptId& id) override {
    {
      MutexLock lock(mutex_);
      if (refused_.contains(id)) return {};
    }
    return wards_->stop(to_string(id));
  }

  Result<std::vector<Attempt>> list() const override {
    const std::vector<exec::Ward> wards = FALAJ_TRY(wards_->list());
    std::vector<Attempt> out;
    for (const exec::Ward& ward : wards) {
      auto id = parse_attempt(ward.id);
      if (id.ok()) out.push_back(attempt_of(std::move(*id), ward));
    }
    MutexLock lock(mutex_);
    for (const auto& [id, attempt] : refused_) out.push_back(attempt);
    return out;
  }

  Result<UsageCurve> curve(const AttemptId& id) const override {
    return wards_->curve(to_string(id));
  }

  Status forget(const AttemptId& id) override {
    {
      MutexLock lock(mutex_);
      if (refused_.erase(id) > 0) return {};
    }
    return wards_->forget(to_string(id));
  }

  void when_changed(std::function<void()> changed) override {
    MutexLock lock(telling_);
    changed_ = std::move(changed);
  }

 private:
  void tell() {
    MutexLock lock(telling_);
    if (changed_) changed_();
  }

  // What the warden would not even write down: known here until it is forgotten.
  void refuse(const AttemptId& id, const std::string& why) {
    Attempt attempt;
    attempt.id = id;
    attempt.started_at = SystemClock().now();
    attempt.end = AttemptEnd{};
    attempt.end->reason = EndReason::kNotStarted;
    attempt.end->detail = why;
    attempt.end->ended_at = attempt.started_at;
    {
      MutexLock lock(mutex_);
      refused_.emplace(id, std::move(attempt));
    }
    tell();
  }

  Mutex telling_;
  std::function<void()> changed_ FALAJ_GUARDED_BY(telling_);
  mutable Mutex mutex_;
  std::map<AttemptId, Attempt> refused_ FALAJ_GUARDED_BY(mutex_);
  std::unique_ptr<exec::Wards> wards_;  // Goes first: its thread calls tell().
};

}  // namespace

Result<std::unique_ptr<Executor>> make_warden_executor(WardenExecutorOptions options) {
  auto executor = std::make_unique<WardenExecutor>();
  FALAJ_TRY(executor->open(std::move(options)));
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace falaj::jobs
