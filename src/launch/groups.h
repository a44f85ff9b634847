// launch/groups.h — a gang of several roles: what each group of its processes is. Pure.
//
//   {name: chief, count: 1, gpus: 1}
//   {name: worker, min: 1, max: 4, command: [python3, train.py]}
//   {name: ps, count: 2, threads: 2}
//
// Groups stand in one order everywhere: the chief, workers, parameter servers, the scheduler, the
// evaluator. Processes are numbered in it, so that ranks are the numbers of chief and workers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace falaj::launch {

// Workers compute and have ranks. The others are helpers: they serve until every worker is done.
// Without groups a scheduler and servers exist only when parameter servers were asked for.
enum class Role : std::uint8_t { kWorker, kServer, kScheduler, kEvaluator };

inline constexpr std::size_t kGroupsMax = 8;

// Processes that are alike.
struct Group {
  std::string name;
  Role role = Role::kWorker;
  bool chief = false;  // A worker, alone in its group: rank 0.
  int min = 1;
  int max = 1;
  int count = 1;                    // In one gang.
  int devices_each = 0;             // GPUs of each.
  int threads = 0;                  // OMP_NUM_THREADS; 0: as without groups.
  std::vector<std::string> argv{};  // Empty: the gang's command.
};

// {name, role, count or min and max, gpus, threads, command[]}, strict: FJ-1xxx with what is wrong.
// `role` is chief, worker, ps, scheduler or evaluator; left out, it follows from the name (chief or
// master; ps or server; scheduler; evaluator), and any other name is a worker's.
Result<Group> decode_group(const Value& value);
Value to_value(const Group& group);
// "chief", "worker", "ps", …
std::string_view role_text(const Group& group);
// The role that a text says, into the group; FJ-1006 for another text.
Status set_role(Group& group, const std::string& role);

// Whether they may be one gang: at most kGroupsMax with names of their own, somebody with a rank,
// one group at most of each role but worker, one chief and one scheduler, and one group of workers
// at most whose number is not fixed. FJ-1006 otherwise.
Status check_groups(const std::vector<Group>& groups);
// By the order above.
bool goes_before(const Group& a, const Group& b);
// In the order above; those of one role stay as they were.
std::vector<Group> in_order(std::vector<Group> groups);

int workers_min(const std::vector<Group>& groups);
int workers_max(const std::vector<Group>& groups);
int helpers_of(const std::vector<Group>& groups);
// With the counts of a gang of so many workers, at least workers_min().
std::vector<Group> counted(std::vector<Group> groups, int workers);

// Which process of counted groups has this number; kAbsent when none has.
struct InGroup {
  static constexpr std::size_t kAbsent = SIZE_MAX;
  std::size_t group = kAbsent;  // Position.
  int index = 0;                // Among its own.
};
InGroup find_process(const std::vector<Group>& groups, int process);
// "worker 2"; "" when there is none.
std::string process_name(const std::vector<Group>& groups, int process);

}  // namespace falaj::launch
