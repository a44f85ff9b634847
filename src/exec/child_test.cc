#include "exec/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <sstream>
#include <thread>

#include "exec/internal/control_group.h"
#include "exec/sandbox.h"

namespace falaj::exec {
namespace {

class ChildTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "falaj_child_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + folder_ + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }

  ChildSpec shell(const std::string& script) const {
    ChildSpec spec;
    spec.argv = {"/bin/bash", "-c", script};
    spec.env = {{"PATH", "/usr/bin:/bin"}};
    spec.work_dir = folder_;
    spec.log_path = folder_ + "/log";
    return spec;
  }
  std::string log_text() const {
    std::ifstream file(folder_ + "/log");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static ChildExit run(ChildSpec spec) {
    auto child = Child::start(std::move(spec));
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
    return child.ok() ? (*child)->wait() : ChildExit{};
  }

  std::string folder_;
};

std::size_t open_descriptors() {
  DIR* listing = ::opendir("/proc/self/fd");
  std::size_t count = 0;
  while (::readdir(listing) != nullptr) ++count;
  ::closedir(listing);
  return count;
}

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// Waits until a process that is not our child has ended.
void await_end(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return;  // Ended already.
  pollfd waited{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&waited, 1, 20'000), 1) << "process " << pid << " did not end";
  ::close(fd);
}

TEST_F(ChildTest, tells_what_it_prints_and_then_how_it_ended) {
  ChildSpec spec = shell("echo one; echo two >&2; exit 7");
  spec.log_path.clear();
  std::string printed;
  int ends = 0;
  spec.on_output = [&](std::string_view bytes) { printed.append(bytes); };
  spec.on_exit = [&](const ChildExit& end) {
    ++ends;
    EXPECT_EQ(end.code, 7);
    EXPECT_EQ(printed, "one\ntwo\n");
  };
  EXPECT_EQ(run(std::move(spec)).code, 7);
  EXPECT_EQ(ends, 1);
}

TEST_F(ChildTest, signals_the_process_and_not_those_it_started) {
  ChildSpec spec = shell(
      "trap 'kill -0 $sleeper && echo alive; kill $sleeper; exit 75' TERM; "
      "sleep 100 & sleeper=$!; echo ready; wait $sleeper");
  spec.log_path.clear();
  std::latch ready(1);
  std::string printed;
  spec.on_output = [&](std::string_view bytes) {
    printed.append(bytes);
    if (printed == "ready\n") ready.count_down();
  };
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  ready.wait();
  (*child)->signal(SIGTERM);
  const ChildExit end = (*child)->wait();
  EXPECT_EQ(end.reason, ExitReason::kExited);
  EXPECT_FALSE(end.by_signal);
  EXPECT_EQ(end.code, 75);
  EXPECT_EQ(printed, "ready\nalive\n");
  (*child)->signal(SIGTERM);  // Nobody is there; nothing happens.
}

TEST_F(ChildTest, stops_who_prints_without_end) {
  ChildSpec spec = shell("trap '' TERM; yes");
  spec.log_path.clear();
  spec.limits.grace = Duration::milliseconds(50);
  std::latch printing(1);
  std::atomic<bool> told{false};
  spec.on_output = [&](std::string_view) {
    if (!told.exchange(true)) printing.count_down();
  };
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  printing.wait();
  (*child)->stop();
  const ChildExit end = (*child)->wait();
  EXPECT_EQ(end.reason, ExitReason::kStopped);
  EXPECT_TRUE(end.by_signal);
  EXPECT_EQ(end.code, SIGKILL);
}

TEST_F(ChildTest, reports_the_exit_code_and_keeps_the_output) {
  const ChildExit end = run(shell("echo to out; echo to err >&2; exit 7"));
  EXPECT_EQ(end.reason, ExitReason::kExited);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(log_text(), "to out\nto err\n");
  EXPECT_GT(end.memory_peak_bytes, 0);
}

TEST_F(ChildTest, reports_the_signal) {
  const ChildExit end = run(shell("kill -SEGV $$"));
  EXPECT_EQ(end.reason, ExitReason::kSignalled);
  EXPECT_EQ(end.code, SIGSEGV);
}

TEST_F(ChildTest, sees_only_its_own_environment_and_descriptors) {
  // Deliberately inheritable, at a number that nothing else takes.
  const int stray = ::fcntl(STDIN_FILENO, F_DUPFD, 77);
  ASSERT_GE(stray, 77);
  ChildSpec spec = shell(
      "env | grep -v -e ^PWD -e ^SHLVL -e ^_= | sort; "
      "for fd in {0..200}; do [ -e /proc/$$/fd/$fd ] && echo \"descriptor $fd\"; done");
  spec.env.emplace_back("GREETING", "hello there");
  run(std::move(spec));
  ::close(stray);
  EXPECT_EQ(log_text(),
            "GREETING=hello there\nPATH=/usr/bin:/bin\n"
            "descriptor 0\ndescriptor 1\ndescriptor 2\ndescriptor 3\n");
}

TEST_F(ChildTest, exchanges_lines_over_the_channel) {
  std::vector<std::string> lines;
  ChildSpec spec = shell(
      "echo ready >&3; read -r answer <&3; echo \"got $answer\" >&3; "
      "printf 'no newline' >&3");
  std::latch ready(1);
  spec.on_line = [&](std::string_view line) {
    lines.emplace_back(line);
    if (line == "ready") ready.count_down();
  };
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  ready.wait();
  EXPECT_TRUE((*child)->send("forty two").ok());
  EXPECT_EQ((*child)->send("two\nlines").error().code, Code::kInvalidArgument);
  EXPECT_EQ((*child)->wait().code, 0);
  EXPECT_EQ(lines, (std::vector<std::string>{"ready", "got forty two", "no newline"}));
  EXPECT_EQ((*child)->send("late").error().code, Code::kUnavailable);
}

TEST_F(ChildTest, delivers_every_line_before_wait_returns) {
  std::size_t lines = 0;
  std::size_t bytes = 0;
  ChildSpec spec = shell("for i in {1..20000}; do echo \"line $i of many\"; done >&3");
  spec.on_line = [&](std::string_view line) {
    ++lines;
    bytes += line.size();
  };
  EXPECT_EQ(run(std::move(spec)).code, 0);
  EXPECT_EQ(lines, 20'000u);
  EXPECT_EQ(bytes,
            20'000 * std::string("line  of many").size() + 9 + 180 + 2'700 + 36'000 + 50'005);
}

TEST_F(ChildTest, a_line_without_end_ends_the_child) {
  ChildSpec spec = shell("head -c 200000 /dev/zero | tr '\\0' x >&3; sleep 1000");
  std::size_t longest = 0;
  spec.on_line = [&](std::string_view line) { longest = std::max(longest, line.size()); };
  const ChildExit end = run(std::move(spec));
  EXPECT_EQ(end.reason, ExitReason::kSignalled);
  EXPECT_EQ(end.code, SIGKILL);
  EXPECT_LE(longest, 64u * 1024);
}

TEST_F(ChildTest, a_missing_program_is_not_found) {
  ChildSpec spec = shell("");
  spec.argv = {"/no/such/program"};
  const auto child = Child::start(std::move(spec));
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, Code::kNotFound);
  EXPECT_NE(child.error().message.find("/no/such/program"), std::string::npos);
}

TEST_F(ChildTest, other_failures_to_start_name_the_step) {
  ChildSpec no_folder = shell("true");
  no_folder.work_dir = folder_ + "/absent";
  EXPECT_EQ(Child::start(no_folder).error().code, Code::kInternal);
  EXPECT_NE(Child::start(no_folder).error().message.find("work folder"), std::string::npos);
  ChildSpec no_log = shell("true");
  no_log.log_path = folder_ + "/absent/log";
  EXPECT_NE(Child::start(no_log).error().message.find("absent/log"), std::string::npos);
  ChildSpec relative = shell("true");
  relative.argv = {"true"};
  EXPECT_EQ(Child::start(relative).error().code, Code::kInvalidArgument);
  ChildSpec not_executable = shell("true");
  not_executable.argv = {"/etc/passwd"};
  EXPECT_EQ(Child::start(not_executable).error().code, Code::kInternal);
}

TEST_F(ChildTest, stops_when_asked) {
  std::latch ready(1);
  ChildSpec spec = shell(
      "trap 'echo bye >&3; exit 9' TERM; echo ready >&3; "
      "while true; do sleep 0.01; done");
  std::vector<std::string> lines;
  spec.on_line = [&](std::string_view line) {
    lines.emplace_back(line);
    if (line == "ready") ready.count_down();
  };
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  ready.wait();
  (*child)->stop();
  const ChildExit end = (*child)->wait();
  EXPECT_EQ(end.reason, ExitReason::kStopped);
  EXPECT_EQ(end.code, 9);
  EXPECT_EQ(lines.back(), "bye");
}

TEST_F(ChildTest, is_killed_when_it_will_not_stop) {
  std::latch ready(1);
  ChildSpec spec = shell("trap '' TERM; echo ready >&3; while true; do sleep 0.01; done");
  spec.limits.grace = Duration::milliseconds(20);
  spec.on_line = [&](std::string_view) { ready.count_down(); };
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  ready.wait();
  (*child)->stop();
  const ChildExit end = (*child)->wait();
  EXPECT_EQ(end.reason, ExitReason::kStopped);
  EXPECT_EQ(end.code, SIGKILL);
}

TEST_F(ChildTest, its_time_runs_out) {
  ChildSpec spec = shell("exec sleep 1000");
  spec.limits.run_time_max = Duration::milliseconds(30);
  const ChildExit end = run(std::move(spec));
  EXPECT_EQ(end.reason, ExitReason::kTimedOut);
  EXPECT_EQ(end.code, SIGTERM);
}

TEST_F(ChildTest, descendants_end_with_it) {
  pid_t grandchild = 0;
  ChildSpec spec = shell("sleep 1000 & echo $! >&3");
  spec.on_line = [&](std::string_view line) { grandchild = std::stoi(std::string(line)); };
  EXPECT_EQ(run(std::move(spec)).code, 0);
  ASSERT_GT(grandchild, 0);
  await_end(grandchild);
}

TEST_F(ChildTest, the_destructor_kills_the_whole_group) {
  std::latch ready(1);
  pid_t grandchild = 0;
  ChildSpec spec = shell("trap '' TERM; sleep 1000 & echo $! >&3; wait");
  spec.on_line = [&](std::string_view line) {
    grandchild = std::stoi(std::string(line));
    ready.count_down();
  };
  pid_t leader = 0;
  {
    auto child = Child::start(std::move(spec));
    ASSERT_TRUE(child.ok());
    leader = static_cast<pid_t>((*child)->pid());
    ready.wait();
  }
  EXPECT_TRUE(is_gone(leader)) << "reaped, so its number is free";
  await_end(grandchild);
}

TEST_F(ChildTest, leaves_no_descriptor_and_no_zombie) {
  EXPECT_EQ(run(shell("true")).code, 0);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run(shell("true")).code, 0);
    ChildSpec missing = shell("");
    missing.argv = {"/no/such/program"};
    EXPECT_FALSE(Child::start(std::move(missing)).ok());
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ChildTest, many_run_at_once) {
  std::atomic<int> lines{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      ChildSpec spec = shell("echo one >&3; echo two >&3; exit " + std::to_string(i));
      spec.on_line = [&](std::string_view) { ++lines; };
      EXPECT_EQ(run(std::move(spec)).code, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines, 16);
}

constexpr const char* kEatMemory =
    "import sys\nblocks = []\nfor i in range(4096):\n  blocks.append(bytearray(1 << 20))\n";

TEST_F(ChildTest, too_much_memory_is_told_apart_from_a_kill) {
  ChildSpec spec = shell("");
  spec.argv = {"/usr/bin/python3", "-c", kEatMemory};
  spec.limits.memory_bytes_max = std::int64_t{64} << 20;
  const ChildExit end = run(std::move(spec));
  const bool grouped =
      std::count(end.protections.begin(), end.protections.end(), "cgroup-memory") == 1;
  if (grouped) {
    EXPECT_EQ(end.reason, ExitReason::kOutOfMemory);
    EXPECT_EQ(end.code, SIGKILL);
    EXPECT_LE(end.memory_peak_bytes, std::int64_t{70} << 20);
  } else {
    // Python turns the refused allocation into MemoryError, unless the watch was quicker.
    EXPECT_EQ(std::count(end.protections.begin(), end.protections.end(), "rlimit-memory"), 1);
    EXPECT_NE(end.code, 0);
  }
}

TEST_F(ChildTest, a_memory_limit_that_suffices_does_not_disturb) {
  ChildSpec spec = shell("echo fine");
  spec.limits.memory_bytes_max = std::int64_t{64} << 20;
  const ChildExit end = run(std::move(spec));
  EXPECT_EQ(end.reason, ExitReason::kExited);
  EXPECT_EQ(end.code, 0);
}

// Forks until it is refused and says how far it came.
constexpr const char* kForkBomb =
    "import os, signal\n"
    "count = 0\n"
    "try:\n"
    "  while count < 400:\n"
    "    if os.fork() == 0: signal.pause()\n"
    "    count += 1\n"
    "except BlockingIOError: pass\n"
    "os.write(3, b'%d\\n' % count)\n";

TEST_F(ChildTest, a_fork_bomb_meets_the_limit_and_dies_with_its_first_process) {
  ChildSpec spec = shell("");
  spec.argv = {"/usr/bin/python3", "-c", kForkBomb};
  spec.limits.processes_max = 20;
  std::string forked;
  spec.on_line = [&](std::string_view line) { forked = line; };
  const ChildExit end = run(std::move(spec));
  EXPECT_EQ(end.code, 0);
  if (std::count(end.protections.begin(), end.protections.end(), "cgroup-pids") == 0) {
    GTEST_SKIP() << "no control group for processes can be created here";
  }
  EXPECT_EQ(forked, "19");
}

TEST_F(ChildTest, processor_time_is_held_back) {
  ChildSpec spec = shell("");
  // The same work in processor time takes four times as long by the clock.
  spec.argv = {"/usr/bin/python3", "-c",
               "import os, time\n"
               "wall = time.monotonic()\n"
               "while time.process_time() < 0.3: pass\n"
               "os.write(3, b'%d\\n' % (1000 * (time.monotonic() - wall)))\n"};
  spec.limits.processes_max = 20;
  spec.limits.cpus_max = 0.25;
  std::string milliseconds;
  spec.on_line = [&](std::string_view line) { milliseconds = line; };
  const ChildExit end = run(std::move(spec));
  if (std::count(end.protections.begin(), end.protections.end(), "cgroup-cpu") == 0) {
    GTEST_SKIP() << "no control group for processor time can be created here";
  }
  EXPECT_GE(std::stoi(milliseconds), 700);
}

TEST(ControlGroup, of_a_dead_process_is_swept_away) {
  auto probe = internal::ControlGroup::create({});
  if (!probe.ok()) GTEST_SKIP() << "no control group can be created here";
  int numbers[2];
  ASSERT_EQ(::pipe(numbers), 0);
  const pid_t helper = ::fork();
  if (helper == 0) {
    // Makes a group with a member in it and dies without cleaning up.
    auto group = internal::ControlGroup::create({});
    if (group.ok() && ::fork() == 0) {
      const bool joined = ::write((*group)->procs_fds().front(), "0", 1) == 1;
      const pid_t self = joined ? ::getpid() : 0;
      [[maybe_unused]] const ssize_t told = ::write(numbers[1], &self, sizeof self);
      ::pause();
    }
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(helper, nullptr, 0), helper);
  pid_t member = 0;
  ASSERT_EQ(::read(numbers[0], &member, sizeof member), ssize_t{sizeof member});
  ::close(numbers[0]);
  ::close(numbers[1]);
  ASSERT_GT(member, 0);
  EXPECT_EQ(::kill(member, 0), 0);
  EXPECT_TRUE(internal::ControlGroup::create({}).ok());
  await_end(member);
}

class SandboxTest : public ChildTest {
 protected:
  ChildSpec sandboxed(const std::string& script) const {
    ChildSpec spec = shell(script);
    spec.sandbox.enabled = true;
    spec.sandbox.read_write = {folder_};
    return spec;
  }
  static bool held(const ChildExit& end, const std::string& name) {
    return std::count(end.protections.begin(), end.protections.end(), name) == 1;
  }
};

TEST_F(SandboxTest, every_protection_is_either_applied_or_reported_as_refused) {
  const ChildExit end = run(sandboxed("true"));
  EXPECT_EQ(end.code, 0) << log_text();
  for (const char* name : {"netns", "userns", "landlock", "no-capabilities", "seccomp"}) {
    int mentioned = held(end, name) ? 1 : 0;
    for (const std::string& refused : end.protections_refused) {
      mentioned += refused.starts_with(std::string(name) + ":") ? 1 : 0;
    }
    EXPECT_EQ(mentioned, 1) << name;
  }
  EXPECT_TRUE(held(end, "no_new_privs"));
}

TEST_F(SandboxTest, writes_its_folder_and_nothing_else) {
  const std::string outside = folder_ + "_outside";
  const ChildExit end = run(sandboxed("echo x > inside && cat inside && (echo y > " + outside +
                                      ") 2>/dev/null && echo escaped; ls /root /home "
                                      "2>/dev/null && echo looked; cat /etc/shadow 2>/dev/null "
                                      "&& echo stole; exit 0"));
  ASSERT_EQ(end.code, 0);
  if (!held(end, "landlock")) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(log_text(), "x\n");
  EXPECT_NE(::access(outside.c_str(), F_OK), 0);
}

// Whoever chooses the program's path does not choose by a link what becomes readable.
TEST_F(SandboxTest, a_link_as_the_program_opens_nothing) {
  const std::string tools = folder_ + "_tools";
  std::filesystem::create_directory(tools);
  std::filesystem::copy_file("/bin/true", tools + "/tool");
  std::filesystem::create_symlink(tools + "/tool", folder_ + "/link");
  ChildSpec plain = sandboxed("");
  plain.argv = {tools + "/tool"};
  const ChildExit end = run(std::move(plain));
  EXPECT_EQ(end.code, 0);
  if (held(end, "landlock")) {
    ChildSpec linked = sandboxed("");
    linked.argv = {folder_ + "/link"};
    EXPECT_FALSE(Child::start(std::move(linked)).ok());
  }
  std::filesystem::remove_all(tools);
}

TEST_F(SandboxTest, read_only_means_read_only) {
  const std::string shared = folder_ + "_shared";
  ASSERT_EQ(::mkdir(shared.c_str(), 0755), 0);
  std::ofstream(shared + "/data") << "rows\n";
  ChildSpec spec = sandboxed("cat " + shared + "/data; (echo z > " + shared +
                             "/data) 2>/dev/null && echo wrote; rm -f " + shared +
                             "/data 2>/dev/null && echo removed; exit 0");
  spec.sandbox.read_only = {shared};
  const ChildExit end = run(std::move(spec));
  const std::string seen = log_text();
  ::unlink((shared + "/data").c_str());
  ::rmdir(shared.c_str());
  if (!held(end, "landlock")) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(seen, "rows\n");
}

// /dev/ptmx stands for any device: it answers an ioctl that asks for a number.
TEST_F(SandboxTest, a_device_that_is_named_can_be_used_and_no_other) {
  if (::access("/dev/ptmx", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/ptmx here";
  const auto seen = [this](std::vector<std::string> more) {
    std::filesystem::remove(folder_ + "/log");
    ChildSpec spec = sandboxed("");
    spec.argv = {"/usr/bin/python3", "-c",
                 "import fcntl, os, struct\n"
                 "try:\n"
                 "  f = os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)\n"
                 "  fcntl.ioctl(f, 0x80045430, struct.pack('I', 0))\n"
                 "  print('used')\n"
                 "except PermissionError: print('refused')\n"
                 "except FileNotFoundError: print('not there')\n"};
    spec.sandbox.read_write.insert(spec.sandbox.read_write.end(), more.begin(), more.end());
    const ChildExit end = run(std::move(spec));
    return held(end, "landlock") ? log_text() : "no landlock";
  };
  const std::string without = seen({});
  if (without == "no landlock") GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(without, "refused\n");
  EXPECT_EQ(seen({"/dev/full"}), "refused\n") << "another device";
  EXPECT_EQ(seen({"/dev/ptmx"}), "used\n");
}

TEST_F(SandboxTest, has_no_network_but_itself) {
  ChildSpec spec = sandboxed("");
  spec.argv = {"/usr/bin/python3", "-c",
               "import socket\n"
               "lines = open('/proc/net/dev').readlines()[2:]\n"
               "print(sorted(line.split(':')[0].strip() for line in lines))\n"
               "server = socket.create_server(('127.0.0.1', 0))\n"
               "socket.create_connection(server.getsockname()).close()\n"
               "print('loopback works')\n"};
  const ChildExit end = run(std::move(spec));
  if (!held(end, "netns")) GTEST_SKIP() << "this machine refuses network namespaces";
  EXPECT_EQ(log_text(), "['lo']\nloopback works\n");
}

TEST_F(SandboxTest, opens_no_socket_but_internet_ones_and_pairs) {
  ChildSpec spec = sandboxed("");
  spec.argv = {
      "/usr/bin/python3", "-c",
      "import errno, socket\n"
      "def make(family, kind=socket.SOCK_DGRAM):\n"
      "    try: socket.socket(family, kind).close(); print('made')\n"
      "    except OSError as why: print(errno.errorcode[why.errno])\n"
      "make(socket.AF_UNIX); make(socket.AF_INET); make(socket.AF_INET6)\n"
      "make(socket.AF_NETLINK); make(socket.AF_PACKET); make(38)\n"
      "make(40, socket.SOCK_STREAM)\n"
      "socket.socketpair(); print('a pair')\n"};  // 38: the kernel's ciphers; 40: virtual machines.
  const ChildExit end = run(std::move(spec));
  ASSERT_TRUE(held(end, "seccomp"));
  EXPECT_EQ(log_text(),
            "EAFNOSUPPORT\nmade\nmade\n"
            "EAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\na pair\n");
}

TEST_F(SandboxTest, lists_its_interfaces_when_it_may_and_opens_nothing_else_for_it) {
  ChildSpec spec = sandboxed("");
  spec.sandbox.interfaces = true;
  spec.argv = {
      "/usr/bin/python3", "-c",
      "import errno, socket\n"
      "def make(family, protocol=0):\n"
      "    try: socket.socket(family, socket.SOCK_DGRAM, protocol).close(); print('made')\n"
      "    except OSError as why: print(errno.errorcode[why.errno])\n"
      "print([name for _, name in socket.if_nameindex()])\n"
      "make(socket.AF_INET); make(socket.AF_NETLINK)\n"
      "make(socket.AF_NETLINK, 9); make(socket.AF_NETLINK, 12); make(socket.AF_UNIX)\n"};
  const ChildExit end = run(std::move(spec));
  ASSERT_TRUE(held(end, "seccomp"));
  if (!held(end, "netns")) GTEST_SKIP() << "this machine refuses network namespaces";
  // 9: the kernel's audit; 12: its packet filter.
  EXPECT_EQ(log_text(), "['lo']\nmade\nmade\nEAFNOSUPPORT\nEAFNOSUPPORT\nEAFNOSUPPORT\n");
}

TEST_F(SandboxTest, reads_the_classes_of_pci_devices_with_its_interfaces_and_nothing_else_of_them) {
  const std::string look =
      "ls /sys/bus/pci/devices >/dev/null 2>&1 && echo listed; "
      "for d in /sys/bus/pci/devices/*; do cat $d/class >/dev/null 2>&1 && echo class; "
      "cat $d/vendor >/dev/null 2>&1 && echo vendor; done | sort -u; exit 0";
  ChildSpec spec = sandboxed(look);
  const ChildExit without = run(std::move(spec));
  if (!held(without, "landlock")) GTEST_SKIP() << "this kernel has no Landlock";
  if (!std::filesystem::exists("/sys/bus/pci/devices")) GTEST_SKIP() << "no PCI bus here";
  EXPECT_EQ(log_text(), "");
  spec = sandboxed(look);
  spec.sandbox.interfaces = true;
  run(std::move(spec));
  const bool some = !std::filesystem::is_empty("/sys/bus/pci/devices");
  EXPECT_EQ(log_text(), some ? "listed\nclass\n" : "listed\n");
}

// As on a machine that grants no namespaces. For a process that ends soon.
void lose_namespaces() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) {
    ::_exit(99);
  }
}

using SandboxDeathTest = SandboxTest;

TEST_F(SandboxDeathTest, without_a_network_of_its_own_there_is_none) {
  const auto tries = [this] {
    lose_namespaces();
    ChildSpec spec = sandboxed("");
    spec.argv = {"/usr/bin/python3", "-c",
                 "import socket\n"
                 "socket.socketpair()\n"
                 "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                 "except OSError: exit(7)\n"};
    const ChildExit end = run(std::move(spec));
    ::_exit(held(end, "netns") ? 98 : end.code);
  };
  EXPECT_EXIT(tries(), ::testing::ExitedWithCode(7), "");
}

TEST_F(SandboxDeathTest, full_confinement_includes_the_network) {
  const auto tries = [this] {
    lose_namespaces();
    ChildSpec spec = sandboxed("true");
    spec.sandbox.required = full_confinement();
    const auto child = Child::start(std::move(spec));
    const bool named = !child.ok() && child.error().message.find("'netns'") != std::string::npos;
    ::_exit(named ? 7 : 0);
  };
  EXPECT_EXIT(tries(), ::testing::ExitedWithCode(7), "");
}

TEST_F(SandboxTest, keeps_no_capability_and_may_not_trace) {
  ChildSpec spec = sandboxed("");
  spec.argv = {"/usr/bin/python3", "-c",
               "import ctypes, re\n"
               "status = open('/proc/self/status').read()\n"
               "print(re.search(r'CapEff:\\s*(\\w+)', status)[1])\n"
               "print(re.search(r'NoNewPrivs:\\s*(\\w+)', status)[1])\n"
               "libc = ctypes.CDLL(None, use_errno=True)\n"
               "print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())\n"};
  const ChildExit end = run(std::move(spec));
  ASSERT_EQ(end.code, 0) << log_text();
  EXPECT_TRUE(held(end, "seccomp"));
  EXPECT_EQ(log_text(), "0000000000000000\n1\n-1 1\n");
}

TEST_F(SandboxTest, may_not_make_namespaces_of_its_own) {
  ChildSpec spec = sandboxed("");
  // clone and clone3 by number: the wrappers of libc take other ways.
  spec.argv = {"/usr/bin/python3", "-c",
               "import ctypes, errno, os, subprocess, threading\n"
               "libc = ctypes.CDLL(None, use_errno=True)\n"
               "def call(*args):\n"
               "    pid = libc.syscall(*[ctypes.c_long(a) for a in args])\n"
               "    if pid == 0: os._exit(0)\n"
               "    print(pid, errno.errorcode.get(ctypes.get_errno()) if pid < 0 else 'made')\n"
               "clone = " +
                   std::to_string(SYS_clone) +
                   "\n"
                   "call(clone, 0x10000000 | 17, 0, 0, 0, 0)\n"
                   "call(clone, 0x00020000 | 17, 0, 0, 0, 0)\n"
                   "call(" +
                   std::to_string(SYS_clone3) +
                   ", 0, 0)\n"
                   "thread = threading.Thread(target=lambda: print('thread'))\n"
                   "thread.start(); thread.join()\n"
                   "print(subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout)\n"};
  const ChildExit end = run(std::move(spec));
  ASSERT_TRUE(held(end, "seccomp"));
  EXPECT_EQ(log_text(), "-1 EPERM\n-1 EPERM\n-1 ENOSYS\nthread\nb'x\\n'\n");
}

TEST_F(SandboxTest, does_not_start_without_what_is_required) {
  // A child that may use the network is never given this one.
  ChildSpec spec = sandboxed("echo ran");
  spec.sandbox.network = true;
  spec.sandbox.required = {"no_new_privs", "landlock-network"};
  const auto child = Child::start(std::move(spec));
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, Code::kFailedPrecondition);
  EXPECT_NE(child.error().message.find("'landlock-network'"), std::string::npos)
      << child.error().message;
  EXPECT_NE(child.error().message.find("jobs.sandbox"), std::string::npos);
  EXPECT_EQ(log_text(), "") << "the program never began";
}

TEST_F(SandboxTest, starts_with_what_is_required_and_granted) {
  ChildSpec spec = sandboxed("echo ran");
  spec.sandbox.required = {"no_new_privs", "seccomp"};
  EXPECT_EQ(run(std::move(spec)).code, 0);
  EXPECT_EQ(log_text(), "ran\n");
  spec = sandboxed("echo ran");
  spec.sandbox.required = {"prayer"};
  EXPECT_EQ(Child::start(std::move(spec)).error().code, Code::kInvalidArgument);
}

TEST_F(ChildTest, may_not_write_a_file_past_its_limit) {
  ChildSpec spec = shell("exec dd if=/dev/zero of=big bs=1024 count=100 status=none");
  spec.limits.file_bytes_max = 10 * 1024;
  const ChildExit end = run(std::move(spec));
  EXPECT_EQ(end.reason, ExitReason::kSignalled);
  EXPECT_EQ(end.code, SIGXFSZ);
  EXPECT_EQ(std::ifstream(folder_ + "/big", std::ios::ate).tellg(), std::streamoff{10 * 1024});
}

TEST_F(SandboxTest, may_not_signal_the_server) {
  const ChildExit end =
      run(sandboxed("kill -0 " + std::to_string(::getpid()) + " 2>/dev/null && echo reached"));
  if (!held(end, "landlock")) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(log_text(), "");
}

TEST_F(SandboxTest, probing_says_what_this_machine_grants) {
  const auto report = probe_sandbox();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_GE(report->applied.size(), 2u);
}

// Run by the test below in a process of its own; alone it has nothing to do.
TEST(ChildHelper, starts_a_sleeper_and_reports_it) {
  if (std::getenv("FALAJ_TEST_HELPER") == nullptr) return;
  ChildSpec spec;
  spec.argv = {"/bin/sleep", "1000"};
  spec.sandbox.enabled = true;
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok());
  const std::string line = std::to_string((*child)->pid()) + "\n";
  ASSERT_EQ(::write(3, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  (*child)->wait();
}

TEST_F(ChildTest, dies_with_a_server_that_is_killed) {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  ASSERT_GT(length, 0);
  ChildSpec spec = shell("");
  spec.argv = {std::string(self, static_cast<std::size_t>(length)),
               "--gtest_filter=ChildHelper.starts_a_sleeper_and_reports_it"};
  spec.env.emplace_back("FALAJ_TEST_HELPER", "1");
  std::latch ready(1);
  pid_t sleeper = 0;
  spec.on_line = [&](std::string_view line) {
    sleeper = std::stoi(std::string(line));
    ready.count_down();
  };
  auto server = Child::start(std::move(spec));
  ASSERT_TRUE(server.ok());
  ready.wait();
  // One process only, as the kernel's own killer would: not its group.
  ASSERT_EQ(::kill(static_cast<pid_t>((*server)->pid()), SIGKILL), 0);
  EXPECT_EQ((*server)->wait().code, SIGKILL);
  await_end(sleeper);
}

TEST_F(ChildTest, a_sandbox_shows_no_other_process) {
  ChildSpec spec =
      shell("tr '\\0' ' ' < /proc/self/cmdline; cat /proc/$OUTSIDE/cmdline; ls -d /proc/[0-9]*");
  spec.env.emplace_back("OUTSIDE", std::to_string(::getpid()));
  spec.sandbox.enabled = true;
  spec.sandbox.read_write = {folder_};
  const ChildExit exit = run(std::move(spec));
  const auto held = std::find(exit.protections.begin(), exit.protections.end(), "hidden-processes");
  if (held == exit.protections.end()) GTEST_SKIP() << "this machine does not grant it";
  EXPECT_TRUE(log_text().starts_with("tr ")) << "its own is there: " << log_text();
  EXPECT_NE(log_text().find("/cmdline: No such file"), std::string::npos) << log_text();
  EXPECT_EQ(log_text().find("/proc/" + std::to_string(::getpid()) + "\n"), std::string::npos);
}

TEST_F(ChildTest, who_fills_its_folder_is_ended_and_it_is_said) {
  ChildSpec spec = shell("i=0; while true; do head -c 200000 /dev/zero > f$i; i=$((i + 1)); done");
  spec.limits.disk_bytes_max = 20 << 20;
  spec.limits.run_time_max = Duration::seconds(60);
  EXPECT_EQ(run(std::move(spec)).reason, ExitReason::kOutOfDisk);
}

TEST_F(ChildTest, one_large_file_and_a_quick_end_are_too_much_too) {
  ChildSpec spec = shell("head -c 9000000 /dev/zero > large; exit 0");
  spec.limits.disk_bytes_max = 4 << 20;
  spec.limits.file_bytes_max = (4 << 20) + 1;
  EXPECT_EQ(run(spec).reason, ExitReason::kOutOfDisk);
  spec.limits.disk_bytes_max = 16 << 20;
  spec.limits.file_bytes_max = 0;
  EXPECT_EQ(run(spec).reason, ExitReason::kExited);
}

}  // namespace
}  // namespace falaj::exec
