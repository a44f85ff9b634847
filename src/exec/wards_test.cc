#include "exec/wards.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "exec/internal/ward_door.h"
#include "exec/internal/ward_message.h"
#include "exec/testing/processes.h"

namespace falaj::exec {
namespace {

using testing::own_program;
using testing::text_of;

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// Ended, though perhaps not yet waited for by its parent.
bool has_ended(pid_t pid) {
  if (is_gone(pid)) return true;
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = stat.rfind(')');
  return at == std::string::npos || stat.substr(at + 2, 1) == "Z";
}

pid_t parent_of(std::int64_t pid) {
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = stat.rfind(')');
  return at == std::string::npos ? 0 : std::atoi(stat.c_str() + at + 4);
}

class WardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "falaj_wards_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    connect();
  }
  void TearDown() override {
    // Without its folder a warden ends, and with it what it runs.
    EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0);
  }

  void connect(std::vector<std::string> warden = {own_program(), "warden"}) {
    WardsOptions options;
    options.folder = folder_ + "/warden";
    options.warden = std::move(warden);
    options.patience = Duration::seconds(60);
    options.changed = [this](std::string_view) { bell_.ring(); };
    auto opened = Wards::open(std::move(options));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    wards_ = std::move(*opened);
  }

  WardSpec shell(const std::string& script, const std::string& log = "log") const {
    WardSpec spec;
    spec.argv = {"/bin/bash", "-c", script};
    spec.env = {{"PATH", "/usr/bin:/bin"}};
    spec.work_dir = folder_;
    spec.log_path = folder_ + "/" + log;
    return spec;
  }
  void start(const std::string& id, const WardSpec& spec) {
    const Status status = wards_->start(id, spec);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  // Of a ward that will end.
  Ward wait_end(const std::string& id) {
    Ward out;
    EXPECT_TRUE(bell_.wait_until([&] {
      const auto ward = wards_->get(id);
      if (ward.ok()) out = *ward;
      return out.end.has_value();
    })) << id;
    if (!out.end) out.end = WardEnd{WardEndReason::kLost, -1, "the test waited in vain"};
    return out;
  }
  Ward run(const WardSpec& spec) {
    start("one", spec);
    return wait_end("one");
  }
  pid_t wait_pid(const std::string& id) {
    std::int64_t pid = 0;
    EXPECT_TRUE(bell_.wait_until([&] {
      const auto ward = wards_->get(id);
      if (ward.ok()) pid = ward->pid;
      return pid != 0;
    }));
    return static_cast<pid_t>(pid);
  }
  std::string fifo() const {
    std::string path = folder_ + "/fifo";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  bool exists(const std::string& name) const {
    struct stat info {};
    return ::stat((folder_ + "/" + name).c_str(), &info) == 0;
  }
  bool wait_file(const std::string& name) {
    return bell_.wait_until([&] { return exists(name) && !text_of(folder_ + "/" + name).empty(); });
  }

  std::string folder_;
  testing::Bell bell_;
  std::unique_ptr<Wards> wards_;
};

bool grouped(const Ward& ward) {
  return ::testing::Value(ward.protections, ::testing::Contains("cgroup-memory"));
}

TEST_F(WardsTest, tell_how_they_ended) {
  const Ward ward = run(shell("echo to out; echo to err >&2; exit 7"));
  EXPECT_EQ(ward.end->reason, WardEndReason::kExited);
  EXPECT_EQ(ward.end->code, 7);
  EXPECT_EQ(ward.end->log_bytes_cut, 0);
  EXPECT_GT(ward.end->memory_peak_bytes, 0);
  EXPECT_EQ(ward.pid, 0);
  EXPECT_EQ(text_of(folder_ + "/log"), "to out\nto err\n");
  const auto list = wards_->list();
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(*list, std::vector<Ward>{ward});
  EXPECT_TRUE(wards_->forget("one").ok());
  EXPECT_TRUE(wards_->forget("one").ok());
  EXPECT_TRUE(wards_->list()->empty());
  EXPECT_EQ(wards_->get("one").error().code, Code::kNotFound);
  EXPECT_EQ(wards_->stop("one").error().code, Code::kNotFound);
}

TEST_F(WardsTest, are_none_where_none_were_and_no_warden_is_started_to_say_so) {
  EXPECT_TRUE(wards_->list()->empty());
  EXPECT_TRUE(wards_->forget("any").ok());
  EXPECT_TRUE(wards_->dismiss().ok());
  EXPECT_FALSE(exists("warden"));
}

TEST_F(WardsTest, start_once_however_often_it_is_asked) {
  const WardSpec spec = shell("echo ran >> ran; exec cat " + fifo());
  const std::vector<Status> statuses = wards_->start_all({{"a", spec}, {"a", spec}, {"a", spec}});
  for (const Status& status : statuses) EXPECT_TRUE(status.ok());
  EXPECT_TRUE(wards_->start("a", spec).ok());
  EXPECT_EQ(wards_->forget("a").error().code, Code::kConflict);
  std::ofstream(folder_ + "/fifo") << "go";
  EXPECT_EQ(wait_end("a").end->code, 0);
  EXPECT_TRUE(wards_->start("a", spec).ok()) << "known until it is forgotten";
  EXPECT_EQ(text_of(folder_ + "/ran"), "ran\n");
  EXPECT_EQ(text_of(folder_ + "/log"), "go");
}

TEST_F(WardsTest, see_only_what_they_are_given) {
  WardSpec spec = shell(
      "env | grep -v -e ^PWD -e ^SHLVL -e ^_= | sort; ulimit -n; "
      "for fd in {0..200}; do [ -e /proc/$$/fd/$fd ] && echo \"descriptor $fd\"; done; true");
  spec.env.emplace_back("GREETING", "hello there");
  EXPECT_EQ(run(spec).end->code, 0);
  const std::string usual = std::to_string(::sysconf(_SC_OPEN_MAX));
  EXPECT_EQ(text_of(folder_ + "/log"), "GREETING=hello there\nPATH=/usr/bin:/bin\n" + usual +
                                           "\ndescriptor 0\ndescriptor 1\ndescriptor 2\n");
}

TEST_F(WardsTest, outlive_who_started_them) {
  start("a", shell("exec cat " + fifo()));
  const pid_t pid = wait_pid("a");
  wards_.reset();
  EXPECT_EQ(::kill(pid, 0), 0);
  connect();
  const auto list = wards_->list();
  ASSERT_TRUE(list.ok()) << list.error().message;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->front().pid, pid);
  wards_.reset();
  std::ofstream(folder_ + "/fifo") << "nobody was there";
  connect();
  EXPECT_EQ(wait_end("a").end->code, 0);
  EXPECT_EQ(text_of(folder_ + "/log"), "nobody was there");
}

