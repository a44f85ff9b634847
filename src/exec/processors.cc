#include "exec/internal/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

namespace falaj::exec::internal {
namespace {

constexpr int kMost = 4095;

// By use, then by number.
std::vector<int> least_used(std::vector<int> processors, const std::map<int, int>& used,
                            std::size_t count) {
  std::stable_sort(processors.begin(), processors.end(),
                   [&](int a, int b) { return used.at(a) < used.at(b); });
  processors.resize(std::min(count, processors.size()));
  return processors;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') {
      const auto [after, bad] = std::from_chars(next + 1, end, last);
      if (bad != std::errc()) break;
      next = after;
    }
    for (int each = first; each >= 0 && each <= std::min(last, kMost); ++each) out.push_back(each);
    at = next;
    if (at < end && *at != ',') break;
    ++at;
  }
  return out;
}

std::string cpu_list(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) out += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out;
}

Processors::Processors(std::map<int, std::vector<int>> nodes) : nodes_(std::move(nodes)) {
  for (const auto& [node, processors] : nodes_) {
    for (const int each : processors) used_[each] = 0;
  }
}

Processors Processors::of_this_machine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  const auto usable = [&](std::vector<int> processors) {
    std::erase_if(processors, [&](int each) { return !CPU_ISSET(each, &allowed); });
    return processors;
  };
  std::map<int, std::vector<int>> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    int node = 0;
    const auto [end, bad] = std::from_chars(name.data() + 4, name.data() + name.size(), node);
    std::string text;
    if (bad != std::errc() || end != name.data() + name.size() ||
        !std::getline(std::ifstream(entry.path() / "cpulist"), text)) {
      continue;
    }
    std::vector<int> processors = usable(parse_cpu_list(text));
    if (!processors.empty()) nodes[node] = std::move(processors);
  }
  if (nodes.empty()) {
    std::vector<int> all(CPU_SETSIZE);
    std::iota(all.begin(), all.end(), 0);
    nodes[0] = usable(std::move(all));
  }
  return Processors(std::move(nodes));
}

Binding Processors::take(std::size_t count, int wanted) {
  count = std::clamp<std::size_t>(count, 1, std::max<std::size_t>(1, used_.size()));
  std::vector<int> best;
  std::pair<int, std::size_t> best_cost{0, 0};
  const auto named = nodes_.find(wanted);
  const bool only = named != nodes_.end() && named->second.size() >= count;
  for (const auto& [node, processors] : nodes_) {
    if (processors.size() < count || (only && node != wanted)) continue;
    std::vector<int> taken = least_used(processors, used_, count);
    int company = 0;
    for (const int each : taken) company += used_[each];
    // Among equals the node with the fewest idle ones: larger jobs find the others whole.
    const auto idle = static_cast<std::size_t>(std::count_if(
        processors.begin(), processors.end(), [this](int p) { return used_[p] == 0; }));
    const std::pair<int, std::size_t> cost{company, idle};
    if (best.empty() || cost < best_cost) {
      best = std::move(taken);
      best_cost = cost;
    }
  }
  if (best.empty()) {
    std::vector<int> all;
    for (const auto& [each, uses] : used_) all.push_back(each);
    best = least_used(std::move(all), used_, count);
  }
  std::sort(best.begin(), best.end());
  Binding out;
  std::vector<int> near;
  for (const auto& [node, processors] : nodes_) {
    const bool touched = std::any_of(best.begin(), best.end(), [&](int each) {
      return std::find(processors.begin(), processors.end(), each) != processors.end();
    });
    if (touched) near.push_back(node);
  }
  for (const int each : best) ++used_[each];
  out.processor_list = cpu_list(best);
  out.node_list = cpu_list(near);
  out.processors = std::move(best);
  return out;
}

void Processors::give_back(const Binding& binding) {
  for (const int each : binding.processors) --used_[each];
}

}  // namespace falaj::exec::internal
