#include "exec/internal/control_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <vector>

#include "base/mutex.h"

namespace falaj::exec::internal {
namespace {

constexpr std::string_view kPrefix = "falaj-";
// Of version 2, below the mount: by itself, or beside hierarchies of version 1.
constexpr const char* kV2Mounts[] = {"", "/unified"};
constexpr const char* kV1Hierarchies[] = {"memory", "pids", "cpu", "cpuset", "blkio"};

std::string read_text(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  char part[4096];
  while (file.open()) {
    const ssize_t got = ::read(file.get(), part, sizeof part);
    if (got <= 0) break;
    out.append(part, static_cast<std::size_t>(got));
  }
  return out;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::int64_t leading_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The number after `key` and a blank at the beginning of a line; 0 if there is none.
std::int64_t number_of(const std::string& text, const std::string& key) {
  const std::string lines = "\n" + text;
  const std::size_t at = lines.find("\n" + key + " ");
  return at == std::string::npos
             ? 0
             : leading_number(std::string_view(lines).substr(at + key.size() + 2));
}

std::vector<std::int64_t> members_of(const std::string& folder) {
  const std::string text = read_text(folder + "/cgroup.procs");
  std::vector<std::int64_t> pids;
  for (std::size_t at = 0; at < text.size();) {
    const std::int64_t pid = leading_number(std::string_view(text).substr(at));
    if (pid > 0) pids.push_back(pid);
    const std::size_t end = text.find('\n', at);
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return pids;
}

void kill_members(const std::string& folder) {
  for (const std::int64_t pid : members_of(folder)) ::kill(static_cast<pid_t>(pid), SIGKILL);
}

// A group stays busy for a moment after its last member died.
void remove_group(GroupTree& tree, const std::string& folder) {
  for (int attempt = 0; attempt < 400; ++attempt) {
    if (tree.remove(folder)) return;
    kill_members(folder);
    ::poll(nullptr, 0, 5);
  }
}

// Removes the groups of ours below `parent` that are left over.
void sweep(GroupTree& tree, const std::string& parent,
           const std::function<bool(std::string_view)>& left_over) {
  DIR* listing = ::opendir(parent.c_str());
  if (listing == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kPrefix) && left_over(name.substr(kPrefix.size()))) {
      names.emplace_back(name);
    }
  }
  ::closedir(listing);
  for (const std::string& name : names) remove_group(tree, parent + "/" + name);
}

// Groups are named after the process that made them; those of dead ones hold stray descendants.
bool maker_is_dead(std::string_view name) {
  const std::int64_t maker = leading_number(name);
  return maker > 0 && ::kill(static_cast<pid_t>(maker), 0) != 0 && errno == ESRCH;
}

const char* name_of(Controller controller) {
  switch (controller) {
    case Controller::kMemory:
      return "cgroup-memory";
    case Controller::kProcesses:
      return "cgroup-pids";
    case Controller::kCpu:
      return "cgroup-cpu";
    case Controller::kCpuSet:
      return "cgroup-cpuset";
    case Controller::kIo:
      return "cgroup-io";
  }
  return "cgroup";
}

// This process's group, and the topmost: inside a container the path may be that of the host, and
// then the mount itself is our group.
std::vector<std::string> parents_of(const GroupTree& tree, const std::string& mount,
                                    const std::string& marker) {
  const std::string below = tree.mount() + mount;
  return {below + tree.own_group(marker), below};
}

}  // namespace

GroupTree& GroupTree::of_this_machine() {
  static GroupTree tree("/sys/fs/cgroup", "/proc/self/cgroup");
  return tree;
}

bool GroupTree::make(const std::string& folder) { return ::mkdir(folder.c_str(), 0755) == 0; }

bool GroupTree::remove(const std::string& folder) {
  return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

bool GroupTree::write(const std::string& file, std::string_view text) {
  const Fd opened(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return opened.open() &&
         ::write(opened.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::string GroupTree::own_group(const std::string& marker) const {
  const std::string text = "\n" + read_text(own_);
  const std::size_t at = text.find(marker);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + marker.size();
  std::string path = text.substr(begin, text.find('\n', begin) - begin);
  return path == "/" ? "" : path;
}

GroupTree::Place GroupTree::last_place() {
  MutexLock lock(mutex_);
  return last_;
}

void GroupTree::remember(Place place) {
  MutexLock lock(mutex_);
  last_ = std::move(place);
}

// Makes a folder of ours below `parent` and opens its list of members.
bool ControlGroup::enter(const std::string& parent) {
  static std::atomic<unsigned> next{0};
  if (tag_.empty()) sweep(tree_, parent, maker_is_dead);
  std::string path = parent + "/" + std::string(kPrefix) + std::to_string(::getpid()) + "-" + tag_ +
                     (tag_.empty() ? "" : "-") + std::to_string(next.fetch_add(1));
  if (!tree_.make(path)) return false;
  Fd procs(::open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  const bool opened = procs.open();
  folders_.push_back({std::move(path), std::move(procs)});
  return opened;
}

// Version 2: whether the parent lets its children have that controller, now if not before. Each is
// asked for by itself, since one that is missing would refuse all.
bool ControlGroup::handed_down(std::string_view controller, std::string_view file) const {
  const std::string path = folder() + "/" + std::string(file);
  if (exists(path)) return true;
  const std::string parent = folder().substr(0, folder().rfind('/'));
  tree_.write(parent + "/cgroup.subtree_control", "+" + std::string(controller));
  return exists(path);
}

std::unique_ptr<ControlGroup> ControlGroup::create_in(GroupTree& tree,
                                                      const GroupTree::Place& place,
                                                      const GroupLimits& limits,
                                                      const std::string& tag) {
  std::unique_ptr<ControlGroup> group(new ControlGroup(tree, place.version, limits, tag));
  if (!group->enter(place.parent)) return nullptr;
  if (place.version == GroupVersion::kV2 && !group->handed_down("memory", "memory.max")) {
    return nullptr;
  }
  if (!group->limit_memory(limits.memory_bytes_max)) return nullptr;
  group->limit_others(limits);
  tree.remember(place);
  return group;
}

Result<std::unique_ptr<ControlGroup>> ControlGroup::create(const GroupLimits& limits,
                                                           const std::string& tag,
                                                           GroupTree& tree) {
  const GroupTree::Place last = tree.last_place();
  if (!last.parent.empty()) {
    if (auto group = create_in(tree, last, limits, tag)) return group;
  }
  std::vector<GroupTree::Place> places;
  for (const char* mount : kV2Mounts) {
    if (!exists(tree.mount() + mount + "/cgroup.controllers")) continue;
    for (const std::string& parent : parents_of(tree, mount, "\n0::")) {
      places.push_back({GroupVersion::kV2, parent});
    }
  }
  for (const std::string& parent : parents_of(tree, "/memory", ":memory:")) {
    places.push_back({GroupVersion::kV1, parent});
  }
  for (const GroupTree::Place& place : places) {
    if (auto group = create_in(tree, place, limits, tag)) return group;
  }
  return Error(Code::kUnavailable, "no control group can be created for a memory limit");
}

void ControlGroup::sweep_tagged(const std::string& tag, GroupTree& tree) {
  const std::string self = std::to_string(::getpid()) + "-";
  const auto left_over = [&](std::string_view name) {
    return !name.starts_with(self) && name.find("-" + tag + "-") != std::string_view::npos;
  };
  for (const char* mount : kV2Mounts) {
    for (const std::string& parent : parents_of(tree, mount, "\n0::")) {
      sweep(tree, parent, left_over);
    }
  }
  for (const std::string name : kV1Hierarchies) {
    for (const std::string& parent : parents_of(tree, "/" + name, ":" + name + ":")) {
      sweep(tree, parent, left_over);
    }
  }
}

ControlGroup::~ControlGroup() {
  for (Folder& each : folders_) each.procs.reset();
  kill_all();
  for (const Folder& each : folders_) remove_group(tree_, each.path);
}

std::vector<int> ControlGroup::procs_fds() const {
  std::vector<int> fds;
  for (const Folder& each : folders_) fds.push_back(each.procs.get());
  return fds;
}

bool ControlGroup::limits(Controller controller) const {
  return std::find(limited_.begin(), limited_.end(), controller) != limited_.end();
}

bool ControlGroup::limit_memory(std::int64_t bytes_max) const {
  if (bytes_max <= 0) return true;
  const std::string bytes = std::to_string(bytes_max);
  const bool v2 = version_ == GroupVersion::kV2;
  if (!tree_.write(folder() + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), bytes)) return false;
  // Swap would only make it die slowly; kernels without swap accounting lack the file.
  tree_.write(folder() + (v2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"),
              v2 ? "0" : bytes);
  // One victim means the whole job: half a job is of no use.
  if (v2) tree_.write(folder() + "/memory.oom.group", "1");
  return true;
}

void ControlGroup::limit_others(const GroupLimits& limits) {
  if (limits.processes_max > 0) {
    limit_other(Controller::kProcesses, "pids",
                {{"pids.max", std::to_string(limits.processes_max)}});
  }
  if (limits.cpus_max > 0) limit_cpu(limits.cpus_max);
  if (!limits.processors.empty()) bind(limits);
  if (limits.io_bytes_max > 0) limit_io(limits);
}

void ControlGroup::limit_cpu(double cpus) {
  constexpr std::int64_t kPeriod = 100'000;  // Microseconds; the kernel's own default.
  const auto quota = std::to_string(static_cast<std::int64_t>(cpus * static_cast<double>(kPeriod)));
  const std::string period = std::to_string(kPeriod);
  if (version_ == GroupVersion::kV2) {
    limit_other(Controller::kCpu, "cpu", {{"cpu.max", quota + " " + period}});
  } else {
    limit_other(Controller::kCpu, "cpu",
                {{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}});
  }
}

// In version 1 a group without memory nodes takes nobody in.
void ControlGroup::bind(const GroupLimits& limits) {
  std::string nodes = limits.memory_nodes;
  if (nodes.empty()) {
    nodes = read_text("/sys/devices/system/node/has_memory");
    nodes.resize(std::min(nodes.find('\n'), nodes.size()));
  }
  limit_other(Controller::kCpuSet, "cpuset",
              {{"cpuset.cpus", limits.processors}, {"cpuset.mems", nodes}});
}

void ControlGroup::limit_io(const GroupLimits& limits) {
  const std::string bytes = std::to_string(limits.io_bytes_max);
  if (limits.io_device.empty()) {
    refused_.emplace_back("cgroup-io: the work folder lies on no disk of its own");
  } else if (version_ == GroupVersion::kV2) {
    limit_other(Controller::kIo, "io",
                {{"io.max", limits.io_device + " rbps=" + bytes + " wbps=" + bytes}});
  } else {
    const std::string rule = limits.io_device + " " + bytes;
    limit_other(
        Controller::kIo, "blkio",
        {{"blkio.throttle.read_bps_device", rule}, {"blkio.throttle.write_bps_device", rule}});
  }
}

// Version 1: a folder in another hierarchy.
bool ControlGroup::enter_v1(const std::string& hierarchy) {
  for (const std::string& parent : parents_of(tree_, "/" + hierarchy, ":" + hierarchy + ":")) {
    const std::size_t before = folders_.size();
    if (enter(parent)) return true;
    if (folders_.size() == before) continue;
    remove_group(tree_, folders_.back().path);
    folders_.pop_back();
  }
  return false;
}

void ControlGroup::limit_other(Controller controller, const std::string& hierarchy,
                               const std::vector<std::pair<std::string, std::string>>& files) {
  const bool v2 = version_ == GroupVersion::kV2;
  bool done = v2 ? handed_down(hierarchy, files.front().first) : enter_v1(hierarchy);
  const std::string where = v2 ? folder() : folders_.back().path;
  for (const auto& [file, text] : files) done = done && tree_.write(where + "/" + file, text);
  if (done) {
    limited_.push_back(controller);
  } else {
    refused_.push_back(std::string(name_of(controller)) + ": the limit cannot be written");
  }
}

bool ControlGroup::out_of_memory() const {
  const char* file = version_ == GroupVersion::kV2 ? "/memory.events" : "/memory.oom_control";
  return number_of(read_text(folder() + file), "oom_kill") > 0;
}

std::int64_t ControlGroup::peak_bytes() const {
  const char* file = version_ == GroupVersion::kV2 ? "/memory.peak" : "/memory.max_usage_in_bytes";
  return leading_number(read_text(folder() + file));
}

std::int64_t ControlGroup::resident_bytes() const {
  return number_of(read_text(folder() + "/memory.stat"),
                   version_ == GroupVersion::kV2 ? "anon" : "total_rss");
}

std::vector<std::int64_t> ControlGroup::members() const {
  return folders_.empty() ? std::vector<std::int64_t>() : members_of(folder());
}

bool ControlGroup::try_remove() {
  std::erase_if(folders_, [this](Folder& each) {
    each.procs.reset();
    return tree_.remove(each.path);
  });
  return folders_.empty();
}

// Only version 1 lets the peak be set back.
bool ControlGroup::renew() {
  constexpr std::int64_t kLeftMost = 1 << 20;
  if (version_ != GroupVersion::kV1 || folders_.empty() || !refused_.empty() || out_of_memory()) {
    return false;
  }
  for (const Folder& each : folders_) {
    if (!each.procs.open() || !members_of(each.path).empty()) return false;
  }
  return leading_number(read_text(folder() + "/memory.usage_in_bytes")) <= kLeftMost &&
         tree_.write(folder() + "/memory.max_usage_in_bytes", "0");
}

std::unique_ptr<ControlGroup> SpareGroups::take(const GroupLimits& limits) {
  MutexLock lock(mutex_);
  const auto at = std::find_if(spare_.begin(), spare_.end(),
                               [&](const auto& group) { return group->asked() == limits; });
  if (at == spare_.end()) return nullptr;
  std::unique_ptr<ControlGroup> group = std::move(*at);
  spare_.erase(at);
  return group;
}

std::unique_ptr<ControlGroup> SpareGroups::keep(std::unique_ptr<ControlGroup> group) {
  if (!group || !group->renew()) return group;
  MutexLock lock(mutex_);
  // The oldest goes: what was asked for last is asked for next.
  if (spare_.size() < kMost) {
    spare_.push_back(std::move(group));
    return nullptr;
  }
  std::swap(spare_.front(), group);
  return group;
}

void ControlGroup::kill_all() const {
  if (folders_.empty()) return;
  if (version_ == GroupVersion::kV2 && tree_.write(folder() + "/cgroup.kill", "1")) return;
  kill_members(folder());
}

}  // namespace falaj::exec::internal
