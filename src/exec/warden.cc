#include "exec/warden.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/descriptor.h"
#include "base/hash.h"
#include "exec/dumps.h"
#include "exec/internal/spawn.h"
#include "exec/internal/ward_book.h"
#include "exec/internal/ward_door.h"

namespace falaj::exec {
namespace {

using internal::WardBook;
using internal::WardDoor;
using internal::WardOp;
using internal::WardReply;
using internal::WardRequest;

constexpr std::uint64_t kSignalMark = WardBook::kMarksBelow;
constexpr std::uint64_t kDoorMark = WardBook::kMarksBelow + 1;
// How often the folder is looked at, and whether there is still something to do.
constexpr std::int64_t kLookNanos = 1'000'000'000;
constexpr std::size_t kPageBytes = 512 * 1024;

Error failed(const std::string& what) {
  return Error(Code::kUnavailable, what + ": " + std::strerror(errno));
}

std::string hex(const unsigned char* bytes, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back("0123456789abcdef"[bytes[i] >> 4]);
    out.push_back("0123456789abcdef"[bytes[i] & 15]);
  }
  return out;
}

// A new secret in a file that only the owner reads, put there whole.
Result<std::string> make_token(const std::string& folder) {
  unsigned char bytes[32];
  if (::getrandom(bytes, sizeof bytes, 0) != ssize_t{sizeof bytes}) return failed("get randomness");
  std::string token = hex(bytes, sizeof bytes);
  const std::string path = folder + "/token";
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const Descriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid() ||
      ::write(file.get(), token.data(), token.size()) != static_cast<ssize_t>(token.size()) ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    return failed("write " + path);
  }
  return token;
}

// The names of this folder's control groups have this in them.
std::string group_tag(const std::string& folder) { return "w" + sha256_hex(folder).substr(0, 12); }

Result<Descriptor> block_and_watch_signals(int watch) {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&taken, signal);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Descriptor signals(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return failed("open a signal descriptor");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kSignalMark;
  ::epoll_ctl(watch, EPOLL_CTL_ADD, signals.get(), &event);
  return signals;
}

class Warden {
 public:
  Warden(const WardenOptions& options, Descriptor lock)
      : options_(options), lock_(std::move(lock)), watch_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Status prepare() {
    if (!watch_.valid()) return failed("open an epoll set");
    if (::ftruncate(lock_.get(), 0) != 0 || ::dprintf(lock_.get(), "%d", ::getpid()) < 0) {
      return failed("write the lock");
    }
    signals_ = FALAJ_TRY(block_and_watch_signals(watch_.get()));
    const std::string& folder = options_.folder;
    book_ = FALAJ_TRY(WardBook::open(folder + "/journal", group_tag(folder), watch_.get()));
    const std::string token = FALAJ_TRY(make_token(folder));
    WardDoor door = FALAJ_TRY(WardDoor::open(folder, token, watch_.get(), kDoorMark));
    door_ = std::make_unique<WardDoor>(std::move(door));
    return {};
  }

  Status serve() {
    busy_until_ = monotonic_nanos();
    while (!over_) {
      FALAJ_TRY(turn());
      look(monotonic_nanos());
    }
    return {};
  }

 private:
  Status turn() {
    std::array<epoll_event, 128> events;
    const int ready = ::epoll_wait(watch_.get(), events.data(), static_cast<int>(events.size()),
                                   wait_millis(monotonic_nanos()));
    if (ready < 0 && errno != EINTR) return failed("wait for events");
    for (int i = 0; i < ready; ++i) {
      dispatch(events[static_cast<std::size_t>(i)].data.u64);
    }
    book_->work(monotonic_nanos());
    const auto changed = FALAJ_TRY(book_->commit());
    for (const auto& [client, reply] : after_commit_) door_->reply(client, reply);
    after_commit_.clear();
    for (const std::string& id : changed) {
      WardReply event;
      event.changed = id;
      door_->tell_all(event);
    }
    door_->flush();
    return {};
  }

