#include "catalog/catalog.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/decode.h"
#include "base/hash.h"
#include "base/json.h"
#include "security/quota/quota.h"
#include "security/residency/declarations.h"

namespace falaj::catalog {
namespace {

using storage::KindInfo;
using storage::Object;
using storage::Reference;
using storage::Scope;

// An object's place in the reference graph: "FeatureView/payments/customer_activity".
std::string path_of(std::string_view kind, std::string_view project, std::string_view name) {
  std::string path(kind);
  if (!project.empty()) path.append("/").append(project);
  return path.append("/").append(name);
}
std::string path_of(const Object& o) { return path_of(o.kind, o.project, o.name); }
std::string path_of(const Reference& r) { return path_of(r.kind, r.project, r.name); }

using Graph = std::map<std::string, std::vector<Reference>, std::less<>>;

// Depth-first search for a way from `path` back to itself.
bool leads_back(const Graph& graph, const std::string& at, const std::string& start,
                std::set<std::string>& seen, std::vector<std::string>& trail) {
  const auto found = graph.find(at);
  if (found == graph.end()) return false;
  for (const Reference& reference : found->second) {
    const std::string next = path_of(reference);
    trail.push_back(next);
    if (next == start) return true;
    if (seen.insert(next).second && leads_back(graph, next, start, seen, trail)) return true;
    trail.pop_back();
  }
  return false;
}

Status check_cycle(const Graph& graph, const std::string& start) {
  std::set<std::string> seen;
  std::vector<std::string> trail{start};
  if (!leads_back(graph, start, start, seen, trail)) return {};
  std::string way;
  for (const std::string& step : trail) way.append(way.empty() ? "" : " → ").append(step);
  return Error{ErrorId::kReferenceCycle, way + ": remove one of these references"};
}

Status check_scope(const KindInfo& kind, const Object& object) {
  FALAJ_TRY(check_name(object.kind + " name", object.name));
  if (kind.scope == Scope::kPlatform) {
    if (object.project.empty()) return {};
    return Error{ErrorId::kInvalidArgument, path_of(object) + ": a " + object.kind +
                                                " stands above projects; remove "
                                                "metadata.project"};
  }
  return check_name(object.kind + "'s project", object.project);
}

// What the spec names, and the project it lives in.
Result<std::vector<Reference>> references_of(const KindInfo& kind, const Object& object) {
  std::vector<Reference> references = FALAJ_TRY(kind.check(object));
  if (kind.scope == Scope::kProject) references.push_back({"Project", "", object.project});
  return references;
}

Status check_references(const Object& object, const std::vector<Reference>& references,
                        const Graph& graph) {
  for (const Reference& reference : references) {
    if (graph.contains(path_of(reference))) continue;
    std::vector<std::string> names;
    // Of the same kind and project only: other tenants' names are no hints.
    const std::string beside = path_of(reference.kind, reference.project, "");
    for (const auto& [path, unused] : graph) {
      if (path.starts_with(beside)) names.push_back(path);
    }
    const std::string near = nearest_name(path_of(reference), names);
    return Error{ErrorId::kReferenceMissing,
                 path_of(object) + " refers to " + path_of(reference) + ", which is not declared" +
                     (near.empty() ? "" : "; did you mean " + near + "?")};
  }
  return {};
}

// Kinds that say what they use the project's data for.
bool declares_purpose(const Object& object) {
  return (object.kind == "TrainingSet" || object.kind == "TrainJob") &&
         !object.spec.text("purpose").empty();
}

Status check_purpose(const Object& object, const std::string& collected_for) {
  const std::string purpose = object.spec.text("purpose");
  if (collected_for.empty() || purpose == collected_for) return {};
  return Error{ErrorId::kPurposeRefused, path_of(object) + " is for purpose '" + purpose +
                                             "', but project " + object.project +
                                             " holds data collected for '" + collected_for + "'"};
}

// What a project is for binds what is declared in it, whichever of them changes.
Status check_purposes(storage::SqlTransaction& tx, const std::vector<Object>& objects) {
  std::map<std::string, Object> all;
  std::map<std::string, std::string> purposes;
  for (const Object& object : objects) {
    if (object.kind != "Project") continue;
    purposes[object.name] = object.spec.text("purpose");
    for (const char* kind : {"TrainingSet", "TrainJob"}) {
      for (Object& stored : FALAJ_TRY(storage::list_objects(tx, kind, object.name))) {
        std::string path = path_of(stored);
        all.insert_or_assign(std::move(path), std::move(stored));
      }
    }
  }
  for (const Object& object : objects) all.insert_or_assign(path_of(object), object);
  for (const auto& [path, object] : all) {
    if (!declares_purpose(object)) continue;
    if (!purposes.contains(object.project)) {
      const auto project = FALAJ_TRY(storage::find_object(tx, "Project", "", object.project));
      purposes[object.project] = project ? project->spec.text("purpose") : std::string();
    }
    FALAJ_TRY(check_purpose(object, purposes[object.project]));
  }
  return {};
}

// Once everything is written: what was created must fit. Changing what is there always does, so
// that a quota which was lowered locks nobody out.
Status check_quotas(storage::SqlTransaction& tx, const std::vector<Applied>& applied) {
  std::set<std::string> grown;
  for (const Applied& item : applied) {
    if (item.outcome == storage::PutOutcome::kCreated) grown.insert(item.object.project);
  }
  for (const std::string& project : grown) {
    const security::Quota quota = FALAJ_TRY(security::quota_of(tx, project));
    if (!quota.objects) continue;
    const std::int64_t held = FALAJ_TRY(storage::count_objects(tx, project));
    if (held <= *quota.objects) continue;
    return security::quota_reached(
        project,
        "would hold " + std::to_string(held) + " objects, and its quota is " +
            std::to_string(*quota.objects) + ": delete some, or have the quota raised",
        security::Shortage::kLasting);
  }
  return {};
}

}  // namespace

std::string_view outcome_name(storage::PutOutcome outcome) {
  switch (outcome) {
    case storage::PutOutcome::kCreated:
      return "created";
    case storage::PutOutcome::kChanged:
      return "changed";
    case storage::PutOutcome::kUnchanged:
      return "unchanged";
  }
  return "unchanged";
}

Catalog::Catalog(storage::SqlStore& sql, security::Audit& audit, const Clock& clock,
                 std::vector<KindInfo> kinds, std::function<void()> on_change)
    : sql_(sql),
      audit_(audit),
      clock_(clock),
      kinds_(std::move(kinds)),
      on_change_(std::move(on_change)) {
  std::sort(kinds_.begin(), kinds_.end(),
            [](const KindInfo& a, const KindInfo& b) { return a.kind < b.kind; });
}

const KindInfo* Catalog::find_kind(std::string_view kind) const {
  const auto found = std::find_if(kinds_.begin(), kinds_.end(),
                                  [&](const KindInfo& info) { return info.kind == kind; });
  return found == kinds_.end() ? nullptr : &*found;
}

Result<Catalog::Graph> Catalog::stored_graph(storage::SqlTransaction& tx) const {
  Graph graph;
  for (const Object& object : FALAJ_TRY(storage::list_objects(tx))) {
    const KindInfo* kind = find_kind(object.kind);
    if (kind == nullptr) continue;  // Written by a newer program; kept, not understood.
    graph[path_of(object)] = FALAJ_TRY(references_of(*kind, object));
  }
  return graph;
}

Status Catalog::check_change(storage::SqlTransaction& tx, const KindInfo& kind,
                             const Object& object) const {
  if (!kind.check_change) return {};
  const std::vector<Object> history =
      FALAJ_TRY(storage::object_history(tx, object.kind, object.project, object.name));
  // What was accepted before may come back.
  const std::string spec = to_json(object.spec);
  const bool known = std::any_of(history.begin(), history.end(), [&](const Object& before) {
    return to_json(before.spec) == spec;
  });
  if (known) return {};
  for (const Object& before : history) FALAJ_TRY(kind.check_change(before, object));
  return {};
}

Status Catalog::check_all(storage::SqlTransaction& tx, const std::vector<Object>& objects) const {
  Graph graph = FALAJ_TRY(stored_graph(tx));
  std::set<std::string> named;
  for (const Object& object : objects) {
    const KindInfo* kind = find_kind(object.kind);
    if (kind == nullptr) {
      std::vector<std::string> names;
      for (const KindInfo& info : kinds_) names.push_back(info.kind);
      const std::string near = nearest_name(object.kind, names);
      return Error{ErrorId::kUnknownKind, "kind '" + object.kind + "' is unknown" +
                                              (near.empty() ? "" : "; did you mean " + near + "?")};
    }
    FALAJ_TRY(check_scope(*kind, object));
    if (!named.insert(path_of(object)).second) {
      return Error{ErrorId::kDuplicateObject, path_of(object) + " stands twice in one call"};
    }
    graph[path_of(object)] = FALAJ_TRY(references_of(*kind, object));
    FALAJ_TRY(check_change(tx, *kind, object));
  }
  for (const Object& object : objects) {
    FALAJ_TRY(check_references(object, graph[path_of(object)], graph));
    FALAJ_TRY(check_cycle(graph, path_of(object)));
  }
  FALAJ_TRY(check_purposes(tx, objects));
  return check_beside(tx, objects, graph);
}

// Each applied object beside what it refers to; and each stored one that refers to an applied one,
// unless it made no sense before either.
Status Catalog::check_beside(storage::SqlTransaction& tx, const std::vector<Object>& objects,
                             const Graph& graph) const {
  std::map<std::string, Object> before;
  for (Object& object : FALAJ_TRY(storage::list_objects(tx))) {
    before.emplace(path_of(object), std::move(object));
  }
  std::map<std::string, Object> after = before;
  std::set<std::string> applied;
  for (const Object& object : objects) {
    after.insert_or_assign(path_of(object), object);
    applied.insert(path_of(object));
  }
  const auto check = [&](const std::map<std::string, Object>& all, const Object& object) -> Status {
    const KindInfo* kind = find_kind(object.kind);
    if (kind == nullptr || !kind->check_beside) return {};
    return kind->check_beside(object, [&](const Reference& reference) {
      const auto found = all.find(path_of(reference));
      return found == all.end() ? nullptr : &found->second;
    });
  };
  for (const Object& object : objects) FALAJ_TRY(check(after, object));
  for (const auto& [path, object] : before) {
    const auto references = graph.find(path);
    if (applied.contains(path) || references == graph.end()) continue;
    const bool touched = std::any_of(
        references->second.begin(), references->second.end(),
        [&](const Reference& reference) { return applied.contains(path_of(reference)); });
    if (!touched || !check(before, object).ok()) continue;
    FALAJ_TRY(check(after, object));
  }
  return {};
}

Result<std::vector<Applied>> Catalog::apply(const security::RequestContext& context,
                                            const std::vector<Object>& objects, Mode mode) {
  std::vector<Applied> applied;
  const Error dry_run_done{Code::kCancelled, "dry run"};
  const Status status = sql_.write([&](storage::SqlTransaction& tx) -> Status {
    applied.clear();
    FALAJ_TRY(check_all(tx, objects));
    for (const Object& object : objects) {
      const storage::PutOutcome outcome = FALAJ_TRY(storage::put_object(tx, object, clock_.now()));
      applied.push_back(
          {FALAJ_TRY(storage::get_object(tx, object.kind, object.project, object.name)), outcome});
      if (outcome == storage::PutOutcome::kUnchanged) continue;
      Value detail;
      detail["generation"] = applied.back().object.generation;
      detail["outcome"] = outcome_name(outcome);
      detail["spec_sha256"] = sha256_hex(to_json(object.spec));
      security::RequestContext in_project = context;
      in_project.project = ProjectName(object.project);
      FALAJ_TRY(audit_.append(tx, in_project, {"object.apply", path_of(object), detail}));
    }
    FALAJ_TRY(check_quotas(tx, applied));
    if (mode == Mode::kDryRun) return dry_run_done;
    return {};
  });
  if (!status.ok() && !(mode == Mode::kDryRun && status.error() == dry_run_done)) {
    return status.error();
  }
  if (mode == Mode::kApply && on_change_) on_change_();
  return applied;
}

Result<Object> Catalog::get(const std::string& kind, const std::string& project,
                            const std::string& name) const {
  std::vector<Object> found;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    found.push_back(FALAJ_TRY(storage::get_object(tx, kind, project, name)));
    return {};
  }));
  return std::move(found.front());
}