TEST_F(WardsTest, are_lost_with_their_warden_and_said_to_be) {
  start("before", shell("true", "log-before"));
  EXPECT_EQ(wait_end("before").end->reason, WardEndReason::kExited);
  start("a", shell("echo ran >> ran; sleep 1000 & echo $! > sleeper; wait"));
  ASSERT_TRUE(wait_file("sleeper"));
  const pid_t sleeper = std::stoi(text_of(folder_ + "/sleeper"));
  const Ward before = *wards_->get("a");
  const pid_t warden = parent_of(before.pid);
  ASSERT_GT(warden, 1);
  ASSERT_EQ(::kill(warden, SIGKILL), 0);
  const Ward lost = wait_end("a");
  EXPECT_EQ(lost.end->reason, WardEndReason::kLost);
  EXPECT_FALSE(lost.end->detail.empty());
  EXPECT_EQ(lost.protections, before.protections);
  EXPECT_TRUE(has_ended(static_cast<pid_t>(before.pid)));
  EXPECT_TRUE(!grouped(before) || has_ended(sleeper));
  EXPECT_TRUE(wards_->start("a", shell("echo again >> ran")).ok());
  EXPECT_EQ(text_of(folder_ + "/ran"), "ran\n") << "known: not started again";
  EXPECT_EQ(wards_->get("before")->end->reason, WardEndReason::kExited);
  EXPECT_TRUE(wards_->forget("a").ok());
  start("a", shell("echo again >> ran"));
  EXPECT_EQ(wait_end("a").end->reason, WardEndReason::kExited);
  EXPECT_EQ(text_of(folder_ + "/ran"), "ran\nagain\n");
}

