#include "serving/isolated/isolated_runtime.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/units.h"
#include "exec/memory_file.h"
#include "serving/datatypes.h"
#include "serving/isolated/lane.h"
#include "serving/isolated/model_message.h"
#include "serving/isolated/model_process.h"
#include "serving/packed_texts.h"

namespace falaj::serving {
namespace {

using isolated::Answer;

const telemetry::MetricInfo kEnds{
    "falaj_serving_isolated_ends_total",
    "Processes of models that ended by themselves or had to be ended.",
    telemetry::MetricKind::kCounter,
    {}};

std::string how_it_ended(const exec::ChildExit& end) {
  switch (end.reason) {
    case exec::ExitReason::kOutOfMemory:
      return "it took more memory than it may";
    case exec::ExitReason::kTimedOut:
    case exec::ExitReason::kStopped:
      return "it was ended";
    case exec::ExitReason::kOutOfDisk:
    case exec::ExitReason::kExited:
    case exec::ExitReason::kSignalled:
      break;
  }
  return (end.by_signal ? "it died of signal " : "it ended with code ") + std::to_string(end.code);
}

// One process, from its start to its end.
class Process {
 public:
  // Waits until the model in it is ready.
  static Result<std::shared_ptr<Process>> start(const IsolationOptions& options,
                                                std::shared_ptr<const Descriptor> model) {
    auto process = std::make_shared<Process>();
    exec::ChildSpec spec = options.process(options.lanes);
    spec.channel_fd = 3;
    spec.inherited.push_back({isolated::kModelDescriptor, std::move(model)});
    for (unsigned i = 0; i < options.lanes; ++i) {
      auto theirs = std::make_shared<const Descriptor>(FALAJ_TRY(process->open_lane()));
      spec.inherited.push_back({isolated::kFirstLane + static_cast<int>(i), std::move(theirs)});
    }
    spec.on_line = [said = process->said_](std::string_view line) { said->take(line); };
    // Not called any more once the child was dropped, which is before its process is.
    spec.on_exit = [said = process->said_, raw = process.get()](const exec::ChildExit& end) {
      said->end(end);
      raw->hang_up();
    };
    auto child = exec::Child::start(std::move(spec));
    if (!child.ok()) return Error(ErrorId::kRuntimeUnavailable, child.error().message);
    process->child_ = std::move(*child);
    process->signature_ = FALAJ_TRY(process->said_->signature(options.load_max));
    return process;
  }

  const registry::Signature& signature() const { return signature_; }
  // How it ended; "" while it lives.
  std::string end() const { return said_->how(); }

  // A lane of its own for one question: kOverloaded when too many wait for one already, or none
  // became free in time. That says nothing about the process.
  Result<int> take_lane(Duration limit) {
    MutexLock lock(mutex_);
    if (free_.empty() && waiting_ >= lanes_.size()) {
      return Error(ErrorId::kOverloaded, "as many requests as may wait for the model's process");
    }
    ++waiting_;
    const bool some =
        freed_.wait_for(mutex_, std::chrono::nanoseconds(limit.nanos),
                        [this]() FALAJ_REQUIRES(mutex_) { return !free_.empty() || hung_up_; });
    --waiting_;
    if (hung_up_) return Error(ErrorId::kOverloaded, "the process of the model has just ended");
    if (!some) return Error(ErrorId::kOverloaded, "the model's process is busy");
    const int lane = free_.back();
    free_.pop_back();
    return lane;
  }

  // Asks over a lane that was taken; gives it back. The error of the outer result is the process's
  // failure, and then it must be dropped.
  Result<Result<Answer>> ask(int lane, std::string_view frame, Duration limit) {
    const std::int64_t until = monotonic_nanos() + limit.nanos;
    // A lane that is left in the middle is never used again: the process goes.
    FALAJ_TRY(isolated::send_frame(lane, frame, until));
    const std::string body = FALAJ_TRY(isolated::receive_frame(lane, until));
    give_lane(lane);
    return isolated::parse_answer(body);
  }

