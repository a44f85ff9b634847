#include "exec/child.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/internal/spawn.h"

namespace falaj::exec {
namespace {

using internal::ControlGroup;
using internal::Fd;

constexpr std::size_t kLineBytesMax = 64 * 1024;
constexpr std::size_t kOutputKept = 64 * 1024;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// How often memory is looked at when there is no control group to watch it.
constexpr std::int64_t kWatchNanos = 20'000'000;

// Cuts a stream of bytes into lines.
class LineSplitter {
 public:
  // False when a line grew past the limit.
  bool feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (partial_.size() + part.size() > kLineBytesMax) return false;
      partial_.append(part);
      if (end == std::string_view::npos) return true;
      if (on_line) on_line(partial_);
      partial_.clear();
      bytes.remove_prefix(end + 1);
    }
    return true;
  }
  // The last line need not end with a newline.
  void finish(const std::function<void(std::string_view)>& on_line) {
    if (!partial_.empty() && on_line) on_line(partial_);
    partial_.clear();
  }

 private:
  std::string partial_;
};

std::int64_t resident_bytes(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/statm", static_cast<int>(pid));
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  long total = 0;
  long resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? static_cast<std::int64_t>(resident) * ::sysconf(_SC_PAGESIZE) : 0;
}

// One thread per child: it forks (so the child dies with it, hence with this process), reads the
// channel, keeps the deadlines and reaps. stop(), send() and the destructor only leave it a word.
class ProcessChild final : public Child {
 public:
  explicit ProcessChild(ChildSpec spec)
      : spec_(std::move(spec)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~ProcessChild() override {
    kill_requested_.store(true);
    wake();
    if (thread_.joinable()) thread_.join();
  }

  Status begin() {
    if (!wake_.open()) return Error(Code::kInternal, "open an eventfd for a child process");
    thread_ = std::thread([this] { run(); });
    MutexLock lock(starting_);
    started_changed_.wait(starting_,
                          [this]() FALAJ_REQUIRES(starting_) { return started_.has_value(); });
    return *started_;
  }

  std::int64_t pid() const override { return process_.pid; }

  ChildExit wait() override {
    if (thread_.joinable()) thread_.join();
    return exit_;
  }

  void stop() override {
    stop_requested_.store(true);
    wake();
  }

  std::string output() const override {
    MutexLock lock(printing_);
    return std::string(std::string_view(printed_).substr(
        printed_.size() > kOutputKept ? printed_.size() - kOutputKept : 0));
  }

  Status send(std::string_view line) override {
    if (line.find('\n') != std::string_view::npos || line.size() > kLineBytesMax) {
      return Error(Code::kInvalidArgument, "a line to a child is at most 64 KiB without newlines");
    }
    const std::string bytes = std::string(line) + '\n';
    MutexLock lock(sending_);
    std::string_view rest = bytes;
    while (channel_open_ && !rest.empty()) {
      // A child that reads nothing for a second (SO_SNDTIMEO) counts as gone.
      const ssize_t sent = ::send(process_.channel.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    if (rest.empty()) return {};
    return Error(Code::kUnavailable, "the child process has closed its channel: it is ending");
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "child");
    Status status = launch();
    const bool running = status.ok();
    {
      MutexLock lock(starting_);
      started_ = std::move(status);
    }
    started_changed_.notify_all();
    if (!running) return;
    supervise();
    reap();
    MutexLock lock(sending_);
    channel_open_ = false;
    process_.channel.reset();
  }

  Status launch() {
    const Limits& limits = spec_.limits;
    if (spec_.sandbox.enabled || limits.memory_bytes_max > 0 || limits.processes_max > 0) {
      auto group =
          ControlGroup::create({limits.memory_bytes_max, limits.processes_max, limits.cpus_max});
      if (group.ok()) {
        group_ = std::move(group).value();
        exit_.protections_refused = group_->refused();
      } else {
        exit_.protections_refused.push_back("cgroup-memory: " + group.error().message);
      }
    }
    internal::Spawned spawned = FALAJ_TRY(internal::spawn(spec_, group_.get()));
    for (std::string& name : spawned.protections) exit_.protections.push_back(std::move(name));
    for (std::string& name : spawned.protections_refused) {
      log::warn("sandbox protection refused", {{"protection", name}, {"pid", spawned.pid}});
      exit_.protections_refused.push_back(std::move(name));
    }
    const timeval patience{1, 0};
    ::setsockopt(spawned.channel.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    MutexLock lock(sending_);
    process_ = std::move(spawned);
    channel_open_ = true;
    return {};
  }

  // Signals the group. Its leader is not reaped yet, so the number is still its own.
  void signal_group(int signal) const { ::kill(-process_.pid, signal); }

  void begin_ending(ExitReason reason, std::int64_t now) {
    if (ending_) return;
    ending_ = true;
    reason_ = reason;
    signal_group(SIGTERM);
    kill_at_ = now + std::max<std::int64_t>(spec_.limits.grace.nanos, 0);
  }

  void kill_now(ExitReason reason) {
    if (!ending_) reason_ = reason;
    ending_ = true;
    kill_at_ = kNever;
    if (group_) group_->kill_all();
    signal_group(SIGKILL);
  }

  void keep_deadlines(std::int64_t now) {
    if (kill_requested_.exchange(false)) kill_now(ExitReason::kStopped);
    if (stop_requested_.exchange(false)) begin_ending(ExitReason::kStopped, now);
    if (now >= stop_at_) begin_ending(ExitReason::kTimedOut, now);
    if (now >= kill_at_) kill_now(reason_.value_or(ExitReason::kStopped));
    if (watch_memory_ && resident_bytes(process_.pid) > spec_.limits.memory_bytes_max / 10 * 9) {
      watch_memory_ = false;
      kill_now(ExitReason::kOutOfMemory);
    }
  }

  int poll_millis(std::int64_t now) const {
    std::int64_t until = std::min(kill_at_, ending_ ? kNever : stop_at_);
    if (watch_memory_) until = std::min(until, now + kWatchNanos);
    if (until == kNever) return -1;
    const std::int64_t millis = (std::max<std::int64_t>(until - now, 0) + 999'999) / 1'000'000;
    return static_cast<int>(std::min<std::int64_t>(millis, 60'000));
  }

  // Returns when the program has ended (it is still to be reaped).
  void supervise() {
    const std::int64_t start = monotonic_nanos();
    if (spec_.limits.run_time_max.nanos > 0) stop_at_ = start + spec_.limits.run_time_max.nanos;
    watch_memory_ = spec_.limits.memory_bytes_max > 0 && !process_.in_memory_group;
    bool reading = true;
    while (true) {
      pollfd waited[4] = {{process_.pidfd.get(), POLLIN, 0},
                          {wake_.get(), POLLIN, 0},
                          {reading ? process_.channel.get() : -1, POLLIN, 0},
                          {process_.output.open() ? process_.output.get() : -1, POLLIN, 0}};
      const int ready = ::poll(waited, 4, poll_millis(monotonic_nanos()));
      FALAJ_CHECK(ready >= 0 || errno == EINTR);
      if (ready > 0 && waited[1].revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
      }
      keep_deadlines(monotonic_nanos());
      if (ready <= 0) continue;
      if (waited[2].revents != 0) reading = read_channel();
      if (waited[3].revents != 0) read_output();
      if (waited[0].revents != 0) return;
    }
  }

  // Takes what is there. False when nothing will follow.
  bool read_channel() {
    char bytes[16 * 1024];
    while (true) {
      const ssize_t got = ::recv(process_.channel.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return false;
      if (!lines_.feed({bytes, static_cast<std::size_t>(got)}, spec_.on_line)) {
        log::warn("child process ended: a line over 64 KiB on its channel", {{"pid", pid()}});
        signal_group(SIGKILL);
        return false;
      }
      if (got < static_cast<ssize_t>(sizeof bytes)) return true;
    }
  }

  // Takes what is there and keeps the end of it.
  void read_output() {
    char bytes[16 * 1024];
    while (process_.output.open()) {
      const ssize_t got = ::read(process_.output.get(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return process_.output.reset();
      MutexLock lock(printing_);
      printed_.append(bytes, static_cast<std::size_t>(got));
      // Cut rarely: moving 64 KiB for every line would cost more than reading it.
      if (printed_.size() > 4 * kOutputKept) printed_.erase(0, printed_.size() - kOutputKept);
    }
  }

  void reap() {
    // Descendants that stayed behind go before the leader's number is given back.
    if (group_) group_->kill_all();
    signal_group(SIGKILL);
    while (read_channel_once()) {
    }
    lines_.finish(spec_.on_line);
    read_output();
    process_.output.reset();
    exit_.output = output();
    int status = 0;
    rusage usage{};
    while (::wait4(process_.pid, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    describe_exit(status, usage);
    group_.reset();
  }

  // After the end: whatever is still buffered, without waiting for more.
  bool read_channel_once() {
    char bytes[16 * 1024];
    const ssize_t got = ::recv(process_.channel.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) return true;
    return got > 0 && lines_.feed({bytes, static_cast<std::size_t>(got)}, spec_.on_line);
  }

  void describe_exit(int status, const rusage& usage) {
    const bool signalled = WIFSIGNALED(status);
    exit_.code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
    exit_.reason = reason_.value_or(signalled ? ExitReason::kSignalled : ExitReason::kExited);
    // The kernel's kill for want of memory looks like any other SIGKILL but for the counter.
    if (process_.in_memory_group && group_ && group_->out_of_memory()) {
      exit_.reason = ExitReason::kOutOfMemory;
    }
    const auto nanos = [](const timeval& t) {
      return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_usec * 1'000;
    };
    exit_.cpu_time = Duration{nanos(usage.ru_utime) + nanos(usage.ru_stime)};
    // ru_maxrss counts this process's own pages from before the exec; the group's peak does not.
    const std::int64_t peak = process_.in_memory_group && group_ ? group_->peak_bytes() : 0;
    exit_.memory_peak_bytes = peak > 0 ? peak : std::int64_t{usage.ru_maxrss} * 1024;
  }

  const ChildSpec spec_;
  Fd wake_;
  std::thread thread_;
  std::unique_ptr<ControlGroup> group_;
  internal::Spawned process_;
  LineSplitter lines_;
  ChildExit exit_;

  Mutex starting_;
  CondVar started_changed_;
  std::optional<Status> started_ FALAJ_GUARDED_BY(starting_);

  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> kill_requested_{false};

  mutable Mutex printing_;
  std::string printed_ FALAJ_GUARDED_BY(printing_);

  Mutex sending_;  // The channel is closed under it, so send() never meets a reused descriptor.
  bool channel_open_ FALAJ_GUARDED_BY(sending_) = false;

  // The supervisor's own.
  bool ending_ = false;
  bool watch_memory_ = false;
  std::optional<ExitReason> reason_;
  std::int64_t stop_at_ = kNever;
  std::int64_t kill_at_ = kNever;
};

}  // namespace

Result<std::unique_ptr<Child>> Child::start(ChildSpec spec) {
  auto child = std::make_unique<ProcessChild>(std::move(spec));
  FALAJ_TRY(child->begin());
  return std::unique_ptr<Child>(std::move(child));
}

}  // namespace falaj::exec
