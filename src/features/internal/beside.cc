#include "features/internal/beside.h"

#include <algorithm>
#include <optional>

#include "features/definitions.h"

namespace falaj::features {
namespace {

using storage::FindObject;
using storage::Object;
using table::Type;

struct View {
  FeatureView view;
  Entity entity;
};

// Nullopt when it is not there or cannot be read: others say so.
std::optional<View> view_of(const Object& from, const std::string& name, const FindObject& find) {
  const Object* object = find({"FeatureView", from.project, name});
  if (object == nullptr) return std::nullopt;
  Result<FeatureView> view = decode_feature_view(*object);
  if (!view.ok()) return std::nullopt;
  const Object* entity_object = find({"Entity", from.project, view->entity});
  if (entity_object == nullptr) return std::nullopt;
  Result<Entity> entity = decode_entity(*entity_object);
  if (!entity.ok()) return std::nullopt;
  return View{std::move(*view), std::move(*entity)};
}

// Its keys and its features.
std::vector<table::Field> columns_of(const View& view) {
  std::vector<table::Field> columns = view.entity.keys;
  for (const Feature& feature : view.view.features) columns.push_back({feature.name, feature.type});
  return columns;
}

const table::Field* find_column(const std::vector<table::Field>& columns, const std::string& name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const table::Field& each) { return each.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

std::string place_of(const Object& object) { return object.kind + " " + object.name + " spec"; }

Error not_there(const std::string& place, const std::string& name, const std::string& of,
                const std::vector<table::Field>& columns) {
  std::string known;
  for (const table::Field& column : columns) known += (known.empty() ? "" : ", ") + column.name;
  return Error(ErrorId::kReferenceMissing,
               place + ": \"" + name + "\" is not in " + of + ", which has " + known);
}

// The distinct keys that the service's views are read by.
std::vector<table::Field> keys_of(const Object& from, const FeatureService& service,
                                  const FindObject& find) {
  std::vector<table::Field> keys;
  for (const ServiceView& each : service.views) {
    const std::optional<View> view = view_of(from, each.view, find);
    if (!view) continue;
    for (const table::Field& key : view->entity.keys) {
      if (find_column(keys, key.name) == nullptr) keys.push_back(key);
    }
  }
  return keys;
}

Status check_spine(const Object& object, const TrainingSetSpec& spec, const View& spine,
                   const std::vector<table::Field>& keys) {
  const std::vector<table::Field> columns = columns_of(spine);
  const std::string of = "FeatureView " + spec.spine_view;
  const std::string place = place_of(object) + " spine";
  const table::Field* label = find_column(columns, spec.label);
  if (label == nullptr) return not_there(place + " label", spec.label, of, columns);
  if (label->type == Type::kString || label->type == Type::kTimestamp) {
    return Error(ErrorId::kWrongType, place + ": label \"" + spec.label + "\" is " +
                                          std::string(type_name(label->type)) +
                                          ": a model learns a number, name an int64, float64 or "
                                          "bool feature");
  }
  for (const table::Field& key : keys) {
    const table::Field* there = find_column(columns, key.name);
    if (there == nullptr) return not_there(place + " key", key.name, of, columns);
    if (there->type == key.type) continue;
    return Error(ErrorId::kWrongType,
                 place + ": key \"" + key.name + "\" is " + std::string(type_name(there->type)) +
                     " in " + of + ", but " + std::string(type_name(key.type)) + " in its entity");
  }
  return {};
}

}  // namespace

Status service_beside_its_views(const Object& object, const FindObject& find) {
  const FeatureService service = FALAJ_TRY(decode_feature_service(object));
  for (const ServiceView& each : service.views) {
    const std::optional<View> view = view_of(object, each.view, find);
    if (!view) continue;
    std::vector<table::Field> columns;
    for (const Feature& feature : view->view.features) {
      columns.push_back({feature.name, feature.type});
    }
    for (const std::string& name : each.features) {
      if (find_column(columns, name) != nullptr) continue;
      return not_there(place_of(object) + " features", name, "FeatureView " + each.view, columns);
    }
  }
  return {};
}

Status set_beside_its_service(const Object& object, const FindObject& find) {
  const TrainingSetSpec spec = FALAJ_TRY(decode_training_set(object));
  const Object* service_object = find({"FeatureService", object.project, spec.service});
  if (service_object == nullptr) return {};
  const FeatureService service = FALAJ_TRY(decode_feature_service(*service_object));
  const std::vector<table::Field> keys = keys_of(object, service, find);
  if (!spec.split_by.empty() && find_column(keys, spec.split_by) == nullptr) {
    return not_there(place_of(object) + " split.by", spec.split_by,
                     "the keys of FeatureService " + spec.service, keys);
  }
  if (spec.spine_view.empty()) return {};
  const std::optional<View> spine = view_of(object, spec.spine_view, find);
  return spine ? check_spine(object, spec, *spine, keys) : Status{};
}

}  // namespace falaj::features