 private:
  // What the process says about itself, on the thread that listens to it.
  class Said {
   public:
    void take(std::string_view line) {
      const Result<Value> value = parse_json(line);
      if (!value.ok()) return;
      MutexLock lock(mutex_);
      if (!first_.is_object()) first_ = *value;
      changed_.notify_all();
    }
    void end(const exec::ChildExit& end) {
      MutexLock lock(mutex_);
      how_ = how_it_ended(end);
      changed_.notify_all();
      // The other ends are open in this process too, for as long as the child is kept: whoever
      // waits for an answer is told here.
      for (const int lane : lanes_) ::shutdown(lane, SHUT_RDWR);
    }
    void hang_up_at_end(int lane) {
      MutexLock lock(mutex_);
      lanes_.push_back(lane);
    }
    std::string how() const {
      MutexLock lock(mutex_);
      return how_;
    }
    Result<registry::Signature> signature(Duration limit) const {
      MutexLock lock(mutex_);
      const bool came = changed_.wait_for(
          mutex_, std::chrono::nanoseconds(limit.nanos),
          [this]() FALAJ_REQUIRES(mutex_) { return first_.is_object() || !how_.empty(); });
      if (!came) return Error(ErrorId::kModelNotReady, "the model took too long to load");
      if (!first_.is_object()) {
        return Error(ErrorId::kModelNotReady, "the process of the model did not start: " + how_);
      }
      if (first_["signature"].is_object()) {
        return registry::signature_from_value(first_["signature"]);
      }
      const bool unavailable = first_.text("code") == to_string(ErrorId::kRuntimeUnavailable);
      return Error(unavailable ? ErrorId::kRuntimeUnavailable : ErrorId::kModelCorrupt,
                   first_.text("error"));
    }

   private:
    mutable Mutex mutex_;
    mutable CondVar changed_;
    Value first_ FALAJ_GUARDED_BY(mutex_);
    std::string how_ FALAJ_GUARDED_BY(mutex_);
    std::vector<int> lanes_ FALAJ_GUARDED_BY(mutex_);
  };

  // Whoever waits for a lane of one that ended waits for nothing.
  void hang_up() {
    MutexLock lock(mutex_);
    hung_up_ = true;
    freed_.notify_all();
  }

  // Keeps our end; theirs is returned.
  Result<Descriptor> open_lane() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return Error(ErrorId::kRuntimeUnavailable,
                   std::string("no socket for the model's process: ") + std::strerror(errno));
    }
    said_->hang_up_at_end(ends[0]);
    MutexLock lock(mutex_);
    lanes_.emplace_back(ends[0]);
    free_.push_back(ends[0]);
    return Descriptor(ends[1]);
  }

  void give_lane(int lane) {
    MutexLock lock(mutex_);
    free_.push_back(lane);
    freed_.notify_one();
  }

  std::shared_ptr<Said> said_ = std::make_shared<Said>();
  registry::Signature signature_;
  Mutex mutex_;
  CondVar freed_;
  std::vector<Descriptor> lanes_ FALAJ_GUARDED_BY(mutex_);
  std::vector<int> free_ FALAJ_GUARDED_BY(mutex_);
  std::size_t waiting_ FALAJ_GUARDED_BY(mutex_) = 0;  // For a lane.
  bool hung_up_ FALAJ_GUARDED_BY(mutex_) = false;
  std::unique_ptr<exec::Child> child_;  // Ends first: nobody answers a lane that is closed.
};

// Whether the bytes are what name, type and shape say.
bool fits(const Tensor& tensor, const registry::TensorSpec& spec) {
  const Result<std::size_t> count = element_count(tensor.shape);
  const Result<Datatype> type = parse_datatype(spec.datatype);
  if (tensor.name != spec.name || tensor.datatype != spec.datatype || !count.ok() || !type.ok()) {
    return false;
  }
  if (*type == Datatype::kBytes) return unpack_texts(tensor.bytes, *count).ok();
  return tensor.bytes.size() == *count * element_bytes(*type);
}

class IsolatedSession final : public Session {
 public:
  IsolatedSession(const IsolationOptions& options, std::shared_ptr<const Descriptor> model,
                  std::shared_ptr<Process> process, telemetry::Counter& ends)
      : options_(options),
        model_(std::move(model)),
        signature_(process->signature()),
        ends_(ends),
        process_(std::move(process)) {}

