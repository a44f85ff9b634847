#include "exec/wards.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/internal/ward_door.h"
#include "exec/internal/ward_message.h"

namespace falaj::exec {
namespace {

using internal::FrameReader;
using internal::WardOp;
using internal::WardReply;
using internal::WardRequest;

constexpr std::int64_t kPauseLeast = 10'000'000;
constexpr std::int64_t kPauseMost = 1'000'000'000;

Error unreachable(const std::string& why) {
  return Error(Code::kUnavailable, "the warden cannot be reached: " + why);
}

Error unreachable_errno(const std::string& what) {
  return unreachable(what + ": " + std::strerror(errno));
}

// Only what a program needs to begin: the server's environment may hold secrets.
std::vector<std::string> warden_environment() {
  std::vector<std::string> out;
  for (const char* name : {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
                           "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Returns when it listens, or another one does.
Status launch(std::vector<std::string> command, const std::string& folder) {
  command.push_back(folder);
  std::vector<std::string> environment = warden_environment();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int file : {0, 1, 2}) {
    ::posix_spawn_file_actions_addopen(&actions, file, "/dev/null", O_RDWR, 0);
  }
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, command.front().c_str(), &actions, &attributes,
                                  pointers(command).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return unreachable("start " + command.front() + ": " + std::strerror(error));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return unreachable("it did not start; see " + folder + "/warden.log");
}

Result<std::string> read_token(int folder) {
  const Descriptor file(::openat(folder, "token", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char text[256];
  const ssize_t got = file.valid() ? ::read(file.get(), text, sizeof text) : -1;
  if (got <= 0) return unreachable_errno("read its token");
  return std::string(text, static_cast<std::size_t>(got));
}

Result<Descriptor> connect_in(int folder) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return unreachable_errno("open a socket");
  const internal::SocketAddress address(folder, "socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size) !=
      0) {
    return unreachable_errno("connect");
  }
  return socket;
}

Status send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return unreachable_errno("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// One thread holds the connection and reads; callers send and wait for their numbers.
class WardenClient final : public Wards {
 public:
  explicit WardenClient(WardsOptions options)
      : options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~WardenClient() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
  }

  Status begin() {
    if (!wake_.valid()) return unreachable_errno("open an eventfd");
    if (options_.warden.empty() || !options_.folder.starts_with('/')) {
      return Error(Code::kInvalidArgument, "a warden needs a program and an absolute folder");
    }
    struct stat info {};
    {
      MutexLock lock(mutex_);
      needed_ = ::stat((options_.folder + "/journal").c_str(), &info) == 0;
      was_there_ = needed_;
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Status start(const std::string& id, const WardSpec& spec) override {
    return std::move(start_all({{id, spec}}).front());
  }

  std::vector<Status> start_all(
      const std::vector<std::pair<std::string, WardSpec>>& wards) override {
    std::vector<WardRequest> requests;
    for (const auto& [id, spec] : wards) requests.push_back(request_of(WardOp::kStart, id, spec));
    return statuses(std::move(requests));
  }

  Status stop(const std::string& id) override {
    return one(request_of(WardOp::kStop, id, {})).error_or_ok();
  }

  Result<std::vector<Ward>> list() override {
    std::vector<Ward> out;
    if (is_untouched()) return out;
    while (true) {
      Answer answer = one(request_of(WardOp::kList, out.empty() ? "" : out.back().id, {}));
      FALAJ_TRY(answer.error_or_ok());
      for (Ward& ward : answer.reply.wards) out.push_back(std::move(ward));
      if (!answer.reply.more || answer.reply.wards.empty()) return out;
    }
  }

  Result<Ward> get(const std::string& id) override {
    Answer answer = one(request_of(WardOp::kGet, id, {}));
    FALAJ_TRY(answer.error_or_ok());
    if (answer.reply.wards.size() != 1) return unreachable("it answered with nothing");
    return std::move(answer.reply.wards.front());
  }

  Result<std::vector<WardUsage>> curve(const std::string& id) override {
    Answer answer = one(request_of(WardOp::kCurve, id, {}));
    FALAJ_TRY(answer.error_or_ok());
    return std::move(answer.reply.curve);
  }

  Status forget(const std::string& id) override { return std::move(forget_all({id}).front()); }

  std::vector<Status> forget_all(const std::vector<std::string>& ids) override {
    if (is_untouched()) return std::vector<Status>(ids.size());
    std::vector<WardRequest> requests;
    for (const std::string& id : ids) requests.push_back(request_of(WardOp::kForget, id, {}));
    return statuses(std::move(requests));
  }

  Status dismiss() override {
    {
      MutexLock lock(mutex_);
      if (!connected_) return {};
      needed_ = false;
    }
    const Status status = one(request_of(WardOp::kDismiss, "", {}), Need::kNo).error_or_ok();
    // Whether it answered or was gone first, nothing runs there any more.
    if (status.ok() || status.error().code == Code::kUnavailable) return {};
    MutexLock lock(mutex_);
    needed_ = true;
    return status;
  }

 private:
  struct Answer {
    std::optional<Error> failure;  // No reply came.
    WardReply reply;
    bool done = false;
    bool lost = false;        // Done, by the loss of the connection.
    CondVar* told = nullptr;  // Of the one call that waits for it.
    Status error_or_ok() const {
      if (failure) return *failure;
      if (reply.error) return *reply.error;
      return {};
    }
  };
  enum class Need : std::uint8_t { kNo, kYes };

  static WardRequest request_of(WardOp op, const std::string& id, const WardSpec& spec) {
    WardRequest request;
    request.op = op;
    request.id = id;
    request.spec = spec;
    return request;
  }

  // Nobody ever had a ward in this folder: no need to start a warden to hear that.
  bool is_untouched() {
    MutexLock lock(mutex_);
    return !was_there_ && !connected_;
  }

  Answer one(WardRequest request, Need need = Need::kYes) {
    std::vector<WardRequest> requests;
    requests.push_back(std::move(request));
    return std::move(ask(std::move(requests), need).front());
  }

  std::vector<Status> statuses(std::vector<WardRequest> requests) {
    std::vector<Status> out;
    for (const Answer& answer : ask(std::move(requests), Need::kYes)) {
      out.push_back(answer.error_or_ok());
    }
    return out;
  }

  // Sends all, then waits for all. What a lost connection left open is asked again: no request
  // does more when it comes twice.
  std::vector<Answer> ask(std::vector<WardRequest> requests, Need need) {
    std::vector<Answer> answers(requests.size());
    CondVar told;
    const std::int64_t until = monotonic_nanos() + options_.patience.nanos;
    bool again = true;
    while (again) {
      const std::uint64_t connection = wait_for_connection(need, until);
      for (Answer& answer : answers) answer.told = &told;
      send(connection, prepare(requests, answers, connection));
      wait_for(answers, requests, told, until);
      again = need == Need::kYes && connection != 0 && monotonic_nanos() < until &&
              std::any_of(answers.begin(), answers.end(),
                          [](const Answer& answer) { return answer.lost; });
    }
    return answers;
  }

  // Numbers what is still to be answered and has it waited for. The frames to send.
  std::string prepare(std::vector<WardRequest>& requests, std::vector<Answer>& answers,
                      std::uint64_t connection) {
    std::string bytes;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Answer& answer = answers[i];
      if (answer.done && !answer.lost) continue;
      CondVar* const told = answer.told;
      answer = {};
      answer.told = told;
      requests[i].number = next_number_.fetch_add(1);
      const std::string text = to_text(requests[i]);
      // Looked at here, where there is somebody to tell: the warden only hangs up.
      const auto checked = internal::parse_request(text);
      MutexLock lock(mutex_);
      if (!checked.ok()) {
        answer.failure = checked.error();
        answer.done = true;
      } else if (!connected_ || connection != connection_) {
        answer.failure = unreachable(why_not_);
        answer.done = answer.lost = true;
      } else {
        waiting_[requests[i].number] = &answer;
        bytes += internal::frame_of(text);
      }
    }
    return bytes;
  }

  // The connection's number; 0 when there is none in time.
  std::uint64_t wait_for_connection(Need need, std::int64_t until) {
    MutexLock lock(mutex_);
    if (need == Need::kYes) needed_ = true;
    if (connected_) return connection_;
    changed_.notify_all();
    const auto there = [this]() FALAJ_REQUIRES(mutex_) { return connected_ || closing_; };
    if (need == Need::kYes) changed_.wait_for(mutex_, left(until), there);
    return connected_ ? connection_ : 0;
  }

  static std::chrono::nanoseconds left(std::int64_t until) {
    return std::chrono::nanoseconds(std::max<std::int64_t>(until - monotonic_nanos(), 0));
  }

  void send(std::uint64_t connection, std::string_view bytes) {
    if (bytes.empty()) return;
    MutexLock lock(sending_);
    if (connection != sendable_) return;  // Lost meanwhile: those who wait have been told.
    // Half a frame makes the rest nonsense: the reader sees the end and tells everyone.
    if (!send_all(socket_.get(), bytes).ok()) ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void wait_for(std::vector<Answer>& answers, const std::vector<WardRequest>& requests,
                CondVar& told, std::int64_t until) {
    MutexLock lock(mutex_);
    const auto all_done = [&]() FALAJ_REQUIRES(mutex_) {
      return std::all_of(answers.begin(), answers.end(),
                         [](const Answer& answer) { return answer.done; });
    };
    if (told.wait_for(mutex_, left(until), all_done)) return;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].done) continue;
      waiting_.erase(requests[i].number);
      answers[i].failure = unreachable("it did not answer in time");
    }
  }

  // ---- The thread. ----

  void run() {
    ::pthread_setname_np(::pthread_self(), "wards");
    std::int64_t pause = kPauseLeast;
    while (wait_until_needed()) {
      auto socket = reach();
      if (!socket.ok()) {
        note_why(socket.error().message);
        wait_a_while(pause);
        pause = std::min(pause * 2, kPauseMost);
        continue;
      }
      pause = kPauseLeast;
      attach(std::move(*socket));
      if (options_.changed) options_.changed("");
      read_replies();
      detach();
    }
  }

  bool wait_until_needed() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return needed_ || closing_; });
    return !closing_;
  }