TEST_F(WardsTest, are_asked_to_end_and_then_made_to) {
  start("polite",
        shell("trap 'exit 9' TERM; echo > ready; while true; do read -t 1; done <> " + fifo()));
  ASSERT_TRUE(wait_file("ready"));
  EXPECT_TRUE(wards_->stop("polite").ok());
  const Ward polite = wait_end("polite");
  EXPECT_EQ(polite.end->reason, WardEndReason::kStopped);
  EXPECT_EQ(polite.end->code, 9);
  EXPECT_TRUE(wards_->stop("polite").ok()) << "it has ended";

  WardSpec deaf = shell("trap '' TERM; echo > deaf; while true; do read -t 1; done <> fifo");
  deaf.limits.grace = Duration::milliseconds(20);
  start("deaf", deaf);
  ASSERT_TRUE(wait_file("deaf"));
  EXPECT_TRUE(wards_->stop("deaf").ok());
  const Ward killed = wait_end("deaf");
  EXPECT_EQ(killed.end->reason, WardEndReason::kStopped);
  EXPECT_EQ(killed.end->code, SIGKILL);
}

TEST_F(WardsTest, end_when_their_time_is_over) {
  WardSpec spec = shell("exec sleep 1000");
  spec.limits.run_time_max = Duration::milliseconds(30);
  const Ward ward = run(spec);
  EXPECT_EQ(ward.end->reason, WardEndReason::kTimedOut);
  EXPECT_EQ(ward.end->code, SIGTERM);
}

TEST_F(WardsTest, end_when_their_memory_is_used_up) {
  WardSpec spec = shell("exec python3 -c 'b = bytearray(b\"x\") * (1 << 30)'");
  spec.limits.memory_bytes_max = 64 << 20;
  const Ward ward = run(spec);
  if (!grouped(ward)) GTEST_SKIP() << "no control group can be created here";
  EXPECT_EQ(ward.end->reason, WardEndReason::kOutOfMemory);
  EXPECT_LE(ward.end->memory_peak_bytes, 66 << 20);
}

