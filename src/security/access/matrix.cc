#include "security/access/matrix.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"

namespace falaj::security::access {
namespace {

using Names = std::map<std::string, std::string>;  // As a grant writes it → the principal's id.

// The grants and groups with ids for names, and which name became what.
struct Compiled {
  PolicyInput input;
  Names ids;
  std::set<std::string> unknown;  // Names that nobody has.
};

Result<Compiled> compile(const MatrixInput& input) {
  Compiled out;
  out.input.grants = input.built_in;
  for (const auto& object : input.grants) {
    out.input.grants.push_back(FALAJ_TRY(decode_grant(object)));
  }
  for (const auto& object : input.groups) {
    out.input.groups.push_back(FALAJ_TRY(decode_group(object)));
  }
  const auto resolve_all = [&](std::vector<std::string>& subjects) {
    for (std::string& subject : subjects) {
      auto known = out.ids.find(subject);
      if (known == out.ids.end()) {
        const bool is_name = subject != kEveryone && !subject.starts_with("group:");
        const auto id = is_name && input.resolve ? input.resolve(subject) : subject;
        if (!id) out.unknown.insert(subject);
        known = out.ids.emplace(subject, id.value_or(subject)).first;
      }
      subject = known->second;
    }
  };
  for (Grant& grant : out.input.grants) resolve_all(grant.to);
  for (Group& group : out.input.groups) resolve_all(group.members);
  return out;
}

struct Row {
  std::string id;
  std::vector<std::string> named;
  const char* state = "active";
  bool disabled() const { return std::string_view(state) == "disabled"; }
};

// Everyone, then groups, then who has an account or is named: those that matter most come first,
// should the table be cut.
std::vector<Row> rows_of(const MatrixInput& input, const Compiled& compiled) {
  std::map<std::pair<int, std::string>, Row> rows;
  const auto row = [&](const std::string& id) -> Row& {
    const int rank = id == kEveryone ? 0 : id.starts_with("group:") ? 1 : 2;
    Row& found = rows[{rank, id}];
    found.id = id;
    return found;
  };
  row(std::string(kEveryone));
  for (const Group& group : compiled.input.groups) row("group:" + group.name);
  for (const MatrixInput::Account& account : input.accounts) {
    const bool disabled = account.state == MatrixInput::Account::State::kDisabled;
    row(account.id).state = disabled ? "disabled" : "active";
  }
  for (const auto& [name, id] : compiled.ids) {
    Row& named = row(id);
    if (name != id) named.named.push_back(name);
    if (compiled.unknown.contains(name)) named.state = "unknown";
  }
  std::vector<Row> list;
  list.reserve(rows.size());
  for (auto& [rank, made] : rows) list.push_back(std::move(made));
  return list;
}

Value place_value(const Extent& place) {
  if (place == Extent{}) return Value("platform");
  Value value;
  if (!place.project.empty()) value["project"] = place.project;
  if (!place.kind.empty()) value["kind"] = place.kind;
  if (!place.name.empty()) value["name"] = place.name;
  for (const auto& [key, label] : place.labels) value["labels"][key] = label;
  return value;
}

// The platform, each project, declared or named by a grant, and what a grant names inside them.
std::vector<Extent> places_of(const MatrixInput& input, const std::vector<Grant>& grants) {
  std::vector<std::string> projects{""};
  projects.insert(projects.end(), input.projects.begin(), input.projects.end());
  for (const Grant& grant : grants) projects.push_back(grant.on.project);
  std::ranges::sort(projects);
  projects.erase(std::ranges::unique(projects).begin(), projects.end());
  std::vector<Extent> places;
  for (const std::string& project : projects) places.push_back({project, "", "", {}});
  std::set<std::string> seen;
  const auto add = [&](Extent place, const std::string& project) {
    place.project = project;
    if (seen.insert(to_json(place_value(place))).second) places.push_back(std::move(place));
  };
  for (const Grant& grant : grants) {
    if (grant.on.kind.empty() && grant.on.labels.empty()) continue;
    if (!grant.on.project.empty()) {
      add(grant.on, grant.on.project);
      continue;
    }
    for (const std::string& project : projects) add(grant.on, project);
  }
  return places;
}

// "allow permitted risk-editors", "deny no_permit"
std::string cell_of(const Decision& decision) {
  std::string text = decision.allowed ? "allow " : "deny ";
  text += because_name(decision.because);
  if (decision.rule != nullptr) text += " " + decision.rule->name;
  return text;
}

Value::Object outcome_of(const Policies& policies, const Row& row, const Extent& place,
                         Timestamp now) {
  Principal who;
  who.kind = PrincipalKind::kUser;
  who.id = row.id;
  if (row.disabled()) who.expires = now;  // None of their credentials holds.
  Value::Object outcome;
  for (const std::string_view action : actions_of(Role::kAdmin).names()) {
    const ObjectRef object{place.project, place.kind, place.name, &place.labels};
    outcome.emplace(action, cell_of(policies.decide({who, action, object, now, ""})));
  }
  return outcome;
}

// Numbers rows that are equal alike: a thousand viewers are one outcome.
class Outcomes {
 public:
  std::int64_t number(Value::Object outcome) {
    std::string key;
    for (const auto& [action, cell] : outcome) key += cell.as_string() + "\n";
    const auto [found, added] = numbers_.emplace(std::move(key), numbers_.size());
    if (added) by_number_[std::to_string(found->second)] = Value(std::move(outcome));
    return static_cast<std::int64_t>(found->second);
  }
  std::size_t size() const { return numbers_.size(); }
  Value take() { return std::move(by_number_); }

