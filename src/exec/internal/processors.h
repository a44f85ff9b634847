// exec/internal/processors.h — which processors a process is bound to: as few memory nodes and as
// little company as there can be.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace falaj::exec::internal {

// What a process was given. Lists as the kernel writes them: "0-3,8".
struct Binding {
  std::vector<int> processors;
  std::string processor_list;
  std::string node_list;  // The memory nodes that they are near to.
};

// The processors of a machine and how many bound processes each has. Not thread-safe.
class Processors {
 public:
  // Each memory node's processors.
  explicit Processors(std::map<int, std::vector<int>> nodes);
  // Those of this machine that this process may use.
  static Processors of_this_machine();

  // `count` of them, at least one and at most all: from one node, if one has so many, the least
  // used ones. `wanted` is that node, if it has so many; -1: any. Give them back.
  Binding take(std::size_t count, int wanted = -1);
  void give_back(const Binding& binding);

 private:
  std::map<int, std::vector<int>> nodes_;
  std::map<int, int> used_;
};

// "0-2,5" as {0, 1, 2, 5}; what is no list is left out, and what is past 4,095.
std::vector<int> parse_cpu_list(const std::string& text);
// Its inverse, of sorted numbers.
std::string cpu_list(const std::vector<int>& numbers);

}  // namespace falaj::exec::internal