TEST_F(WardsTest, that_cannot_begin_say_why) {
  WardSpec missing = shell("");
  missing.argv = {"/no/such/program"};
  const Ward ward = run(missing);
  EXPECT_EQ(ward.end->reason, WardEndReason::kNotStarted);
  EXPECT_NE(ward.end->detail.find("/no/such/program"), std::string::npos);
  EXPECT_NE(text_of(folder_ + "/log").find("/no/such/program"), std::string::npos);
  start("two", shell("true", "absent/log"));
  const Ward no_log = wait_end("two");
  EXPECT_EQ(no_log.end->reason, WardEndReason::kNotStarted);
  EXPECT_NE(no_log.end->detail.find("absent/log"), std::string::npos);
  WardSpec relative = shell("true");
  relative.argv = {"true"};
  EXPECT_EQ(wards_->start("three", relative).error().code, Code::kInvalidArgument);
  EXPECT_EQ(wards_->start("a b", shell("true")).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(wards_->list().ok()) << "the connection has not suffered";
}

TEST_F(WardsTest, take_their_descendants_with_them) {
  start("a", shell("setsid sleep 1000 & echo $! > sleeper; exit 3"));
  const Ward ward = wait_end("a");
  EXPECT_EQ(ward.end->code, 3);
  if (!grouped(ward)) GTEST_SKIP() << "no control group can be created here";
  const pid_t sleeper = std::stoi(text_of(folder_ + "/sleeper"));
  EXPECT_TRUE(has_ended(sleeper)) << "before the end was told";
}

TEST_F(WardsTest, that_fork_without_end_are_ended_all) {
  WardSpec spec = shell("f() { f | f & }; f; f; wait");
  spec.limits.processes_max = 40;
  spec.limits.run_time_max = Duration::milliseconds(300);
  spec.limits.grace = Duration::milliseconds(50);
  spec.log_bytes_max = 64 << 10;
  const Ward ward = run(spec);
  if (!grouped(ward)) GTEST_SKIP() << "no control group can be created here";
  EXPECT_NE(ward.end->reason, WardEndReason::kLost);
  start("after", shell("echo fine", "log-after"));
  EXPECT_EQ(wait_end("after").end->code, 0);
}

TEST_F(WardsTest, that_print_without_end_keep_their_bound) {
  WardSpec spec = shell("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end");
  spec.log_bytes_max = 1 << 20;
  const Ward ward = run(spec);
  EXPECT_EQ(ward.end->code, 0);
  const std::string log = text_of(folder_ + "/log");
  EXPECT_LE(log.size(), (1u << 20) + 100);
  EXPECT_TRUE(log.ends_with("x\nthe end\n"));
  const std::string note =
      "[" + std::to_string(ward.end->log_bytes_cut) + " bytes of this log were left out]";
  EXPECT_NE(log.find(note), std::string::npos);
  EXPECT_EQ(log.size() - (note.size() + 2) + static_cast<std::size_t>(ward.end->log_bytes_cut),
            20'000'000u + 9u);
}

TEST_F(WardsTest, are_measured_while_they_run) {
  start("a", shell("for i in {1..200000}; do :; done; cat " + fifo()));
  std::vector<WardUsage> curve;
  EXPECT_TRUE(bell_.wait_until([&] {
    curve = wards_->curve("a").value_or({});
    return curve.size() >= 2 && curve.back().cpu_time.nanos > 0;
  })) << "on a busy machine it may have had no turn yet when it was first looked at";
  EXPECT_GT(curve.back().memory_bytes, 0);
  EXPECT_GT(curve.back().at, curve.front().at);
  EXPECT_GT(wards_->get("a")->usage.memory_bytes, 0);
  std::ofstream(folder_ + "/fifo") << "go";
  const Ward ward = wait_end("a");
  EXPECT_GE(ward.end->cpu_time, curve.back().cpu_time);
  EXPECT_EQ(wards_->curve("b").error().code, Code::kNotFound);
}

TEST_F(WardsTest, with_gpus_are_measured_there_too) {
  connect({"/usr/bin/env", "LD_LIBRARY_PATH=" FALAJ_FAKE_NVML, own_program(), "warden"});
  WardSpec spec = shell("cat " + fifo());
  start("without", shell("cat fifo", "other"));
  spec.gpus = 0b11;
  start("with", spec);
  WardUsage usage;
  EXPECT_TRUE(bell_.wait_until([&] {
    const auto curve = wards_->curve("with").value_or({});
    if (!curve.empty()) usage = curve.back();
    return usage.gpu_milli >= 0;
  }));
  EXPECT_EQ(usage.gpu_milli, 1050);
  EXPECT_EQ(usage.gpu_memory_bytes, std::int64_t{4} << 30);
  EXPECT_EQ(wards_->get("without")->usage.gpu_milli, -1);
  std::ofstream(folder_ + "/fifo") << "go";
}

TEST_F(WardsTest, many_at_once_all_run_and_all_are_recorded) {
  std::vector<std::pair<std::string, WardSpec>> many;
  std::vector<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    WardSpec spec = shell("", "log-" + std::to_string(i));
    spec.argv = {"/bin/true"};
    ids.push_back("w" + std::to_string(i));
    many.emplace_back(ids.back(), spec);
  }
  for (const Status& status : wards_->start_all(many)) EXPECT_TRUE(status.ok());
  EXPECT_TRUE(bell_.wait_until([&] {
    const auto list = wards_->list();
    return list.ok() && std::all_of(list->begin(), list->end(),
                                    [](const Ward& ward) { return ward.end.has_value(); });
  }));
  const auto list = wards_->list();
  ASSERT_EQ(list->size(), many.size());
  for (const Ward& ward : *list) EXPECT_EQ(ward.end->reason, WardEndReason::kExited) << ward.id;
  for (const Status& status : wards_->forget_all(ids)) EXPECT_TRUE(status.ok());
  EXPECT_TRUE(wards_->list()->empty());
}

TEST_F(WardsTest, are_listed_however_long_their_reasons_are) {
  std::vector<std::pair<std::string, WardSpec>> many;
  for (int i = 0; i < 200; ++i) {
    WardSpec spec = shell("", "log-" + std::to_string(i));
    spec.argv = {"/no/" + std::string(5000, '\x01')};  // Six bytes each in JSON.
    many.emplace_back("w" + std::to_string(i), spec);
  }
  for (const Status& status : wards_->start_all(many)) EXPECT_TRUE(status.ok());
  for (const auto& [id, spec] : many) {
    const Ward ward = wait_end(id);
    EXPECT_EQ(ward.end->reason, WardEndReason::kNotStarted);
    EXPECT_EQ(ward.end->detail.size(), 1024u);
  }
  const auto list = wards_->list();
  ASSERT_TRUE(list.ok()) << list.error().message;
  EXPECT_EQ(list->size(), many.size());
}

TEST_F(WardsTest, have_a_warden_that_goes_when_it_is_not_needed) {
  start("a", shell("exec cat " + fifo()));
  const pid_t warden = parent_of(wait_pid("a"));
  EXPECT_EQ(wards_->dismiss().error().code, Code::kConflict);
  std::ofstream(folder_ + "/fifo") << "go";
  wait_end("a");
  EXPECT_TRUE(wards_->dismiss().ok());
  EXPECT_TRUE(bell_.wait_until([&] { return has_ended(warden); }));
  EXPECT_EQ(wards_->get("a")->end->code, 0) << "another one has read the journal";
}

