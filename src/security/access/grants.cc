#include "security/access/grants.h"

#include <algorithm>

#include "base/decode.h"

namespace falaj::security::access {
namespace {

constexpr std::size_t kSubjectBytesMax = 256;
constexpr std::size_t kListMax = 10'000;

std::string where_of(const storage::Object& object) {
  return object.kind + "/" + object.name + " spec";
}

// "user:alice": a kind of principal and a name that a log line can hold.
Status check_subject(const std::string& subject, const std::string& where) {
  if (subject == kEveryone) return {};
  const std::size_t colon = subject.find(':');
  const std::string_view kind = std::string_view(subject).substr(0, colon);
  const bool kind_known = kind == "user" || kind == "group" || kind == "service";
  const bool name_fine =
      colon != std::string::npos && colon + 1 < subject.size() &&
      subject.size() <= kSubjectBytesMax &&
      std::ranges::none_of(subject, [](char c) { return static_cast<unsigned char>(c) <= ' '; });
  if (kind_known && name_fine) return {};
  return Error{ErrorId::kOutOfRange, where + ": '" + subject.substr(0, kSubjectBytesMax) +
                                         "' names nobody; write user:NAME, group:NAME, "
                                         "service:NAME or everyone"};
}

Result<std::vector<std::string>> subjects_of(Fields& fields, std::string_view key) {
  std::vector<std::string> subjects = FALAJ_TRY(fields.texts(key));
  const std::string where = fields.where() + "." + std::string(key);
  if (subjects.size() > kListMax) {
    return Error{ErrorId::kOutOfRange, where + ": more than " + std::to_string(kListMax) +
                                           " subjects; put them into a Group each"};
  }
  for (const std::string& subject : subjects) FALAJ_TRY(check_subject(subject, where));
  std::ranges::sort(subjects);
  const auto rest = std::ranges::unique(subjects);
  subjects.erase(rest.begin(), rest.end());
  return subjects;
}

Result<Extent> extent_of(const Value& on, const std::string& where) {
  Extent extent;
  if (on.is_null()) {
    return Error{ErrorId::kMissingField,
                 where +
                     ": is missing; write {project: NAME}, narrowed by kind, name or labels, "
                     "or platform for everything"};
  }
  if (on.is_string()) {
    if (on.as_string() == "platform") return extent;
    return Error{ErrorId::kWrongType,
                 where + ": '" + on.as_string() + "' is neither 'platform' nor {project: NAME}"};
  }
  Fields fields(on, where);
  extent.project = FALAJ_TRY(fields.text("project"));
  extent.kind = FALAJ_TRY(fields.text("kind"));
  extent.name = FALAJ_TRY(fields.text("name"));
  extent.labels = FALAJ_TRY(labels_of(fields.any("labels"), where + ".labels"));
  FALAJ_TRY(fields.finish());
  if (extent == Extent{}) {
    return Error{
        ErrorId::kMissingField,
        where + ": covers nothing in particular; write 'platform' when everything is meant"};
  }
  if (!extent.name.empty() && extent.kind.empty()) {
    return Error{ErrorId::kMissingField, where + ".kind: a name needs the kind it is a name of"};
  }
  return extent;
}

Status read_actions(Fields& fields, Grant& grant) {
  const std::string role = FALAJ_TRY(fields.text("role"));
  const std::vector<std::string> patterns = FALAJ_TRY(fields.texts("actions"));
  if (role.empty() == patterns.empty()) {
    return Error{ErrorId::kMissingField,
                 fields.where() + ": needs either role or actions, and not both"};
  }
  if (!role.empty()) {
    const Result<Role> parsed = parse_role(role);
    if (!parsed.ok()) return parsed.error().within(fields.where() + ".role");
    grant.role = *parsed;
    grant.actions = actions_of(*parsed);
    return {};
  }
  for (const std::string& pattern : patterns) {
    const Result<ActionSet> set = ActionSet::matching(pattern);
    if (!set.ok()) return set.error().within(fields.where() + ".actions");
    grant.actions |= *set;
  }
  return {};
}

}  // namespace

Result<Labels> labels_of(const Value& labels, const std::string& where) {
  Labels list;
  if (labels.is_null()) return list;
  if (!labels.is_object()) return Error{ErrorId::kWrongType, where + ": expected an object"};
  for (const auto& [key, value] : labels.as_object()) {
    if (!value.is_string()) {
      return Error{ErrorId::kWrongType, where + "." + key + ": expected a text"};
    }
    list.emplace_back(key, value.as_string());
  }
  return list;  // Objects keep their keys sorted.
}

std::string to_string(const Extent& extent) {
  std::string text;
  const auto add = [&](std::string_view what, std::string_view value) {
    if (value.empty()) return;
    text += text.empty() ? "" : ", ";
    text.append(what).append(" ").append(value);
  };
  add("project", extent.project);
  add("kind", extent.kind);
  add("name", extent.name);
  for (const auto& [key, value] : extent.labels) add("label", key + "=" + value);
  return text.empty() ? "platform" : text;
}

Result<Grant> decode_grant(const storage::Object& object) {
  Grant grant;
  grant.name = object.name;
  Fields fields(object.spec, where_of(object));
  grant.effect = FALAJ_TRY(fields.choice("effect", {"permit", "forbid"})) == "permit"
                     ? Effect::kPermit
                     : Effect::kForbid;
  grant.to = FALAJ_TRY(subjects_of(fields, "to"));
  FALAJ_TRY(read_actions(fields, grant));
  grant.on = FALAJ_TRY(extent_of(fields.any("on"), fields.where() + ".on"));
  const std::string expires = FALAJ_TRY(fields.text("expires"));
  FALAJ_TRY(fields.text("description"));
  FALAJ_TRY(fields.finish());
  if (grant.to.empty()) {
    return Error{ErrorId::kMissingField, fields.where() + ".to: names nobody"};
  }
  if (!expires.empty()) {
    const Result<Timestamp> time = parse_timestamp(expires);
    if (!time.ok()) return time.error().within(fields.where() + ".expires");
    grant.expires = *time;
  }
  if (grant.effect == Effect::kForbid && grant.breaks_glass()) {
    return Error{ErrorId::kOutOfRange,
                 fields.where() + ": a forbid names the actions it takes away, not break-glass"};
  }
  return grant;
}

Result<Group> decode_group(const storage::Object& object) {
  Fields fields(object.spec, where_of(object));
  Group group;
  group.name = object.name;
  group.members = FALAJ_TRY(subjects_of(fields, "members"));
  group.zone = Zone(FALAJ_TRY(fields.text("zone")));
  FALAJ_TRY(fields.text("description"));
  FALAJ_TRY(fields.finish());
  if (std::ranges::find(group.members, kEveryone) != group.members.end()) {
    return Error{ErrorId::kOutOfRange,
                 fields.where() + ".members: 'everyone' is no member; grant to everyone instead"};
  }
  return group;
}

Result<bool> names_subject(storage::SqlTransaction& tx, const std::string& subject) {
  const auto holds = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, subject) != list.end();
  };
  for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "Grant"))) {
    const Result<Grant> grant = decode_grant(object);
    if (!grant.ok() || holds(grant->to)) return true;
  }
  for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "Group"))) {
    const Result<Group> group = decode_group(object);
    if (!group.ok() || holds(group->members)) return true;
  }
  return false;
}

std::vector<storage::KindInfo> kinds() {
  using storage::Object;
  using storage::Reference;
  const auto check_grant = [](const Object& object) -> Result<std::vector<Reference>> {
    const Grant grant = FALAJ_TRY(decode_grant(object));
    std::vector<Reference> references;
    if (!grant.on.project.empty()) references.push_back({"Project", "", grant.on.project});
    return references;
  };
  const auto check_group = [](const Object& object) -> Result<std::vector<Reference>> {
    const Group group = FALAJ_TRY(decode_group(object));
    std::vector<Reference> references;
    if (group.zone.labelled()) references.push_back({"Zone", "", group.zone.name()});
    return references;
  };
  return {
      {"Grant", storage::Scope::kPlatform,
       "Who may, or may not, do what to which objects: a role or actions, on a project or less.",
       check_grant},
      {"Group", storage::Scope::kPlatform, "People and services that are granted things together.",
       check_group},
  };
}

storage::Object administrator_grant(std::string_view name, std::string_view subject) {
  storage::Object object;
  object.kind = "Grant";
  object.name = name;
  object.spec["to"].push(subject);
  object.spec["role"] = "admin";
  object.spec["on"] = "platform";
  return object;
}

}  // namespace falaj::security::access
