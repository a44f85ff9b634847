#include "exec/internal/memory_group.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace falaj::exec::internal {
namespace {

constexpr std::string_view kPrefix = "falaj-";
constexpr const char* kV2Mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
constexpr const char* kV1Mount = "/sys/fs/cgroup/memory";

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

bool write_text(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.open() &&
         ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
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

// This process's group in a hierarchy: the text after `marker` in /proc/self/cgroup.
std::string own_group(const std::string& marker) {
  const std::string text = "\n" + read_text("/proc/self/cgroup");
  const std::size_t at = text.find(marker);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + marker.size();
  std::string path = text.substr(begin, text.find('\n', begin) - begin);
  return path == "/" ? "" : path;
}

void kill_members(const std::string& folder) {
  const std::string members = read_text(folder + "/cgroup.procs");
  for (std::size_t at = 0; at < members.size();) {
    const std::int64_t pid = leading_number(std::string_view(members).substr(at));
    if (pid > 0) ::kill(static_cast<pid_t>(pid), SIGKILL);
    const std::size_t end = members.find('\n', at);
    at = end == std::string::npos ? members.size() : end + 1;
  }
}

// A group stays busy for a moment after its last member died.
void remove_group(const std::string& folder) {
  for (int attempt = 0; attempt < 400; ++attempt) {
    if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) return;
    kill_members(folder);
    ::poll(nullptr, 0, 5);
  }
}

// Groups are named after the process that made them; those of dead ones hold stray descendants.
void sweep(const std::string& parent) {
  DIR* listing = ::opendir(parent.c_str());
  if (listing == nullptr) return;
  std::vector<std::string> dead;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    const std::int64_t owner = leading_number(name.substr(kPrefix.size()));
    if (owner > 0 && ::kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH) {
      dead.emplace_back(name);
    }
  }
  ::closedir(listing);
  for (const std::string& name : dead) remove_group(parent + "/" + name);
}

}  // namespace

std::unique_ptr<MemoryGroup> MemoryGroup::create_in(Version version, const std::string& parent,
                                                    std::int64_t bytes_max) {
  static std::atomic<unsigned> next{0};
  sweep(parent);
  const std::string folder = parent + "/" + std::string(kPrefix) + std::to_string(::getpid()) +
                             "-" + std::to_string(next.fetch_add(1));
  if (::mkdir(folder.c_str(), 0755) != 0) return nullptr;
  std::unique_ptr<MemoryGroup> group(new MemoryGroup(version, folder));
  if (version == Version::kV2 && !exists(folder + "/memory.max")) {
    // The controller may exist without being handed down yet.
    write_text(parent + "/cgroup.subtree_control", "+memory");
    if (!exists(folder + "/memory.max")) return nullptr;
  }
  if (!group->limit(bytes_max).ok()) return nullptr;
  group->procs_ = Fd(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!group->procs_.open()) return nullptr;
  return group;
}

Result<std::unique_ptr<MemoryGroup>> MemoryGroup::create(std::int64_t bytes_max) {
  for (const char* mount : kV2Mounts) {
    if (!exists(std::string(mount) + "/cgroup.controllers")) continue;
    // Inside a container the path may be that of the host: then the mount itself is our group.
    for (const std::string& own : {own_group("\n0::"), std::string()}) {
      if (auto group = create_in(Version::kV2, mount + own, bytes_max)) return group;
    }
  }
  for (const std::string& own : {own_group(":memory:"), std::string()}) {
    if (auto group = create_in(Version::kV1, kV1Mount + own, bytes_max)) return group;
  }
  return Error(Code::kUnavailable, "no control group can be created for a memory limit");
}

MemoryGroup::~MemoryGroup() {
  procs_.reset();
  kill_all();
  remove_group(folder_);
}

Status MemoryGroup::limit(std::int64_t bytes_max) const {
  if (bytes_max <= 0) return {};
  const std::string bytes = std::to_string(bytes_max);
  const bool v2 = version_ == Version::kV2;
  if (!write_text(folder_ + (v2 ? "/memory.max" : "/memory.limit_in_bytes"), bytes)) {
    return Error(Code::kUnavailable, "the memory limit cannot be written to " + folder_);
  }
  // Swap would only make it die slowly; kernels without swap accounting lack the file.
  write_text(folder_ + (v2 ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes"),
             v2 ? "0" : bytes);
  // One victim means the whole job: half a job is of no use.
  if (v2) write_text(folder_ + "/memory.oom.group", "1");
  return {};
}

bool MemoryGroup::out_of_memory() const {
  const char* file = version_ == Version::kV2 ? "/memory.events" : "/memory.oom_control";
  return number_of(read_text(folder_ + file), "oom_kill") > 0;
}

std::int64_t MemoryGroup::peak_bytes() const {
  const char* file = version_ == Version::kV2 ? "/memory.peak" : "/memory.max_usage_in_bytes";
  return leading_number(read_text(folder_ + file));
}

void MemoryGroup::kill_all() const {
  if (version_ == Version::kV2 && write_text(folder_ + "/cgroup.kill", "1")) return;
  kill_members(folder_);
}

}  // namespace falaj::exec::internal
