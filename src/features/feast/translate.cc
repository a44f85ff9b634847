#include "features/feast/translate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/units.h"
#include "features/definitions.h"

namespace falaj::features::feast {
namespace {

using table::Type;

constexpr std::size_t kNameMax = 63;
// Feast's stand-in for views without an entity.
constexpr std::string_view kNoEntity = "__dummy";

std::optional<Type> type_of(std::uint32_t type) {
  switch (type) {
    case kString:
      return Type::kString;
    case kInt32:
    case kInt64:
      return Type::kInt64;
    case kDouble:
    case kFloat:
      return Type::kFloat64;
    case kBool:
      return Type::kBool;
    case kUnixTimestamp:
      return Type::kTimestamp;
    default:
      return std::nullopt;
  }
}

Value object_of(const std::string& kind, const std::string& name, const Labels& labels) {
  Value out = Value::object();
  out["apiVersion"] = "falaj.dev/v1";
  out["kind"] = kind;
  out["metadata"]["name"] = name;
  for (const auto& [key, text] : labels) out["metadata"]["labels"][key] = text;
  return out;
}

Value fields_of(const std::vector<table::Field>& fields) {
  Value out = Value::array();
  for (const table::Field& field : fields) {
    Value each = Value::object();
    each["name"] = field.name;
    each["type"] = table::type_name(field.type);
    out.push(std::move(each));
  }
  return out;
}

// Whether the catalog would take it, in the catalog's own words.
Status check_object(Value object) {
  object["metadata"]["project"] = "default";
  const storage::Object parsed = FALAJ_TRY(storage::object_from_value(object));
  if (parsed.kind == "Entity") FALAJ_TRY(decode_entity(parsed));
  if (parsed.kind == "Source") FALAJ_TRY(decode_source(parsed));
  if (parsed.kind == "FeatureView") FALAJ_TRY(decode_feature_view(parsed));
  if (parsed.kind == "FeatureService") FALAJ_TRY(decode_feature_service(parsed));
  return {};
}

// Of this machine, or "".
std::string local_path(const FeastSource& source, const std::string& folder) {
  if (source.kind != SourceKind::kFile || source.path.empty()) return {};
  std::string path = source.path;
  if (path.starts_with("file://")) path = path.substr(7);
  if (path.find("://") != std::string::npos) return {};
  if (path.starts_with("/")) return path;
  return folder.empty() ? path : folder + (folder.ends_with("/") ? "" : "/") + path;
}

std::string renamed(const FeastSource& source, const std::string& column) {
  const auto found = source.renamed.find(column);
  return found == source.renamed.end() ? column : found->second;
}

const char* why_not(const std::string& kind) {
  if (kind == "OnDemandFeatureView" || kind == "StreamFeatureView") {
    return "it is Python code: write it as features with 'expr' or 'aggregate' "
           "(docs/reference/expressions.md)";
  }
  if (kind == "Permission") return "permissions become Grants, which name Falaj's own actions";
  if (kind == "SavedDataset") return "freeze a TrainingSet instead: its bytes can be had again";
  if (kind == "ValidationReference") return "write what it checks as 'expect' of a FeatureView";
  if (kind == "LabelView") return "labels are a FeatureView that a TrainingSet names as its spine";
  return "Falaj has nothing of the kind";
}

class Translator {
 public:
  Translator(const FeastRegistry& registry, const TranslateOptions& options)
      : registry_(registry), options_(options) {}

  Translation run() {
    for (const FeastEntity& entity : registry_.entities) {
      if (ours(entity.project)) entities_.emplace(entity.name, &entity);
    }
    for (const FeastView& view : registry_.views) {
      if (ours(view.project)) add_view(view);
    }
    for (const auto& [name, entity] : entities_) add_unused(*entity);
    for (const FeastOther& other : registry_.others) {
      if (ours(other.project)) leave_out(other.kind + " " + other.name, why_not(other.kind));
    }
    for (const FeastService& service : registry_.services) {
      if (ours(service.project)) add_service(service);
    }
    for (const auto& [project, count] : foreign_) {
      leave_out("project " + project, std::to_string(count) +
                                          " objects of it are in the same registry: import it "
                                          "with a feature_store.yaml that names it");
    }
    gather();
    return std::move(out_);
  }

