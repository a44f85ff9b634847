// The namespaces of a sandboxed child, as root and as somebody else; child_test.cc has the rest.
#include "exec/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "exec/child.h"

namespace falaj::exec {
namespace {

constexpr unsigned kNobody = 65534;

ChildSpec sandboxed(const std::string& script) {
  ChildSpec spec;
  spec.argv = {"/bin/sh", "-c", script};
  spec.env = {{"PATH", "/usr/bin:/bin"}};
  spec.work_dir = "/";
  spec.sandbox.enabled = true;
  return spec;
}

bool held(const ChildExit& end, const std::string& name) {
  return std::count(end.protections.begin(), end.protections.end(), name) == 1;
}

std::string own_namespace() {
  char name[64];
  const ssize_t size = ::readlink("/proc/self/ns/user", name, sizeof name);
  return std::string(name, size > 0 ? static_cast<std::size_t>(size) : 0);
}

// "" when the child is alone in a user namespace of its own without capabilities; otherwise what
// it is in.
std::string trouble() {
  auto child = Child::start(sandboxed(
      "readlink /proc/self/ns/user; echo $(cat /proc/self/uid_map) $(cat /proc/self/gid_map); "
      "grep CapEff /proc/self/status"));
  if (!child.ok()) return child.error().message;
  const ChildExit end = (*child)->wait();
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  const std::string expected = uid + " " + uid + " 1 " + gid + " " + gid + " 1\n";
  const std::string inside = end.output.substr(0, end.output.find('\n'));
  const bool alone = inside.starts_with("user:[") && inside != own_namespace() &&
                     end.output == inside + "\n" + expected + "CapEff:\t0000000000000000\n";
  return held(end, "userns") && alone ? "" : "it is in: " + end.output;
}

bool write_to(const char* path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  return out.good();
}

TEST(UserNamespace, is_the_childs_own_for_whoever_runs_this) { EXPECT_EQ(trouble(), ""); }

TEST(UserNamespaceDeathTest, is_the_childs_own_for_a_parent_without_rights) {
  if (::geteuid() != 0) GTEST_SKIP() << "the one above was that";
  const auto tries = [] {
    if (::setresgid(kNobody, kNobody, kNobody) != 0) ::_exit(98);
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(98);
    const std::string found = trouble();
    std::fputs(found.c_str(), stderr);
    ::_exit(found.empty() ? 7 : 0);
  };
  EXPECT_EXIT(tries(), ::testing::ExitedWithCode(7), "");
}

// Where it may, the child shares our memory until it is the program: what it does to itself for a
// user namespace must not be done to us.
TEST(UserNamespace, leaves_the_parent_as_unreadable_as_it_was) {
  const int before = ::prctl(PR_GET_DUMPABLE);
  ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
  const std::string found = trouble();
  const int after = ::prctl(PR_GET_DUMPABLE);
  ::prctl(PR_SET_DUMPABLE, before, 0, 0, 0);
  EXPECT_EQ(found, "");
  EXPECT_EQ(after, 0);
}

TEST(UserNamespace, does_not_cost_root_the_hidden_processes) {
  auto child = Child::start(sandboxed("ls -d /proc/[0-9]* | wc -l"));
  ASSERT_TRUE(child.ok());
  const ChildExit end = (*child)->wait();
  if (!held(end, "hidden-processes")) GTEST_SKIP() << "this machine does not grant it";
  EXPECT_TRUE(held(end, "userns"));
  EXPECT_LE(std::stoi(end.output), 4) << "the shell, ls, wc, and one that is being made";
}

// As root of a machine whose kernel grants no user namespaces.
TEST(UserNamespaceDeathTest, that_the_kernel_refuses_is_said_and_a_parser_does_not_start) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer keeps a thread, and only a process of one enters a user namespace";
#endif
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto tries = [] {
    if (::unshare(CLONE_NEWUSER) != 0 || !write_to("/proc/self/uid_map", "0 0 1") ||
        !write_to("/proc/self/setgroups", "deny") || !write_to("/proc/self/gid_map", "0 0 1") ||
        !write_to("/proc/sys/user/max_user_namespaces", "0")) {
      ::_exit(98);
    }
    const auto report = probe_sandbox();
    if (!report.ok() || std::ranges::none_of(report->refused, [](const std::string& each) {
          return each.starts_with("userns: ");
        })) {
      ::_exit(97);
    }
    ChildSpec spec = sandboxed("true");
    spec.sandbox.required = {"userns"};
    const auto child = Child::start(std::move(spec));
    const bool named = !child.ok() && child.error().message.find("'userns'") != std::string::npos;
    ::_exit(named ? 7 : 0);
  };
  EXPECT_EXIT(tries(), ::testing::ExitedWithCode(7), "");
}

TEST(UserNamespace, is_required_of_parsers) {
  const auto names = parser_confinement();
  for (const char* const name : {"userns", "netns", "landlock", "seccomp", "no_new_privs"}) {
    EXPECT_EQ(std::ranges::count(names, name), 1) << name;
  }
}

TEST(NetworkNamespace, of_the_machine_is_not_told_as_one_of_its_own) {
  ChildSpec spec = sandboxed("readlink /proc/self/ns/net");
  spec.sandbox.network = true;
  auto child = Child::start(std::move(spec));
  ASSERT_TRUE(child.ok()) << child.error().message;
  const ChildExit end = (*child)->wait();
  EXPECT_EQ(end.output, std::filesystem::read_symlink("/proc/self/ns/net").string() + "\n");
  EXPECT_FALSE(held(end, "netns"));
  EXPECT_TRUE(held(end, "seccomp"));

  spec = sandboxed("echo ran");
  spec.sandbox.network = true;
  spec.sandbox.required = full_confinement();
  child = Child::start(std::move(spec));
  ASSERT_FALSE(child.ok());
  EXPECT_NE(child.error().message.find("'netns'"), std::string::npos) << child.error().message;
}

// The child's own numbers come first; what its protections need must not lie there.
TEST(Protections, are_the_same_for_a_child_with_many_files) {
  const auto ended = [](ChildSpec spec) { return Child::start(std::move(spec)).value()->wait(); };
  const ChildExit plain = ended(sandboxed("true"));
  ChildSpec spec = sandboxed("true");
  const auto file = std::make_shared<const Descriptor>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int number = 4; number < 100; ++number) {
    if (number != spec.channel_fd) spec.inherited.push_back({number, file});
  }
  const ChildExit end = ended(std::move(spec));
  EXPECT_EQ(end.code, 0) << end.output;
  EXPECT_EQ(end.protections, plain.protections);
}

}  // namespace
}  // namespace falaj::exec