Result<std::vector<Object>> Catalog::list(const std::string& kind,
                                          const std::string& project) const {
  std::vector<Object> found;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    found = FALAJ_TRY(storage::list_objects(tx, kind, project));
    return {};
  }));
  return found;
}

Status Catalog::remove(const security::RequestContext& context, const std::string& kind,
                       const std::string& project, const std::string& name) {
  FALAJ_TRY(sql_.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(storage::get_object(tx, kind, project, name));
    const std::string path = path_of(kind, project, name);
    for (const auto& [from, references] : FALAJ_TRY(stored_graph(tx))) {
      for (const Reference& reference : references) {
        if (path_of(reference) != path) continue;
        return Error{ErrorId::kStillReferenced,
                     path + " is still used by " + from + ": delete or change that first"};
      }
    }
    FALAJ_TRY(storage::delete_object(tx, kind, project, name));
    FALAJ_TRY(audit_.append(tx, context, {"object.delete", path, Value::object()}));
    return {};
  }));
  if (on_change_) on_change_();
  return {};
}

Result<Zone> Catalog::zone_of(const std::string& project) const {
  const Object object = FALAJ_TRY(get("Project", "", project));
  return Zone(object.spec.text("zone"));
}

std::vector<KindInfo> platform_kinds(std::vector<security::residency::Regime> regimes) {
  return security::residency::kinds(std::move(regimes));
}

}  // namespace falaj::catalog