 private:
  // Counts those that are not: ask once for each object.
  bool ours(const std::string& project) {
    if (project.empty() || project == options_.project) return true;
    ++foreign_[project];
    return false;
  }
  void leave_out(std::string what, std::string why) {
    out_.left_out.push_back({std::move(what), std::move(why)});
  }
  void change(std::string what, std::string why) {
    out_.changed.push_back({std::move(what), std::move(why)});
  }

  // A name of ours that nothing else of this kind has.
  std::string fresh(const std::string& kind, const std::string& name) {
    const std::string wanted = falaj_name(name);
    std::string out = wanted;
    for (int n = 2; !taken_.insert(kind + "/" + out).second; ++n) {
      const std::string end = "_" + std::to_string(n);
      out = wanted.substr(0, kNameMax - end.size()) + end;
    }
    return out;
  }
  // The same, said when it is another name and clients use it.
  std::string fresh_told(const std::string& kind, const std::string& name) {
    std::string out = fresh(kind, name);
    if (out != name) change(kind + " " + name, "it is called " + out + " here");
    return out;
  }

  std::optional<std::vector<table::Field>> keys_of(const FeastView& view, const std::string& what) {
    std::vector<table::Field> out;
    for (const std::string& name : view.entities) {
      const auto found = entities_.find(name);
      if (name == kNoEntity || found == entities_.end()) {
        leave_out(what, name == kNoEntity ? "it has no entity, and rows here belong to one"
                                          : "its entity " + name + " is not in the registry");
        return std::nullopt;
      }
      const FeastEntity& entity = *found->second;
      std::uint32_t number = entity.type;
      for (const FeastField& key : view.keys) {
        if (key.name == entity.join_key) number = key.type;
      }
      const std::optional<Type> type = type_of(number);
      if (type != Type::kInt64 && type != Type::kString) {
        leave_out(what, "its key " + entity.join_key + " is " + value_type_name(number) +
                            ", and keys are int64 or string");
        return std::nullopt;
      }
      out.push_back({entity.join_key, *type});
    }
    if (!out.empty()) return out;
    leave_out(what, "it has no entity, and rows here belong to one");
    return std::nullopt;
  }

  // The name of the Entity with these keys, declared if it is not there yet.
  Result<std::string> entity_for(const std::vector<std::string>& names,
                                 const std::vector<table::Field>& keys) {
    std::string joined;
    for (const std::string& name : names) joined.append(joined.empty() ? "" : "_").append(name);
    const auto found = entity_names_.find(names);
    if (found != entity_names_.end()) {
      if (found->second.second == keys) return found->second.first;
      return Error(ErrorId::kWrongType,
                   "its keys have other types than those of another view of " + joined);
    }
    const Labels labels = names.size() == 1 ? entities_.at(names[0])->labels : Labels{};
    const std::string name =
        names.size() == 1 ? fresh_told("Entity", names[0]) : fresh("Entity", joined);
    Value object = object_of("Entity", name, labels);
    object["spec"]["keys"] = fields_of(keys);
    FALAJ_TRY(check_object(object));
    if (names.size() > 1) {
      std::string listed;
      for (const std::string& each : names) listed.append(listed.empty() ? "" : ", ").append(each);
      change("Entity " + name, "it stands for " + listed + ", which a view has together");
    }
    entity_names_.emplace(names, std::pair(name, keys));
    entity_objects_.push_back(std::move(object));
    return name;
  }

  Result<std::string> source_for(const FeastView& view, const ViewPlan& plan) {
    const bool pushed = view.stream && view.stream->kind == SourceKind::kPush;
    const FeastSource& source = view.batch ? *view.batch : *view.stream;
    Value spec = Value::object();
    spec["format"] = "parquet";
    if (!plan.path.empty()) spec["path"] = plan.path;
    spec["event_time"] = plan.event_time;
    if (!plan.created_time.empty()) spec["created_time"] = plan.created_time;
    const std::string name = pushed ? view.stream->name : source.name;
    for (const auto& [other, object] : source_objects_) {
      if (other == name && object["spec"] == spec) return object["metadata"].text("name");
    }
    const std::string ours = pushed ? fresh_told("Source", name) : fresh("Source", name);
    Value object = object_of("Source", ours, {});
    object["spec"] = std::move(spec);
    FALAJ_TRY(check_object(object));
    source_objects_.emplace_back(name, std::move(object));
    return ours;
  }