 private:
  std::map<std::string, std::size_t> numbers_;
  Value by_number_ = Value::object();
};

Value principal_value(const Row& row) {
  Value value;
  value["id"] = row.id;
  value["state"] = row.state;
  if (!row.named.empty()) value["named"] = Value::array();
  for (const std::string& name : row.named) value["named"].push(name);
  value["outcomes"] = Value::array();
  return value;
}

Value decisions_of(const MatrixInput& input, const Compiled& compiled, Timestamp now,
                   const MatrixLimits& limits) {
  const Policies policies(compiled.input);
  std::vector<Extent> places = places_of(input, policies.grants());
  const std::size_t all_places = places.size();
  places.resize(std::min(places.size(), limits.places));
  const std::vector<Row> rows = rows_of(input, compiled);
  Value value;
  value["at"] = to_rfc3339(now);
  value["places"] = Value::array();
  for (const Extent& place : places) value["places"].push(place_value(place));
  value["principals"] = Value::array();
  Outcomes outcomes;
  std::size_t done = 0;
  for (; done < rows.size(); ++done) {
    // What the next one may need at most must still fit.
    if ((done + 1) * places.size() > limits.rows ||
        outcomes.size() + places.size() > limits.outcomes) {
      break;
    }
    Value principal = principal_value(rows[done]);
    for (const Extent& place : places) {
      principal["outcomes"].push(outcomes.number(outcome_of(policies, rows[done], place, now)));
    }
    value["principals"].push(std::move(principal));
  }
  value["outcomes"] = outcomes.take();
  value["left_out"]["places"] = static_cast<std::int64_t>(all_places - places.size());
  value["left_out"]["principals"] = static_cast<std::int64_t>(rows.size() - done);
  return value;
}

// As declared, with its end in UTC: whoever reads it needs no other calendar.
Value grant_value(const storage::Object& object) {
  Value value = storage::to_value(object);
  const auto expires = parse_timestamp(object.spec.text("expires"));
  if (expires.ok()) value["spec"]["expires"] = to_rfc3339(*expires);
  if (!expires.ok()) value["spec"].as_object().erase("expires");  // "": it has none.
  return value;
}

Value built_in_value(const Grant& grant) {
  Value value;
  value["metadata"]["name"] = grant.name;
  for (const std::string& subject : grant.to) value["spec"]["to"].push(subject);
  for (const std::string_view action : grant.actions.names()) value["spec"]["actions"].push(action);
  value["spec"]["on"] = place_value(grant.on);
  value["spec"]["effect"] = grant.effect == Effect::kPermit ? "permit" : "forbid";
  return value;
}

}  // namespace

Result<Value> access_matrix(const MatrixInput& input, Timestamp now, const MatrixLimits& limits) {
  const Compiled compiled = FALAJ_TRY(compile(input));
  Value value;
  for (const RoleInfo& role : roles()) {
    Value allowed = Value::array();
    for (const std::string_view action : actions_of(role.role).names()) allowed.push(action);
    value["roles"][role.name] = std::move(allowed);
  }
  value["grants"] = Value::array();
  for (const storage::Object& grant : input.grants) value["grants"].push(grant_value(grant));
  value["groups"] = Value::array();
  for (const storage::Object& group : input.groups) value["groups"].push(storage::to_value(group));
  value["built_in"] = Value::array();
  for (const Grant& grant : input.built_in) value["built_in"].push(built_in_value(grant));
  value["decisions"] = decisions_of(input, compiled, now, limits);
  return value;
}

}  // namespace falaj::security::access