TEST_F(WardsTest, end_when_their_folder_goes) {
  start("a", shell("exec sleep 1000"));
  const pid_t pid = wait_pid("a");
  const pid_t warden = parent_of(pid);
  wards_.reset();
  ASSERT_EQ(std::system(("rm -rf '" + folder_ + "/warden'").c_str()), 0);
  EXPECT_TRUE(bell_.wait_until([&] { return has_ended(warden) && has_ended(pid); }));
}

TEST_F(WardsTest, are_stopped_by_a_warden_that_is_told_to_end) {
  start("a",
        shell("trap 'exit 4' TERM; echo > ready; while true; do read -t 1; done <> " + fifo()));
  ASSERT_TRUE(wait_file("ready"));
  const pid_t warden = parent_of(wait_pid("a"));
  ASSERT_EQ(::kill(warden, SIGTERM), 0);
  EXPECT_TRUE(bell_.wait_until([&] { return has_ended(warden); }));
  const Ward ward = wait_end("a");
  EXPECT_EQ(ward.end->reason, WardEndReason::kStopped);
  EXPECT_EQ(ward.end->code, 4);
}

TEST_F(WardsTest, are_told_nothing_without_the_token) {
  start("a", shell("exec cat " + fifo()));
  wait_pid("a");
  const int folder = ::open((folder_ + "/warden").c_str(), O_RDONLY | O_DIRECTORY);
  struct stat info {};
  ASSERT_EQ(::fstatat(folder, "socket", &info, 0), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  ASSERT_EQ(::fstatat(folder, "token", &info, 0), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  const internal::SocketAddress address(folder, "socket");
  for (const std::string& greeting :
       {std::string(R"({"n":1,"op":"greet","token":"guess","version":1})"),
        std::string(R"({"n":1,"op":"stop","id":"a"})"), std::string("nonsense"),
        std::string(5000, '\xff')}) {
    const int stranger = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(address.bytes), address.size),
              0);
    const std::string frame = internal::frame_of(greeting);
    ASSERT_EQ(::send(stranger, frame.data(), frame.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frame.size()));
    char answer = 0;
    EXPECT_EQ(::recv(stranger, &answer, 1, 0), 0) << "hung up";
    ::close(stranger);
  }
  ::close(folder);
  EXPECT_NE(wards_->get("a")->pid, 0);
  std::ofstream(folder_ + "/fifo") << "go";
  EXPECT_EQ(wait_end("a").end->code, 0);
}

TEST_F(WardsTest, keep_their_sandbox) {
  WardSpec spec = shell("{ echo kept > " + folder_ + "/outside; } 2>/dev/null || echo refused");
  spec.work_dir = "/";
  spec.sandbox.enabled = true;
  const Ward ward = run(spec);
  if (!::testing::Value(ward.protections, ::testing::Contains("landlock"))) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  EXPECT_EQ(text_of(folder_ + "/log"), "refused\n");
}

// Of root's: they are in one mount namespace, and none sees the processes of another.
TEST_F(WardsTest, share_a_view_of_the_machine_and_are_not_in_it) {
  const auto sandboxed = [&](const std::string& script, const std::string& log) {
    WardSpec spec = shell(script, log);
    spec.sandbox.enabled = true;
    spec.sandbox.read_write = {folder_};
    return spec;
  };
  start("other", sandboxed("exec cat " + fifo(), "other"));
  const pid_t other = wait_pid("other");
  if (!::testing::Value(wards_->get("other")->protections,
                        ::testing::Contains("hidden-processes"))) {
    GTEST_SKIP() << "this machine does not grant it";
  }
  const std::string look =
      "readlink /proc/self/ns/mnt; pwd; echo /proc/[0-9]* > seen; ls -d /proc/";
  // A view is entered for a second: on a slow machine the second one may come too late.
  std::string before;
  for (int i = 0; i < 50; ++i) {
    const std::string id = "w" + std::to_string(i);
    start(id, sandboxed(look + std::to_string(other), id));
    const Ward ward = wait_end(id);
    EXPECT_NE(ward.end->code, 0) << "it has seen the other";
    const std::string said = text_of(folder_ + "/" + id);
    EXPECT_NE(said.find("\n" + folder_ + "\n"), std::string::npos) << said;
    EXPECT_EQ(text_of(folder_ + "/seen").find("/proc/" + std::to_string(other) + " "),
              std::string::npos);
    EXPECT_THAT(ward.protections, ::testing::Contains("hidden-processes"));
    const std::string mounts = said.substr(0, said.find('\n'));
    EXPECT_NE(mounts, std::filesystem::read_symlink("/proc/self/ns/mnt").string());
    if (mounts == before) break;
    before = mounts;
    EXPECT_LT(i, 49) << "never shared";
  }
  std::ofstream(folder_ + "/fifo") << "go";
}