  void add_features(const FeastView& view, const std::string& what, ViewPlan& plan) {
    for (const FeastField& feature : view.features) {
      const std::optional<Type> type = type_of(feature.type);
      if (!type) {
        leave_out("feature " + feature.name + " of " + what,
                  "it is " + value_type_name(feature.type) +
                      "; features are bool, int64, float64, string or timestamp");
        continue;
      }
      plan.features.push_back({feature.name, *type});
      if (feature.type == kFloat) plan.singles.push_back(feature.name);
    }
  }

  void add_view(const FeastView& view) {
    const std::string what = "FeatureView " + view.name;
    if (view.has_code) {
      return leave_out(what, "its rows come out of Python code or of other views: " +
                                 std::string("write them to a file, and declare that"));
    }
    const auto keys = keys_of(view, what);
    if (!keys) return;
    const FeastSource* source = view.batch ? &*view.batch : view.stream ? &*view.stream : nullptr;
    if (source == nullptr || source->event_time.empty()) {
      return leave_out(what, "its source names no column with the time of an event");
    }
    ViewPlan plan;
    plan.feast_name = view.name;
    plan.keys = *keys;
    plan.ttl = view.ttl;
    plan.path = local_path(*source, options_.folder);
    plan.event_time = renamed(*source, source->event_time);
    if (!source->created_time.empty()) plan.created_time = renamed(*source, source->created_time);
    plan.renamed = source->renamed;
    add_features(view, what, plan);
    if (plan.features.empty()) return leave_out(what, "none of its features can be translated");
    const Status declared = declare(view, what, plan);
    if (!declared.ok()) return leave_out(what, declared.error().message);
    remark_on(view, what, plan);
    out_.views.push_back(std::move(plan));
  }

  Status declare(const FeastView& view, const std::string& what, ViewPlan& plan) {
    const std::string entity = FALAJ_TRY(entity_for(view.entities, plan.keys));
    Value object = object_of("FeatureView", falaj_name(view.name), view.labels);
    Value& spec = object["spec"];
    spec["entity"] = entity;
    spec["source"] = "source";
    spec["ttl"] = to_string(plan.ttl);
    spec["online"] = view.online;
    spec["features"] = fields_of(plan.features);
    FALAJ_TRY(check_object(object));
    spec["source"] = FALAJ_TRY(source_for(view, plan));
    plan.name = fresh("FeatureView", view.name);
    if (plan.name != view.name) {
      change(what, "it is called " + plan.name + " here: Feast's clients ask for that name");
    }
    object["metadata"]["name"] = plan.name;
    view_objects_.push_back(std::move(object));
    return {};
  }

  void remark_on(const FeastView& view, const std::string& what, const ViewPlan& plan) {
    if (view.disabled) change(what, "it is disabled there, and enabled here");
    if (!plan.renamed.empty()) {
      change(what,
             "its file's columns are renamed while it is imported (field_mapping): what is "
             "ingested later has to bring the new names");
    }
    if (view.stream && view.stream->kind != SourceKind::kPush) {
      leave_out("the stream of " + what,
                view.stream->technology + " is not followed: push its rows (falaj features push)");
    }
    if (!plan.path.empty()) return;
    const FeastSource& source = view.batch ? *view.batch : *view.stream;
    if (source.kind == SourceKind::kPush) return;
    const bool remote = source.kind == SourceKind::kFile;
    leave_out("the rows of " + what,
              "they are in " + (remote ? source.path : source.technology) +
                  ": write them to a Parquet file and send it with falaj ingest");
  }

