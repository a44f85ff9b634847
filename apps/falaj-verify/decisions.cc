#include <algorithm>
#include <set>

#include "parts.h"

namespace falaj_verify {
namespace {

using Grants = std::map<std::string, const Json*>;  // By name: the first decides.
// "user:u_1", "group:risk", "everyone" → the groups that hold it and the grants that name it.
using Index = std::multimap<std::string, const Json*>;

// Absent when an end cannot be read.
std::optional<Index> index_of(const Json& matrix, std::int64_t now) {
  Index index;
  for (const char* const from : {"groups", "grants", "built_in"}) {
    for (const Json& object : matrix[from].items) {
      const Json& spec = object["spec"];
      const auto end = parse_time(spec["expires"].text);
      if (!end && spec["expires"].kind != Json::Kind::kNull) return {};
      if (end && *end <= now) continue;
      for (const Json& who : spec["members"].items) index.emplace(who.text, &object);
      for (const Json& who : spec["to"].items) index.emplace(who.text, &object);
    }
  }
  return index;
}

Grants grants_of(const Index& index, std::vector<std::string> names) {
  Grants grants;
  std::set<std::string> seen;
  while (!names.empty()) {
    const std::string name = names.back();
    names.pop_back();
    auto [at, end] = index.equal_range(name);
    for (end = seen.insert(name).second ? end : at; at != end; ++at) {
      const std::string found((*at->second)["metadata"].text_at("name"));
      const Json& spec = (*at->second)["spec"];
      if (spec["to"].items.empty()) names.push_back("group:" + found);
      if (!spec["to"].items.empty()) grants.emplace(found, &spec);
    }
  }
  return grants;
}

bool matches(std::string_view text, std::string_view action) {  // "jobs.read", "jobs.*" or "*"
  return text.ends_with('*') ? action.starts_with(text.substr(0, text.size() - 1)) : text == action;
}

bool lists(const Json& patterns, std::string_view action) {
  return std::ranges::any_of(patterns.items,
                             [&](const Json& each) { return matches(each.text, action); });
}

// Whether each of the patterns stands for an action; otherwise no cell tells of it.
bool decided(const Json& patterns, const std::vector<Json>& actions) {
  return std::ranges::all_of(patterns.items, [&](const Json& each) {
    return std::ranges::any_of(actions, [&](const Json& a) { return matches(each.text, a.text); });
  });
}

bool covers(const Json& on, const Json& place) {
  const auto agrees = [](std::string_view a, std::string_view b) { return a.empty() || a == b; };
  return agrees(on.text_at("project"), place.text_at("project")) &&
         agrees(on.text_at("kind"), place.text_at("kind")) &&
         agrees(on.text_at("name"), place.text_at("name")) &&
         std::ranges::all_of(on["labels"].members, [&](const auto& label) {
           return place["labels"].text_at(label.first) == label.second.text;
         });
}

// A forbid, then a permit, then a permit for emergencies; otherwise no.
std::string cell_of(const Grants& grants, const Json& roles, const Json& place,
                    const std::string& action) {
  std::string cell = "deny no_permit";
  for (const auto& [name, spec] : grants) {
    const std::string_view role = spec->text_at("role");
    const Json& actions = role.empty() ? (*spec)["actions"] : roles[role];
    if (!lists(actions, action) || !covers((*spec)["on"], place)) continue;
    if (spec->text_at("effect") == "forbid") return "deny forbidden " + name;
    if (role == "break-glass" && cell == "deny no_permit") cell = "deny reason_missing " + name;
    if (role != "break-glass" && cell[0] == 'd') cell = "allow permitted " + name;
  }
  return cell;
}

}  // namespace

std::string check_decisions(const Json& matrix) {
  const Json& table = matrix["decisions"];
  const auto& places = table["places"].items;
  const auto now = parse_time(table.text_at("at"));
  const auto& actions = matrix["roles"]["admin"].items;  // All that can be granted.
  const auto index = now ? index_of(matrix, *now) : std::nullopt;
  if (!index || places.empty() || actions.empty()) return "it is malformed";
  if (places[0].text != "platform") return "the platform has no place";
  for (const auto& [name, role] : matrix["roles"].members) {
    if (!decided(role, actions)) return name + ": an action is decided nowhere";
  }
  std::set<std::string> shown;
  for (const Json& principal : table["principals"].items) {
    std::vector<std::string> names{std::string(principal.text_at("id")), "everyone"};
    for (const Json& name : principal["named"].items) names.push_back(name.text);
    shown.insert(names.begin(), names.end());
    const Grants grants = grants_of(*index, names);
    const bool ended = principal.text_at("state") == "disabled";
    if (principal["outcomes"].items.size() != places.size()) return names[0] + " lacks a place";
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Json& outcome = table["outcomes"][principal["outcomes"].items[i].text];
      if (outcome.members.size() != actions.size()) return names[0] + ": other actions";
      for (const Json& action : actions) {
        const std::string cell = cell_of(grants, matrix["roles"], places[i], action.text);
        if (outcome.text_at(action.text) == (ended ? "deny expired" : cell)) continue;
        return names[0] + ", " + action.text + " in place " + std::to_string(i) + ": " + cell;
      }
    }
  }
  const auto cut = [&](auto of) { return table["left_out"].count_at(of).value_or(0) > 0; };
  for (const auto& [name, object] : *index) {
    const Json& spec = (*object)["spec"];
    const Json& on = spec["on"];
    const auto same = [&](const Json& at) { return covers(at, on) && covers(on, at); };
    if (!cut("principals") && !shown.contains(name)) return name + " has no row";
    if (!cut("places") && std::ranges::none_of(places, same)) return name + " lacks a place";
    if (!decided(spec["actions"], actions)) return name + ": an action is decided nowhere";
  }
  return "";
}

}  // namespace falaj_verify