  const registry::Signature& signature() const override { return signature_; }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    Answer answer = FALAJ_TRY(ask(FALAJ_TRY(isolated::frame_of_run(inputs)), [&](const Answer& a) {
      const auto* outputs = std::get_if<std::vector<Tensor>>(&a);
      return outputs != nullptr && std::ranges::equal(*outputs, signature_.outputs, fits);
    }));
    return std::get<std::vector<Tensor>>(std::move(answer));
  }

  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    const std::string frame = FALAJ_TRY(isolated::frame_of_score(matrix, columns));
    Answer answer = FALAJ_TRY(ask(frame, [&](const Answer& a) {
      const auto* given = std::get_if<std::vector<float>>(&a);
      return given != nullptr && columns > 0 && given->size() * columns == matrix.size();
    }));
    scores = std::get<std::vector<float>>(std::move(answer));
    return {};
  }

  bool may_wait() const override { return true; }

 private:
  Result<Answer> ask(std::string_view frame,
                     const std::function<bool(const Answer&)>& whole) const {
    const std::shared_ptr<Process> process = FALAJ_TRY(living());
    const int lane = FALAJ_TRY(process->take_lane(options_.answer_max));
    Result<Result<Answer>> said = process->ask(lane, frame, options_.answer_max);
    if (!said.ok()) return failed(process, said.error());
    Result<Answer>& answer = *said;
    if (answer.ok() && !whole(*answer)) {
      return failed(process, Error(Code::kInvalidArgument, "it answered what its model cannot"));
    }
    MutexLock lock(mutex_);
    failures_ = 0;
    return std::move(answer);
  }

  // The process, started again when it ended and the pause is over.
  Result<std::shared_ptr<Process>> living() const {
    {
      MutexLock lock(mutex_);
      if (process_ != nullptr && process_->end().empty()) return process_;
      if (process_ != nullptr) note_failure(process_->end());
      const std::int64_t left = again_at_ - monotonic_nanos();
      if (starting_ || left > 0) {
        return Error(
            ErrorId::kModelNotReady,
            "the process of the model ended (" + why_ + ") and is started again " +
                (starting_ ? "now" : "in " + std::to_string(left / 1'000'000 + 1) + " ms"));
      }
      starting_ = true;
    }
    Result<std::shared_ptr<Process>> fresh = Process::start(options_, model_);
    MutexLock lock(mutex_);
    starting_ = false;
    if (!fresh.ok()) {
      note_failure(fresh.error().message);
      return Error(ErrorId::kModelNotReady, why_);
    }
    process_ = *fresh;
    return fresh;
  }

  // Ends what failed, unless somebody has replaced it already.
  Error failed(const std::shared_ptr<Process>& process, const Error& error) const {
    std::string why = error.message;
    if (error.code == Code::kDeadlineExceeded) {
      why = "it did not answer within " + to_string(options_.answer_max);
    } else if (error.code == Code::kUnavailable) {
      const std::string end = process->end();
      if (!end.empty()) why = end;
    }
    MutexLock lock(mutex_);
    if (process_ == process) note_failure(why);
    return Error(
        error.code == Code::kInvalidArgument ? ErrorId::kInternal : ErrorId::kModelNotReady,
        "the process of the model failed: " + why + "; it is started again");
  }

  void note_failure(const std::string& why) const FALAJ_REQUIRES(mutex_) {
    why_ = why;
    process_.reset();
    ++failures_;
    again_at_ = monotonic_nanos() + pause_after(failures_, options_).nanos;
    ends_.add();
    log::warn("the process of a model ended", {{"why", why}, {"in a row", failures_}});
  }

  const IsolationOptions& options_;
  const std::shared_ptr<const Descriptor> model_;
  const registry::Signature signature_;
  telemetry::Counter& ends_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<Process> process_ FALAJ_GUARDED_BY(mutex_);  // Null: it ended.
  mutable bool starting_ FALAJ_GUARDED_BY(mutex_) = false;
  mutable int failures_ FALAJ_GUARDED_BY(mutex_) = 0;
  mutable std::int64_t again_at_ FALAJ_GUARDED_BY(mutex_) = 0;
  mutable std::string why_ FALAJ_GUARDED_BY(mutex_);
};

class IsolatedRuntime final : public Runtime {
 public:
  IsolatedRuntime(IsolationOptions options, telemetry::Metrics& metrics)
      : options_(std::move(options)), ends_(metrics.counter(kEnds)) {
    options_.lanes = std::clamp(options_.lanes, 1U, isolated::kLanesMax);
  }

  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    auto file = std::make_shared<const Descriptor>(
        FALAJ_TRY(exec::make_sealed_memory_file("model", model)));
    auto process = FALAJ_TRY(Process::start(options_, file));
    return std::unique_ptr<Session>(
        std::make_unique<IsolatedSession>(options_, std::move(file), std::move(process), ends_));
  }
  std::string version() const override { return options_.version; }

 private:
  IsolationOptions options_;
  telemetry::Counter& ends_;
};

}  // namespace

Duration pause_after(int failures, const IsolationOptions& options) {
  const int doublings = std::clamp(failures - 1, 0, 20);
  const std::int64_t longest = options.pause_max.nanos;
  if (options.pause_min.nanos > (longest >> doublings)) return options.pause_max;
  return {options.pause_min.nanos << doublings};
}

std::unique_ptr<Runtime> isolated_runtime(IsolationOptions options, telemetry::Metrics& metrics) {
  return std::make_unique<IsolatedRuntime>(std::move(options), metrics);
}

}  // namespace falaj::serving