  void add_unused(const FeastEntity& entity) {
    if (entity.name == kNoEntity || entity_names_.contains({entity.name})) return;
    const std::optional<Type> type = type_of(entity.type);
    if (type == Type::kInt64 || type == Type::kString) {
      const auto added = entity_for({entity.name}, {{entity.join_key, *type}});
      if (!added.ok()) leave_out("Entity " + entity.name, added.error().message);
      return;
    }
    const bool used =
        std::any_of(entity_names_.begin(), entity_names_.end(), [&](const auto& each) {
          return std::find(each.first.begin(), each.first.end(), entity.name) != each.first.end();
        });
    if (!used) leave_out("Entity " + entity.name, "no imported view tells the type of its key");
  }

  // Why a service cannot have this view, or "".
  std::string missing_in(const FeastProjection& taken) const {
    const ViewPlan* plan = find_view(taken.view);
    if (plan == nullptr) return "it takes " + taken.view + ", which is left out";
    for (const std::string& feature : taken.features) {
      const bool there =
          std::any_of(plan->features.begin(), plan->features.end(),
                      [&](const table::Field& each) { return each.name == feature; });
      if (!there) return "it takes " + taken.view + ":" + feature + ", which is left out";
    }
    return {};
  }

  const ViewPlan* find_view(const std::string& name) const {
    const auto found = std::find_if(out_.views.begin(), out_.views.end(),
                                    [&](const ViewPlan& each) { return each.feast_name == name; });
    return found == out_.views.end() ? nullptr : &*found;
  }

  // A service is the contract of a model: whole or not at all.
  void add_service(const FeastService& service) {
    const std::string what = "FeatureService " + service.name;
    Value object = object_of("FeatureService", falaj_name(service.name), service.labels);
    std::set<std::string> names;
    bool collide = false;
    object["spec"]["features"] = Value::array();
    for (const FeastProjection& taken : service.views) {
      const std::string missing = missing_in(taken);
      if (!missing.empty()) return leave_out(what, missing);
      Value projection = Value::object();
      projection["features"] = Value::array();
      for (const std::string& feature : taken.features) {
        projection["features"].push(feature);
        collide = !names.insert(feature).second || collide;
      }
      if (!taken.alias.empty()) projection["as"] = falaj_name(taken.alias);
      for (const auto& [key, column] : taken.keys) projection["keys"][key] = column;
      Value view = Value::object();
      view[find_view(taken.view)->name] = std::move(projection);
      object["spec"]["features"].push(std::move(view));
    }
    if (collide) {
      object["spec"]["full_names"] = true;
      change(what, "several of its features have one name, so they are called VIEW__FEATURE");
    }
    const Status fits = check_object(object);
    if (!fits.ok()) return leave_out(what, fits.error().message);
    object["metadata"]["name"] = fresh_told("FeatureService", service.name);
    service_objects_.push_back(std::move(object));
  }

  void gather() {
    for (Value& each : entity_objects_) out_.objects.push_back(std::move(each));
    for (auto& each : source_objects_) out_.objects.push_back(std::move(each.second));
    for (Value& each : view_objects_) out_.objects.push_back(std::move(each));
    for (Value& each : service_objects_) out_.objects.push_back(std::move(each));
  }

  const FeastRegistry& registry_;
  const TranslateOptions& options_;
  std::map<std::string, const FeastEntity*> entities_;
  std::map<std::string, std::size_t> foreign_;
  std::set<std::string> taken_;  // "Kind/name"
  // Feast's entities → ours, with its keys.
  std::map<std::vector<std::string>, std::pair<std::string, std::vector<table::Field>>>
      entity_names_;
  std::vector<Value> entity_objects_;
  std::vector<std::pair<std::string, Value>> source_objects_;  // By Feast's name.
  std::vector<Value> view_objects_;
  std::vector<Value> service_objects_;
  Translation out_;
};

}  // namespace

std::string falaj_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    const bool large = c >= 'A' && c <= 'Z';
    out += large ? static_cast<char>(c + 32) : kept ? c : '_';
  }
  const auto edge = [](char c) { return c == '_' || c == '-'; };
  std::size_t begin = 0;
  while (begin < out.size() && edge(out[begin])) ++begin;
  out = out.substr(begin, kNameMax);
  while (!out.empty() && edge(out.back())) out.pop_back();
  return out.empty() ? "unnamed" : out;
}

Translation translate(const FeastRegistry& registry, const TranslateOptions& options) {
  return Translator(registry, options).run();
}

}  // namespace falaj::features::feast
