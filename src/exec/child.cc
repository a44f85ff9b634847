#include "exec/child.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/internal/supervised.h"

namespace falaj::exec {
namespace {

using internal::Fd;
using internal::Supervised;

constexpr std::size_t kLineBytesMax = 64 * 1024;
constexpr std::size_t kOutputKept = 64 * 1024;

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

  std::int64_t pid() const override { return process_->process().pid; }

  ChildExit wait() override {
    if (thread_.joinable()) thread_.join();
    return exit_;
  }

  void stop() override {
    stop_requested_.store(true);
    wake();
  }

  void signal(int number) override {
    signal_requested_.store(number);
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
      const ssize_t sent = ::send(channel(), rest.data(), rest.size(), MSG_NOSIGNAL);
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
    {
      MutexLock lock(sending_);
      channel_open_ = false;
      process_->process().channel.reset();
    }
    if (spec_.on_exit) spec_.on_exit(exit_);
  }

  Status launch() {
    process_ = FALAJ_TRY(Supervised::start(spec_, {}));
    const timeval patience{1, 0};
    ::setsockopt(channel(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    MutexLock lock(sending_);
    channel_open_ = true;
    return {};
  }

  int channel() const { return process_->process().channel.get(); }
  Fd& printing_end() { return process_->process().output; }

  void keep_deadlines(std::int64_t now) {
    if (const int signal = signal_requested_.exchange(0)) {
      ::kill(process_->process().pid, signal);
    }
    if (kill_requested_.exchange(false)) process_->kill_now(ExitReason::kStopped);
    if (stop_requested_.exchange(false)) process_->ask_to_end(ExitReason::kStopped, now);
    process_->keep_deadlines(now);
  }

  int poll_millis(std::int64_t now) const {
    const std::int64_t until = process_->wake_at(now);
    if (until == Supervised::kNever) return -1;
    const std::int64_t millis = (std::max<std::int64_t>(until - now, 0) + 999'999) / 1'000'000;
    return static_cast<int>(std::min<std::int64_t>(millis, 60'000));
  }

  // Returns when the program has ended (it is still to be reaped).
  void supervise() {
    bool reading = true;
    while (true) {
      pollfd waited[4] = {{process_->process().pidfd.get(), POLLIN, 0},
                          {wake_.get(), POLLIN, 0},
                          {reading ? channel() : -1, POLLIN, 0},
                          {printing_end().get(), POLLIN, 0}};
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
      const ssize_t got = ::recv(channel(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return false;
      if (!lines_.feed({bytes, static_cast<std::size_t>(got)}, spec_.on_line)) {
        log::warn("child process ended: a line over 64 KiB on its channel", {{"pid", pid()}});
        process_->kill_tree();
        return false;
      }
      if (got < static_cast<ssize_t>(sizeof bytes)) return true;
    }
  }

  // Takes what is there and keeps the end of it.
  void read_output() {
    char bytes[16 * 1024];
    // More than a pipe holds, but not for ever: who prints without end must still be stopped.
    for (int piece = 0; piece < 16 && printing_end().open(); ++piece) {
      const ssize_t got = ::read(printing_end().get(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return printing_end().reset();
      if (spec_.on_output) spec_.on_output({bytes, static_cast<std::size_t>(got)});
      MutexLock lock(printing_);
      printed_.append(bytes, static_cast<std::size_t>(got));
      // Cut rarely: moving 64 KiB for every line would cost more than reading it.
      if (printed_.size() > 4 * kOutputKept) printed_.erase(0, printed_.size() - kOutputKept);
    }
  }

  void reap() {
    // Descendants that stayed behind go before the leader's number is given back.
    process_->kill_tree();
    while (read_channel_once()) {
    }
    lines_.finish(spec_.on_line);
    read_output();
    printing_end().reset();
    exit_ = process_->reap();
    exit_.output = output();
    process_->take_group().reset();
  }

  // After the end: whatever is still buffered, without waiting for more.
  bool read_channel_once() {
    char bytes[16 * 1024];
    const ssize_t got = ::recv(channel(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) return true;
    return got > 0 && lines_.feed({bytes, static_cast<std::size_t>(got)}, spec_.on_line);
  }

  const ChildSpec spec_;
  Fd wake_;
  std::thread thread_;
  std::unique_ptr<Supervised> process_;
  LineSplitter lines_;
  ChildExit exit_;

  Mutex starting_;
  CondVar started_changed_;
  std::optional<Status> started_ FALAJ_GUARDED_BY(starting_);

  std::atomic<bool> stop_requested_{false};
  std::atomic<bool> kill_requested_{false};
  std::atomic<int> signal_requested_{0};

  mutable Mutex printing_;
  std::string printed_ FALAJ_GUARDED_BY(printing_);

  Mutex sending_;  // The channel is closed under it, so send() never meets a reused descriptor.
  bool channel_open_ FALAJ_GUARDED_BY(sending_) = false;
};

}  // namespace

Result<std::unique_ptr<Child>> Child::start(ChildSpec spec) {
  auto child = std::make_unique<ProcessChild>(std::move(spec));
  FALAJ_TRY(child->begin());
  return std::unique_ptr<Child>(std::move(child));
}

}  // namespace falaj::exec
