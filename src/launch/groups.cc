#include "launch/groups.h"

#include <algorithm>
#include <set>

#include "base/decode.h"

namespace falaj::launch {
namespace {

constexpr std::int64_t kCountMost = 65'536;
constexpr std::int64_t kDevicesMost = 1024;
constexpr std::int64_t kThreadsMost = 4096;

Error wrong(const std::string& what) { return Error(ErrorId::kOutOfRange, "groups: " + what); }

std::string role_by_name(const std::string& name) {
  if (name == "chief" || name == "master") return "chief";
  if (name == "ps" || name == "server") return "ps";
  if (name == "scheduler" || name == "evaluator") return name;
  return "worker";
}

int place_in_order(const Group& group) { return group.chief ? -1 : static_cast<int>(group.role); }

int sum(const std::vector<Group>& groups, int Group::*member, bool workers) {
  int out = 0;
  for (const Group& group : groups) {
    if ((group.role == Role::kWorker) == workers) out += group.*member;
  }
  return out;
}

Status check_one(const Group& group) {
  const std::string name = "'" + group.name + "'";
  if (group.min < 1 || group.max < group.min) {
    return wrong(name + " has 1 <= min <= max");
  }
  const bool alone = group.chief || group.role == Role::kScheduler;
  if (alone && group.max > 1) return wrong(name + " is one process: its count is 1");
  if (group.role != Role::kWorker && group.min != group.max) {
    return wrong(name + ": the number of workers alone may change; give it a count");
  }
  return {};
}

}  // namespace

std::string_view role_text(const Group& group) {
  switch (group.role) {
    case Role::kWorker:
      return group.chief ? "chief" : "worker";
    case Role::kServer:
      return "ps";
    case Role::kScheduler:
      return "scheduler";
    case Role::kEvaluator:
      return "evaluator";
  }
  return "worker";
}

Status set_role(Group& group, const std::string& role) {
  const std::string text = role.empty() ? role_by_name(group.name) : role;
  group.chief = text == "chief";
  if (text == "chief" || text == "worker") {
    group.role = Role::kWorker;
  } else if (text == "ps") {
    group.role = Role::kServer;
  } else if (text == "scheduler") {
    group.role = Role::kScheduler;
  } else if (text == "evaluator") {
    group.role = Role::kEvaluator;
  } else {
    return wrong("'" + group.name + "': role is chief, worker, ps, scheduler or evaluator, not '" +
                 text + "'");
  }
  return {};
}

Result<Group> decode_group(const Value& value) {
  Fields fields(value, "group");
  Group group;
  group.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_name("group", group.name));
  const std::string role = FALAJ_TRY(fields.text("role"));
  FALAJ_TRY(set_role(group, role));
  const std::int64_t count = FALAJ_TRY(fields.integer("count", 1, 1, kCountMost));
  const std::int64_t least = FALAJ_TRY(fields.integer("min", count, 1, kCountMost));
  const std::int64_t most =
      FALAJ_TRY(fields.integer("max", std::max(count, least), least, kCountMost));
  const bool ranged = !fields.any("min").is_null() || !fields.any("max").is_null();
  if (ranged && !fields.any("count").is_null()) {
    return wrong("'" + group.name + "': give 'count', or 'min' and 'max'");
  }
  group.min = group.count = static_cast<int>(least);
  group.max = static_cast<int>(most);
  group.devices_each = static_cast<int>(FALAJ_TRY(fields.integer("gpus", 0, 0, kDevicesMost)));
  group.threads = static_cast<int>(FALAJ_TRY(fields.integer("threads", 0, 0, kThreadsMost)));
  group.argv = FALAJ_TRY(fields.texts("command"));
  FALAJ_TRY(fields.finish());
  return group;
}

Value to_value(const Group& group) {
  Value value;
  value["name"] = group.name;
  value["role"] = role_text(group);
  value["min"] = group.min;
  value["max"] = group.max;
  value["gpus"] = group.devices_each;
  value["threads"] = group.threads;
  value["command"] = Value::array();
  for (const std::string& word : group.argv) value["command"].push(word);
  return value;
}

Status check_groups(const std::vector<Group>& groups) {
  if (groups.size() > kGroupsMax) return wrong("there are at most 8");
  std::set<std::string> names;
  std::set<int> roles;
  std::int64_t processes = 0;
  int ranged = 0;
  int ranked = 0;
  for (const Group& group : groups) {
    FALAJ_TRY(check_one(group));
    if (!names.insert(group.name).second) return wrong("'" + group.name + "' is there twice");
    const int place = place_in_order(group);
    if (place != static_cast<int>(Role::kWorker) && !roles.insert(place).second) {
      return wrong("'" + group.name + "': there is another group of role " +
                   std::string(role_text(group)));
    }
    processes += group.max;
    ranged += group.max > group.min ? 1 : 0;
    ranked += group.role == Role::kWorker ? 1 : 0;
  }
  if (!groups.empty() && ranked == 0) return wrong("one of them is a chief or workers");
  if (ranged > 1) return wrong("one of them at most has a 'max' over its 'min'");
  if (processes > kCountMost) return wrong("they have at most 65536 processes");
  return {};
}

bool goes_before(const Group& a, const Group& b) { return place_in_order(a) < place_in_order(b); }

std::vector<Group> in_order(std::vector<Group> groups) {
  std::stable_sort(groups.begin(), groups.end(), goes_before);
  return groups;
}

int workers_min(const std::vector<Group>& groups) { return sum(groups, &Group::min, true); }
int workers_max(const std::vector<Group>& groups) { return sum(groups, &Group::max, true); }
int helpers_of(const std::vector<Group>& groups) { return sum(groups, &Group::min, false); }

std::vector<Group> counted(std::vector<Group> groups, int workers) {
  int more = workers - workers_min(groups);
  for (Group& group : groups) {
    const int own = group.role == Role::kWorker ? std::clamp(more, 0, group.max - group.min) : 0;
    group.count = group.min + own;
    more -= own;
  }
  return groups;
}

InGroup find_process(const std::vector<Group>& groups, int process) {
  for (std::size_t i = 0; i < groups.size() && process >= 0; ++i) {
    if (process < groups[i].count) return {i, process};
    process -= groups[i].count;
  }
  return {};
}

std::string process_name(const std::vector<Group>& groups, int process) {
  const InGroup found = find_process(groups, process);
  if (found.group == InGroup::kAbsent) return "";
  return groups[found.group].name + " " + std::to_string(found.index);
}

}  // namespace falaj::launch