  int wait_millis(std::int64_t now) const {
    const std::int64_t until = std::min(book_->wake_at(now), now + kLookNanos);
    return static_cast<int>((std::max<std::int64_t>(until - now, 0) + 999'999) / 1'000'000);
  }

  void dispatch(std::uint64_t mark) {
    if (mark < WardBook::kMarksBelow) return book_->serve(mark);
    if (mark != kSignalMark) {
      return door_->serve(mark, [this](WardDoor::Client client, const WardRequest& request) {
        answer(client, request);
      });
    }
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == ssize_t{sizeof info}) {
      if (info.ssi_signo == SIGTERM) ending_ = true;
    }
    if (ending_) book_->stop_all();
  }

  // Whether to go on. The lock's name goes with the folder.
  void look(std::int64_t now) {
    if (!book_->idle() || door_->clients() > 0) busy_until_ = now;
    if (now - busy_until_ >= options_.idle_max.nanos || (ending_ && book_->idle())) over_ = true;
    if (now < look_at_) return;
    look_at_ = now + kLookNanos;
    struct stat info {};
    if (::fstat(lock_.get(), &info) != 0 || info.st_nlink == 0) over_ = true;
  }

  // The reply goes out with the next commit: what it says is then on the disk.
  void answer(WardDoor::Client client, const WardRequest& request) {
    // Whoever asks gets no answer and asks the next one.
    if (ending_ && request.op == WardOp::kStart) return;
    WardReply reply;
    const Status status = act(request, reply);
    if (!status.ok()) {
      reply = {};
      reply.error = status.error();
    }
    reply.number = request.number;
    after_commit_.emplace_back(client, std::move(reply));
  }

  Status act(const WardRequest& request, WardReply& reply) {
    switch (request.op) {
      case WardOp::kGreet:
        reply.version = internal::kWardVersion;
        return {};
      case WardOp::kStart:
        return book_->start(request.id, request.spec);
      case WardOp::kStop:
        return book_->stop(request.id);
      case WardOp::kForget:
        return book_->forget(request.id);
      case WardOp::kList:
        list(request.id, reply);
        return {};
      case WardOp::kGet:
      case WardOp::kCurve:
        return show(request, reply);
      case WardOp::kDismiss:
        if (!book_->idle()) return Error(Code::kConflict, "the warden has wards that run");
        ending_ = true;
        return {};
    }
    return Error(Code::kInvalidArgument, "an unknown request");
  }

  Status show(const WardRequest& request, WardReply& reply) const {
    const Ward* ward = book_->find(request.id);
    if (ward == nullptr) return Error(Code::kNotFound, "there is no ward '" + request.id + "'");
    if (request.op == WardOp::kGet) {
      reply.wards.push_back(*ward);
    } else {
      reply.curve = book_->curve(request.id)->samples();
    }
    return {};
  }

  void list(const std::string& after, WardReply& reply) const {
    std::size_t bytes = 0;
    book_->each_after(after, [&](const Ward& ward) {
      bytes += internal::text_bytes(ward);
      if (bytes > kPageBytes && !reply.wards.empty()) {
        reply.more = true;
        return false;
      }
      reply.wards.push_back(ward);
      return true;
    });
  }

  const WardenOptions options_;
  Descriptor lock_;
  Descriptor watch_;
  Descriptor signals_;
  std::unique_ptr<WardBook> book_;
  std::unique_ptr<WardDoor> door_;
  std::vector<std::pair<WardDoor::Client, WardReply>> after_commit_;
  std::int64_t busy_until_ = 0;
  std::int64_t look_at_ = 0;
  bool ending_ = false;
  bool over_ = false;
};

// The folder, made if it is absent, by its full path.
Result<std::string> folder_of(const std::string& given) {
  char resolved[PATH_MAX];
  if ((::mkdir(given.c_str(), 0700) != 0 && errno != EEXIST) ||
      ::realpath(given.c_str(), resolved) == nullptr) {
    return failed("make the folder " + given);
  }
  return std::string(resolved);
}

// What the starter left open or pointed at it is not ours; wards need many descriptors.
void settle_in(const std::string& folder) {
  forbid_memory_dumps();
  internal::raise_descriptor_limit();
  const int null = ::open("/dev/null", O_RDWR);
  const int log = ::open((folder + "/warden.log").c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_TRUNC | O_NOFOLLOW, 0600);
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::dup2(log >= 0 ? log : null, 2);
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  if (::chdir("/") != 0) std::perror("warden: chdir");
}

int complain(const Error& error) {
  std::fprintf(stderr, "warden: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int run_warden(const WardenOptions& given) {
  WardenOptions options = given;
  auto folder = folder_of(given.folder);
  if (!folder.ok()) return complain(folder.error());
  options.folder = std::move(*folder);
  settle_in(options.folder);
  Descriptor lock(
      ::open((options.folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return complain(failed("open the lock in " + options.folder));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? 0 : 1;
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return complain(failed("open a pipe"));
  const pid_t pid = ::fork();
  if (pid < 0) return complain(failed("fork"));
  if (pid > 0) {
    // Whoever started it learns by this process's end that it listens, or why not.
    ::close(ready[1]);
    char said = 0;
    return ::read(ready[0], &said, 1) == 1 ? 0 : 1;
  }
  ::close(ready[0]);
  ::setsid();
  Warden warden(options, std::move(lock));
  const Status prepared = warden.prepare();
  if (!prepared.ok()) return complain(prepared.error());
  [[maybe_unused]] const ssize_t told = ::write(ready[1], "r", 1);
  ::close(ready[1]);
  const Status served = warden.serve();
  return served.ok() ? 0 : complain(served.error());
}

}  // namespace falaj::exec
