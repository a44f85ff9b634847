#include "jobs/reach.h"

#include <algorithm>
#include <array>
#include <span>

#include "jobs/queue.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kNamedMax = 32;
constexpr std::size_t kNameMax = 128;

struct Use {
  std::string_view kind;
  std::array<std::string_view, 2> actions;  // "": none.
};

constexpr std::array<Use, 6> kInputs{{{"TrainingSet", {"features.read", ""}},
                                      {"FeatureView", {"features.read", "data.read"}},
                                      {"FeatureService", {"data.read", ""}},
                                      {"Model", {"models.read", ""}},
                                      {"Run", {"models.read", ""}},
                                      {"Deployment", {"models.read", "serving.predict"}}}};
constexpr std::array<Use, 2> kOutputs{
    {{"Model", {"models.read", "models.write"}}, {"FeatureView", {"data.ingest", ""}}}};

std::span<const Use> uses(Named as) {
  if (as == Named::kInput) return kInputs;
  return kOutputs;
}

const Use* find_use(Named as, std::string_view text) {
  const std::span<const Use> all = uses(as);
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return nullptr;
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Use& use) { return use.kind == text.substr(0, slash); });
  return at == all.end() ? nullptr : &*at;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

bool is_named(Named as, std::string_view text) {
  const Use* use = find_use(as, text);
  return use != nullptr && is_name(text.substr(use->kind.size() + 1));
}

std::string kinds_of(Named as) {
  std::string out;
  for (const Use& use : uses(as)) out.append(out.empty() ? "" : ", ").append(use.kind);
  return out;
}

void add_scopes(Named as, const std::string& text, const std::string& project,
                std::vector<security::Scope>& out) {
  if (!is_named(as, text)) return;
  for (const std::string_view action : find_use(as, text)->actions) {
    security::Scope scope{std::string(action), project, text};
    if (action.empty() || std::find(out.begin(), out.end(), scope) != out.end()) continue;
    out.push_back(std::move(scope));
  }
}

}  // namespace

Result<std::vector<std::string>> decode_named(Fields& fields, std::string_view field, Named as) {
  std::vector<std::string> out = FALAJ_TRY(fields.texts(field));
  if (out.size() > kNamedMax) {
    return Error(ErrorId::kOutOfRange,
                 fields.where() + ": '" + std::string(field) + "' names at most 32 things");
  }
  for (const std::string& each : out) {
    if (is_named(as, each)) continue;
    return Error(ErrorId::kOutOfRange,
                 fields.where() + ": '" + std::string(field) + "': '" + each.substr(0, kNameMax) +
                     "' is not KIND/NAME, where the kind is one of " + kinds_of(as));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Value submitter_value(const security::Principal& principal) {
  Value value;
  value["id"] = principal.id;
  value["kind"] = static_cast<std::int64_t>(principal.kind);
  value["groups"] = Value::array();
  for (const std::string& group : principal.groups) value["groups"].push(group);
  return value;
}

security::PrincipalPtr submitter_of(const JobSpec& spec) {
  if (!spec.payload.is_object() || !spec.payload.has("submitter")) return nullptr;
  const Value& stored = spec.payload["submitter"];
  security::Principal principal;  // Nobody, unless all of it is there.
  const std::int64_t kind = stored.integer("kind");
  using Kind = security::PrincipalKind;
  for (const Kind each : {Kind::kUser, Kind::kService}) {
    if (kind == static_cast<std::int64_t>(each)) principal.kind = each;
  }
  principal.id = stored.text("id");
  if (stored["groups"].is_array()) {
    for (const Value& group : stored["groups"].as_array()) {
      if (group.is_string()) principal.groups.push_back(group.as_string());
    }
  }
  return std::make_shared<const security::Principal>(std::move(principal));
}

std::vector<security::Scope> scopes_of(const JobSpec& spec) {
  std::vector<security::Scope> out;
  if (!spec.payload.is_object()) return out;
  const auto add_all = [&](std::string_view field, Named as) {
    const Value& list = spec.payload[field];
    if (!list.is_array()) return;
    for (const Value& each : list.as_array()) {
      if (each.is_string()) add_scopes(as, each.as_string(), spec.project, out);
    }
  };
  add_all("inputs", Named::kInput);
  add_all("outputs", Named::kOutput);
  // Nobody but the server writes a companion, and the run that it is for, into a payload.
  if (!spec.payload.text("companion").empty()) {
    add_scopes(Named::kInput, "Run/" + spec.payload.text("run"), spec.project, out);
  }
  return out;
}

std::vector<std::string> inputs_of(const JobSpec& spec) {
  std::vector<std::string> out;
  if (!spec.payload.is_object()) return out;
  if (const Value& inputs = spec.payload["inputs"]; inputs.is_array()) {
    for (const Value& each : inputs.as_array()) {
      if (each.is_string()) out.push_back(each.as_string());
    }
  }
  const std::string set = spec.payload["capture"]["data"].text("training_set");
  const std::string learns_from = "TrainingSet/" + set;
  if (!set.empty() && std::find(out.begin(), out.end(), learns_from) == out.end()) {
    out.push_back(learns_from);
  }
  // What it makes, and the run that it is a companion of, it may read as well.
  for (const security::Scope& scope : scopes_of(spec)) {
    const bool reads = scope.action != "models.write" && scope.action != "data.ingest";
    if (!reads || std::find(out.begin(), out.end(), scope.object) != out.end()) continue;
    out.push_back(scope.object);
  }
  return out;
}

}  // namespace falaj::jobs