  void wait_a_while(std::int64_t pause) {
    MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::nanoseconds(pause),
                      [this]() FALAJ_REQUIRES(mutex_) { return closing_; });
  }

  void note_why(const std::string& why) {
    log::warn("warden not reached", {{"why", why}});
    MutexLock lock(mutex_);
    why_not_ = why;
  }

  // A greeted connection to the warden that is there, or to a new one.
  Result<Descriptor> reach() {
    auto there = greet();
    if (there.ok() || there.error().code == Code::kFailedPrecondition) return there;
    FALAJ_TRY(launch(options_.warden, options_.folder));
    return greet();
  }

  Result<Descriptor> greet() {
    const Descriptor folder(::open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return unreachable_errno("open " + options_.folder);
    Descriptor socket = FALAJ_TRY(connect_in(folder.get()));
    WardRequest request;
    request.op = WardOp::kGreet;
    request.version = internal::kWardVersion;
    request.token = FALAJ_TRY(read_token(folder.get()));
    const timeval patience{static_cast<time_t>(options_.patience.nanos / 1'000'000'000) + 1, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    FALAJ_TRY(send_all(socket.get(), internal::frame_of(to_text(request))));
    FrameReader frames;
    const WardReply reply = FALAJ_TRY(receive(socket.get(), frames));
    if (reply.version == internal::kWardVersion) return socket;
    return replace_other_version(std::move(socket), frames);
  }

  // Before the thread serves: the next reply, waited for.
  static Result<WardReply> receive(int socket, FrameReader& frames) {
    char bytes[4096];
    while (true) {
      auto body = FALAJ_TRY(frames.next());
      if (body) return internal::parse_reply(*body);
      const ssize_t got = ::recv(socket, bytes, sizeof bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return unreachable("it hung up");
      frames.feed({bytes, static_cast<std::size_t>(got)});
    }
  }

  // A warden of another version of the program: it goes if it has nothing to do.
  static Result<Descriptor> replace_other_version(Descriptor socket, FrameReader& frames) {
    WardRequest request;
    request.number = 2;
    request.op = WardOp::kDismiss;
    FALAJ_TRY(send_all(socket.get(), internal::frame_of(to_text(request))));
    const auto reply = receive(socket.get(), frames);
    if (reply.ok() && !reply->error) return unreachable("one of another version is ending");
    return Error(Code::kFailedPrecondition,
                 "a warden of another version still runs processes: wait for them or stop them");
  }

  void attach(Descriptor socket) {
    MutexLock sending(sending_);
    socket_ = std::move(socket);
    MutexLock lock(mutex_);
    connected_ = true;
    was_there_ = true;
    sendable_ = ++connection_;
    changed_.notify_all();
  }

  void detach() {
    {
      MutexLock lock(mutex_);
      connected_ = false;
      why_not_ = "the connection was lost";
      for (auto& [number, answer] : waiting_) {
        answer->failure = unreachable(why_not_);
        answer->done = answer->lost = true;
        answer->told->notify_one();
      }
      waiting_.clear();
      changed_.notify_all();
    }
    MutexLock sending(sending_);
    sendable_ = 0;
    socket_.reset();
  }

  void read_replies() {
    FrameReader frames;
    char bytes[64 * 1024];
    while (true) {
      pollfd waited[2] = {{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      if (::poll(waited, 2, -1) < 0 && errno != EINTR) return;
      if (waited[1].revents != 0) return;
      if (waited[0].revents == 0) continue;
      const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return;
      frames.feed({bytes, static_cast<std::size_t>(got)});
      if (!take_replies(frames)) return;
    }
  }

  // False when the other side speaks nonsense.
  bool take_replies(FrameReader& frames) {
    while (true) {
      auto body = frames.next();
      if (!body.ok()) return false;
      if (!*body) return true;
      auto reply = internal::parse_reply(**body);
      if (!reply.ok()) return false;
      if (reply->number == 0) {
        if (options_.changed) options_.changed(reply->changed);
        continue;
      }
      MutexLock lock(mutex_);
      const auto at = waiting_.find(reply->number);
      if (at == waiting_.end()) continue;
      at->second->reply = std::move(*reply);
      at->second->done = true;
      // Under the lock: the call is gone as soon as it sees `done`.
      at->second->told->notify_one();
      waiting_.erase(at);
    }
  }

  const WardsOptions options_;
  Descriptor wake_;
  std::thread thread_;

  Mutex sending_;      // Taken before mutex_ where both are.
  Descriptor socket_;  // Replaced by the thread under sending_; read by it without.
  std::uint64_t sendable_ FALAJ_GUARDED_BY(sending_) = 0;

  Mutex mutex_;
  CondVar changed_;
  bool needed_ FALAJ_GUARDED_BY(mutex_) = false;
  bool was_there_ FALAJ_GUARDED_BY(mutex_) = false;
  bool connected_ FALAJ_GUARDED_BY(mutex_) = false;
  bool closing_ FALAJ_GUARDED_BY(mutex_) = false;
  std::uint64_t connection_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::atomic<std::int64_t> next_number_{1};
  std::string why_not_ FALAJ_GUARDED_BY(mutex_) = "it is not there yet";
  std::map<std::int64_t, Answer*> waiting_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Wards>> Wards::open(WardsOptions options) {
  auto client = std::make_unique<WardenClient>(std::move(options));
  FALAJ_TRY(client->begin());
  return std::unique_ptr<Wards>(std::move(client));
}

}  // namespace falaj::exec
