#include "serving/budget/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace falaj::serving::budget {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number that a text begins with; nothing for "max" and for no text.
std::optional<std::int64_t> number_at(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  return value;
}

// The number behind `key` at the beginning of a line, blanks between them.
std::optional<std::int64_t> number_of(const std::string& text, const std::string& key) {
  const std::string lines = "\n" + text;
  const std::size_t at = lines.find("\n" + key + " ");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t digits = lines.find_first_not_of(' ', at + key.size() + 2);
  return digits == std::string::npos ? std::nullopt
                                     : number_at(std::string_view(lines).substr(digits));
}

// Whether a line of /proc/self/cgroup ("4:cpu,cpuacct:/a/b") is of this hierarchy; "" is version
// 2's.
bool is_of(std::string_view line, std::string_view controller) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return false;
  std::string_view names = line.substr(first + 1, second - first - 1);
  if (controller.empty()) return names.empty();
  while (true) {
    const std::size_t comma = names.find(',');
    if (names.substr(0, comma) == controller) return true;
    if (comma == std::string_view::npos) return false;
    names.remove_prefix(comma + 1);
  }
}

std::string own_group(const Places& places, std::string_view controller) {
  std::ifstream file(places.root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (is_of(line, controller)) return line.substr(line.find(':', line.find(':') + 1) + 1);
  }
  return "";
}

// The folders of this process's groups in a hierarchy, from its own up to the mount. Inside a
// container the path may be the host's: then only the mount is there, and is its group.
std::vector<std::string> groups(const Places& places, const std::string& mount,
                                std::string_view controller) {
  std::vector<std::string> folders;
  std::string path = own_group(places, controller);
  while (path.size() > 1) {
    folders.push_back(places.root + mount + path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  folders.push_back(places.root + mount);
  return folders;
}

std::vector<std::string> v2_groups(const Places& places) {
  std::vector<std::string> folders = groups(places, "/sys/fs/cgroup", "");
  for (std::string& folder : groups(places, "/sys/fs/cgroup/unified", "")) {
    folders.push_back(std::move(folder));
  }
  return folders;
}

// A limit of memory, and how much of it is used beyond files that may be dropped.
struct MemoryGroup {
  std::int64_t limit = kNoLimit;
  std::int64_t used = 0;
};

std::vector<MemoryGroup> memory_groups(const Places& places) {
  std::vector<MemoryGroup> found;
  const auto look = [&](const std::string& folder, const char* limit, const char* usage,
                        const char* cached) {
    const std::optional<std::int64_t> bytes = number_at(text_of(folder + limit));
    if (!bytes.has_value() || *bytes < 0) return;
    const std::int64_t used = number_at(text_of(folder + usage)).value_or(0) -
                              number_of(text_of(folder + "/memory.stat"), cached).value_or(0);
    found.push_back({*bytes, std::max<std::int64_t>(used, 0)});
  };
  for (const std::string& folder : v2_groups(places)) {
    look(folder, "/memory.max", "/memory.current", "inactive_file");
  }
  for (const std::string& folder : groups(places, "/sys/fs/cgroup/memory", "memory")) {
    look(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
  }
  return found;
}

// Whole processors that a quota pays for; nothing when there is none.
std::optional<std::int64_t> paid(std::optional<std::int64_t> quota,
                                 std::optional<std::int64_t> period) {
  if (!quota.has_value() || !period.has_value() || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period + (*quota % *period == 0 ? 0 : 1);
}

std::int64_t paid_processors(const Places& places) {
  std::int64_t least = kNoLimit;
  for (const std::string& folder : v2_groups(places)) {
    const std::string text = text_of(folder + "/cpu.max");  // "150000 100000", or "max 100000"
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos) continue;
    const auto count = paid(number_at(text), number_at(std::string_view(text).substr(blank + 1)));
    least = std::min(least, count.value_or(kNoLimit));
  }
  for (const std::string& folder : groups(places, "/sys/fs/cgroup/cpu", "cpu")) {
    const auto count = paid(number_at(text_of(folder + "/cpu.cfs_quota_us")),
                            number_at(text_of(folder + "/cpu.cfs_period_us")));
    least = std::min(least, count.value_or(kNoLimit));
  }
  return least;
}

unsigned affine_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

std::optional<std::int64_t> machine_bytes(const Places& places, const std::string& key) {
  const auto kib = number_of(text_of(places.root + "/proc/meminfo"), key);
  if (!kib.has_value()) return std::nullopt;
  return *kib * 1024;
}

}  // namespace

Machine this_machine(const Places& places) {
  Machine machine;
  const unsigned affine = places.affine > 0 ? places.affine : affine_processors();
  machine.processors = static_cast<unsigned>(
      std::clamp<std::int64_t>(paid_processors(places), 1, std::max(affine, 1U)));
  std::int64_t memory = machine_bytes(places, "MemTotal:").value_or(kNoLimit);
  for (const MemoryGroup& group : memory_groups(places)) memory = std::min(memory, group.limit);
  machine.memory = memory == kNoLimit ? 0 : memory;
  return machine;
}

std::int64_t available_memory(const Places& places) {
  std::int64_t available = machine_bytes(places, "MemAvailable:").value_or(kNoLimit);
  for (const MemoryGroup& group : memory_groups(places)) {
    available = std::min(available, std::max<std::int64_t>(group.limit - group.used, 0));
  }
  return available;
}

}  // namespace falaj::serving::budget
