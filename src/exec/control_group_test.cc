#include "exec/internal/control_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "exec/testing/processes.h"

namespace falaj::exec::internal {
namespace {

namespace fs = std::filesystem;
using exec::testing::text_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The files that a kernel shows in a group, by controller.
const std::map<std::string, std::vector<std::string>> kV2Files = {
    {"memory",
     {"memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak",
      "memory.stat"}},
    {"pids", {"pids.max"}},
    {"cpu", {"cpu.max"}},
    {"cpuset", {"cpuset.cpus", "cpuset.mems"}},
    {"io", {"io.max"}}};
const std::map<std::string, std::vector<std::string>> kV1Files = {
    {"memory",
     {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control",
      "memory.max_usage_in_bytes", "memory.usage_in_bytes", "memory.stat"}},
    {"pids", {"pids.max"}},
    {"cpu", {"cpu.cfs_period_us", "cpu.cfs_quota_us"}},
    {"cpuset", {"cpuset.cpus", "cpuset.mems"}},
    {"blkio", {"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"}}};

void put(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

bool has_word(const std::string& file, const std::string& word) {
  std::istringstream words(text_of(file));
  for (std::string each; words >> each;) {
    if (each == word) return true;
  }
  return false;
}

// Folders and files that behave as the kernel's do: a new group has its files at once, a group with
// members can neither be removed nor (in version 2, but for the topmost) hand controllers down.
class FakeGroupTree : public GroupTree {
 public:
  explicit FakeGroupTree(const std::string& root) : GroupTree(root + "/cgroup", root + "/own") {}

  // Version 2 at `mount`, whose machine has these controllers.
  void mount_v2(const std::string& mount, const std::string& controllers) {
    fs::create_directories(mount);
    put(mount + "/cgroup.controllers", controllers);
    put(mount + "/cgroup.subtree_control", "");
    put(mount + "/cgroup.procs", "");
  }
  void mount_v1() {
    for (const auto& [hierarchy, files] : kV1Files) {
      fs::create_directories(mount() + "/" + hierarchy);
    }
  }

  bool make(const std::string& folder) override {
    if (!GroupTree::make(folder)) return false;
    put(folder + "/cgroup.procs", "");
    const std::string parent = fs::path(folder).parent_path();
    if (fs::exists(parent + "/cgroup.subtree_control")) {
      const std::string given = text_of(parent + "/cgroup.subtree_control");
      put(folder + "/cgroup.controllers", given);
      put(folder + "/cgroup.subtree_control", "");
      put(folder + "/cgroup.kill", "");
      std::istringstream words(given);
      for (std::string each; words >> each;) show(folder, kV2Files.at(each));
    } else {
      const fs::path below = fs::path(folder).lexically_relative(mount());
      show(folder, kV1Files.at(below.begin()->string()));
    }
    return true;
  }

  bool remove(const std::string& folder) override {
    if (!text_of(folder + "/cgroup.procs").empty()) return false;
    fs::remove_all(folder);
    return true;
  }

  bool write(const std::string& file, std::string_view text) override {
    const fs::path folder = fs::path(file).parent_path();
    if (!fs::exists(file) || refused_.contains(fs::path(file).filename())) return false;
    if (file.ends_with("/cgroup.subtree_control")) {
      return hand_down(folder, std::string(text.substr(1)));
    }
    if (file.ends_with("/cgroup.kill")) put(folder.string() + "/cgroup.procs", "");
    put(file, std::string(text));
    return true;
  }

  std::set<std::string> refused_;  // Files that may not be written.

 private:
  static void show(const std::string& folder, const std::vector<std::string>& files) {
    for (const std::string& file : files) put(folder + "/" + file, "");
  }
  bool hand_down(const fs::path& folder, const std::string& controller) const {
    if (!has_word(folder / "cgroup.controllers", controller)) return false;
    if (folder != mount() && !text_of(folder / "cgroup.procs").empty()) return false;
    const std::string given = folder / "cgroup.subtree_control";
    put(given, text_of(given) + " " + controller);
    for (const fs::directory_entry& child : fs::directory_iterator(folder)) {
      if (!child.is_directory()) continue;
      put(child.path() / "cgroup.controllers", text_of(given));
      show(child.path(), kV2Files.at(controller));
    }
    return true;
  }
};

class ControlGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "falaj_groups_XXXXXX";
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    tree_ = std::make_unique<FakeGroupTree>(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void own(const std::string& text) const { put(root_ + "/own", text); }
  // Version 2 alone; this process is in /falaj.service, which nobody else is in.
  void only_v2(const std::string& controllers = "cpuset cpu io memory pids") {
    own("0::/falaj.service\n");
    tree_->mount_v2(tree_->mount(), controllers);
    tree_->mount_v2(tree_->mount() + "/falaj.service", controllers);
  }
  void only_v1() {
    own("4:memory:/job\n3:pids:/\n2:cpu:/\n1:cpuset:/\n5:blkio:/\n");
    tree_->mount_v1();
    fs::create_directories(tree_->mount() + "/memory/job");
  }
  std::unique_ptr<ControlGroup> made(const GroupLimits& limits, const std::string& tag = "") {
    auto group = ControlGroup::create(limits, tag, *tree_);
    EXPECT_TRUE(group.ok());
    return group.ok() ? std::move(*group) : nullptr;
  }
  // The groups of ours below a folder of the tree.
  std::vector<std::string> ours(const std::string& below) const {
    std::vector<std::string> out;
    for (const fs::directory_entry& each : fs::directory_iterator(tree_->mount() + below)) {
      if (each.path().filename().string().starts_with("falaj-")) out.push_back(each.path());
    }
    return out;
  }
  std::string only_one(const std::string& below) const {
    const std::vector<std::string> found = ours(below);
    EXPECT_EQ(found.size(), 1u) << below;
    return found.empty() ? "" : found.front();
  }

  std::string root_;
  std::unique_ptr<FakeGroupTree> tree_;
};

GroupLimits all_limits() { return {64 << 20, 40, 1.5, "0-1", "0", 8 << 20, "254:0"}; }

// A process that waits to be killed; told what killed it, which is waited for.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) ::pause();
  }
  ~Sleeper() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  int ended_by() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_;
  bool reaped_ = false;
};

TEST_F(ControlGroupTest, of_version_2_writes_every_limit_into_one_folder) {
  only_v2();
  const auto group = made(all_limits());
  EXPECT_THAT(group->refused(), IsEmpty());
  const std::string folder = only_one("/falaj.service");
  EXPECT_EQ(text_of(folder + "/memory.max"), "67108864");
  EXPECT_EQ(text_of(folder + "/memory.swap.max"), "0");
  EXPECT_EQ(text_of(folder + "/memory.oom.group"), "1");
  EXPECT_EQ(text_of(folder + "/pids.max"), "40");
  EXPECT_EQ(text_of(folder + "/cpu.max"), "150000 100000");
  EXPECT_EQ(text_of(folder + "/cpuset.cpus"), "0-1");
  EXPECT_EQ(text_of(folder + "/cpuset.mems"), "0");
  EXPECT_EQ(text_of(folder + "/io.max"), "254:0 rbps=8388608 wbps=8388608");
  for (const Controller each :
       {Controller::kProcesses, Controller::kCpu, Controller::kCpuSet, Controller::kIo}) {
    EXPECT_TRUE(group->limits(each));
  }
  ASSERT_EQ(group->procs_fds().size(), 1u);
  EXPECT_EQ(::write(group->procs_fds()[0], "7", 1), 1);
  EXPECT_EQ(text_of(folder + "/cgroup.procs"), "7") << "whoever writes there moves in";
}

TEST_F(ControlGroupTest, of_version_1_writes_each_limit_into_a_hierarchy_of_its_own) {
  only_v1();
  const auto group = made(all_limits());
  EXPECT_THAT(group->refused(), IsEmpty());
  const std::string memory = only_one("/memory/job");
  EXPECT_EQ(text_of(memory + "/memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(text_of(memory + "/memory.memsw.limit_in_bytes"), "67108864");
  EXPECT_EQ(text_of(only_one("/pids") + "/pids.max"), "40");
  EXPECT_EQ(text_of(only_one("/cpu") + "/cpu.cfs_period_us"), "100000");
  EXPECT_EQ(text_of(only_one("/cpu") + "/cpu.cfs_quota_us"), "150000");
  EXPECT_EQ(text_of(only_one("/cpuset") + "/cpuset.cpus"), "0-1");
  EXPECT_EQ(text_of(only_one("/cpuset") + "/cpuset.mems"), "0");
  for (const char* file : {"/blkio.throttle.read_bps_device", "/blkio.throttle.write_bps_device"}) {
    EXPECT_EQ(text_of(only_one("/blkio") + file), "254:0 8388608");
  }
  EXPECT_EQ(group->procs_fds().size(), 5u);
}

TEST_F(ControlGroupTest, of_version_2_is_told_what_it_used) {
  only_v2();
  const auto group = made({64 << 20, 0, 0, "", "", 0, ""});
  const std::string folder = only_one("/falaj.service");
  put(folder + "/memory.peak", "12345\n");
  put(folder + "/memory.stat", "file 99\nanon 678\nkernel 5\n");
  put(folder + "/memory.events", "low 0\noom 3\noom_kill 0\noom_group_kill 9\n");
  put(folder + "/cgroup.procs", "11\n12\n");
  EXPECT_EQ(group->peak_bytes(), 12345);
  EXPECT_EQ(group->resident_bytes(), 678);
  EXPECT_FALSE(group->out_of_memory()) << "it met its limit and nobody was killed";
  put(folder + "/memory.events", "oom 3\noom_kill 1\n");
  EXPECT_TRUE(group->out_of_memory());
  EXPECT_THAT(group->members(), ElementsAre(11, 12));
  put(folder + "/cgroup.procs", "");
}

TEST_F(ControlGroupTest, of_version_1_is_told_what_it_used) {
  only_v1();
  const auto group = made({64 << 20, 0, 0, "", "", 0, ""});
  const std::string folder = only_one("/memory/job");
  put(folder + "/memory.max_usage_in_bytes", "12345\n");
  put(folder + "/memory.stat", "rss 1\ntotal_rss 678\n");
  put(folder + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(group->peak_bytes(), 12345);
  EXPECT_EQ(group->resident_bytes(), 678);
  EXPECT_TRUE(group->out_of_memory());
}

TEST_F(ControlGroupTest, of_version_2_asks_for_controllers_that_were_not_handed_down) {
  only_v2();
  // As a user's slice often has it: memory and processes are there, the others are not yet.
  const std::string parent = tree_->mount() + "/falaj.service";
  put(parent + "/cgroup.subtree_control", "memory pids");
  const auto group = made(all_limits());
  EXPECT_THAT(group->refused(), IsEmpty());
  EXPECT_EQ(text_of(only_one("/falaj.service") + "/cpu.max"), "150000 100000");
}

TEST_F(ControlGroupTest, says_which_limits_it_could_not_set) {
  only_v2("memory pids");
  const auto group = made(all_limits());
  EXPECT_THAT(group->refused(), ElementsAre("cgroup-cpu: the limit cannot be written",
                                            "cgroup-cpuset: the limit cannot be written",
                                            "cgroup-io: the limit cannot be written"));
  EXPECT_TRUE(group->limits(Controller::kProcesses));
  EXPECT_FALSE(group->limits(Controller::kCpu));
}

TEST_F(ControlGroupTest, lies_at_the_top_where_its_own_group_has_members) {
  only_v2();
  put(tree_->mount() + "/falaj.service/cgroup.procs", "1\n");
  const auto group = made(all_limits());
  EXPECT_THAT(ours("/falaj.service"), IsEmpty()) << "nothing is left of the attempt";
  EXPECT_EQ(text_of(only_one("") + "/memory.max"), "67108864");
  EXPECT_TRUE(made(all_limits()));
  EXPECT_EQ(tree_->last_place().parent, tree_->mount());
}

TEST_F(ControlGroupTest, is_of_version_1_where_version_2_has_no_memory_controller) {
  only_v1();
  own("4:memory:/job\n0::/\n");
  tree_->mount_v2(tree_->mount() + "/unified", "");
  const auto group = made({64 << 20, 0, 0, "", "", 0, ""});
  EXPECT_EQ(text_of(only_one("/memory/job") + "/memory.limit_in_bytes"), "67108864");
  EXPECT_THAT(ours("/unified"), IsEmpty());
}

TEST_F(ControlGroupTest, is_refused_where_memory_cannot_be_limited) {
  own("0::/\n");
  tree_->mount_v2(tree_->mount(), "cpu pids");
  EXPECT_EQ(ControlGroup::create(all_limits(), "", *tree_).error().code, Code::kUnavailable);
  EXPECT_THAT(ours(""), IsEmpty());
  tree_->mount_v2(tree_->mount(), "memory");
  tree_->refused_ = {"memory.max"};
  EXPECT_EQ(ControlGroup::create(all_limits(), "", *tree_).error().code, Code::kUnavailable);
  EXPECT_THAT(ours(""), IsEmpty());
}

TEST_F(ControlGroupTest, kills_its_members_in_either_version) {
  only_v2();
  const auto second = made({});
  Sleeper spared;
  put(only_one("/falaj.service") + "/cgroup.procs", std::to_string(spared.pid()) + "\n");
  second->kill_all();
  EXPECT_THAT(second->members(), IsEmpty()) << "the kernel does it, by one file";
  put(only_one("/falaj.service") + "/cgroup.procs", std::to_string(spared.pid()) + "\n");
  tree_->refused_ = {"cgroup.kill"};  // A kernel before 5.14.
  second->kill_all();
  EXPECT_EQ(spared.ended_by(), SIGKILL);
  put(only_one("/falaj.service") + "/cgroup.procs", "");
}

TEST_F(ControlGroupTest, of_a_dead_process_goes_when_the_next_is_made) {
  only_v2();
  tree_->write(tree_->mount() + "/falaj.service/cgroup.subtree_control", "+memory");
  // The greatest process number is 4194304.
  const std::string left = tree_->mount() + "/falaj.service/falaj-4194305-0";
  const std::string tagged = tree_->mount() + "/falaj.service/falaj-4194305-mine-0";
  const std::string other = tree_->mount() + "/falaj.service/falaj-4194305-yours-0";
  ASSERT_TRUE(tree_->make(tagged) && tree_->make(other));
  ControlGroup::sweep_tagged("mine", *tree_);
  EXPECT_FALSE(fs::exists(tagged));
  EXPECT_TRUE(fs::exists(other));
  ASSERT_TRUE(tree_->make(left));
  const auto group = made({});
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(ControlGroupTest, can_be_used_again_only_where_its_peak_can_be_set_back) {
  only_v1();
  const auto first = made({});
  put(only_one("/memory/job") + "/memory.usage_in_bytes", "4096");
  put(only_one("/memory/job") + "/memory.max_usage_in_bytes", "99");
  EXPECT_TRUE(first->renew());
  EXPECT_EQ(first->peak_bytes(), 0);
  put(only_one("/memory/job") + "/memory.oom_control", "oom_kill 1\n");
  EXPECT_FALSE(first->renew());
  own("0::/\n");
  FakeGroupTree newer(root_ + "/newer");
  newer.mount_v2(newer.mount(), "memory");
  put(root_ + "/newer/own", "0::/\n");
  auto second = ControlGroup::create({}, "", newer);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE((*second)->renew());
}

TEST_F(ControlGroupTest, is_gone_with_all_its_folders) {
  only_v1();
  {
    const auto group = made(all_limits());
    EXPECT_FALSE(ours("/pids").empty());
  }
  for (const char* hierarchy : {"/memory/job", "/pids", "/cpu", "/cpuset", "/blkio"}) {
    EXPECT_THAT(ours(hierarchy), IsEmpty()) << hierarchy;
  }
}

}  // namespace
}  // namespace falaj::exec::internal