TEST_F(WardsTest, are_bound_to_processors_and_held_back_at_the_disk) {
  WardSpec spec = shell("grep -o 'Cpus_allowed_list.*' /proc/self/status");
  spec.limits.bound_cpus = 1;
  spec.limits.bound_node = 0;
  spec.limits.io_bytes_max = 64 << 20;
  const Ward ward = run(spec);
  EXPECT_EQ(ward.end->code, 0) << ward.end->detail;
  const std::string list = text_of(folder_ + "/log");
  EXPECT_NE(list, "");
  EXPECT_EQ(list.find_first_of(",-"), std::string::npos) << "one processor: " << list;
  const auto told = [&](const std::string& name) {
    const auto is = [&](const std::string& each) { return each.starts_with(name); };
    return std::any_of(ward.protections.begin(), ward.protections.end(), is) ||
           std::any_of(ward.protections_refused.begin(), ward.protections_refused.end(), is);
  };
  EXPECT_TRUE(told("cgroup-cpuset") || told("affinity"));
  EXPECT_TRUE(told("cgroup-io")) << "granted or refused, but told";
}

// How long a ward took to read a file of so many MiB from the disk, past the page cache.
constexpr char kReadDirectly[] =
    "begin=${EPOCHREALTIME/./}; dd if=block of=/dev/null iflag=direct bs=256k 2>/dev/null || exit "
    "9; "
    "echo $((${EPOCHREALTIME/./} - begin))";

TEST_F(WardsTest, read_from_the_disk_no_faster_than_they_may) {
  constexpr std::int64_t kLimit = 8 << 20;
  constexpr std::int64_t kBytes = 12 << 20;
  {
    std::ofstream block(folder_ + "/block", std::ios::binary);
    block << std::string(kBytes, 'x');
  }
  const int file = ::open((folder_ + "/block").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fsync(file), 0);
  ::close(file);
  start("free", shell(kReadDirectly, "free"));
  if (wait_end("free").end->code != 0) GTEST_SKIP() << "no direct reads from this file system";
  WardSpec spec = shell(kReadDirectly, "held");
  spec.limits.io_bytes_max = kLimit;
  start("held", spec);
  const Ward held = wait_end("held");
  if (!::testing::Value(held.protections, ::testing::Contains("cgroup-io"))) {
    GTEST_SKIP() << "the disk cannot be held back here";
  }
  ASSERT_EQ(held.end->code, 0) << held.end->detail;
  const std::int64_t least = kBytes * 1'000'000 / kLimit;
  if (std::stoll(text_of(folder_ + "/free")) > least / 2)
    GTEST_SKIP() << "the disk is slower still";
  // The kernel counts in slices of a tenth of a second: the first may go before it counts.
  EXPECT_GE(std::stoll(text_of(folder_ + "/held")), least - 200'000) << "microseconds";
}

// A warden that finds no control groups, as root: they are taken out of its sight.
TEST_F(WardsTest, without_a_control_group_what_leaves_the_session_is_ended_too) {
  const std::string hide = "umount -l -R /sys/fs/cgroup && exec \"$@\"";
  if (::geteuid() != 0 ||
      std::system(("unshare -m sh -c '" + hide + "' sh true 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "cannot hide the control groups here";
  }
  connect({"/usr/bin/unshare", "-m", "/bin/sh", "-c", hide, "sh", own_program(), "warden"});
  const Ward ward =
      run(shell("setsid sh -c 'echo $$ > pid; exec sleep 1000' & "
                "while [ ! -s pid ]; do :; done; exit 3"));
  EXPECT_EQ(ward.end->code, 3) << ward.end->detail;
  EXPECT_FALSE(grouped(ward));
  const pid_t stray = std::stoi(text_of(folder_ + "/pid"));
  EXPECT_NE(::kill(stray, 0), 0) << "an end is told when everything has ended";
}

}  // namespace
}  // namespace falaj::exec
