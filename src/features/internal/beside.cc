#include "features/internal/beside.h"

#include <algorithm>
#include <optional>

#include "features/definitions.h"
#include "features/internal/expectations.h"
#include "features/internal/service_layout.h"

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
  return columns;  // What is computed is no column of a label view's rows.
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

// How the service is read. Nullopt when one of its views is not there or cannot be read.
Result<std::optional<ServiceLayout>> layout_of(const Object& from, const FeatureService& service,
                                               const FindObject& find) {
  std::vector<View> views;
  for (const ServiceView& each : service.views) {
    std::optional<View> view = view_of(from, each.view, find);
    if (!view) return std::optional<ServiceLayout>();
    views.push_back(std::move(*view));
  }
  std::vector<ViewOfService> parts;
  for (const View& view : views) parts.push_back({view.view, view.entity});
  return std::optional<ServiceLayout>(FALAJ_TRY(lay_out(service, parts)));
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

Status view_beside_its_source(const Object& object, const FindObject& find) {
  const FeatureView view = FALAJ_TRY(decode_feature_view(object));
  const Object* entity_object = find({"Entity", object.project, view.entity});
  const Object* source_object = find({"Source", object.project, view.source});
  if (entity_object == nullptr || source_object == nullptr) return {};
  const Entity entity = FALAJ_TRY(decode_entity(*entity_object));
  const Source source = FALAJ_TRY(decode_source(*source_object));
  const Result<std::vector<CompiledExpectation>> compiled =
      compile_expectations(view, entity, source);
  if (!compiled.ok()) return compiled.error().within(place_of(object));
  if (view.computed.empty()) return {};
  FeatureService alone;
  alone.views.push_back({view.name, {}});
  const Result<ServiceLayout> layout = lay_out(alone, {{view, entity}});
  if (!layout.ok()) return layout.error().within(place_of(object));
  return {};
}

Status service_beside_its_views(const Object& object, const FindObject& find) {
  const FeatureService service = FALAJ_TRY(decode_feature_service(object));
  const auto layout = layout_of(object, service, find);
  if (!layout.ok()) return layout.error().within(place_of(object));
  return {};
}

Status set_beside_its_service(const Object& object, const FindObject& find) {
  const TrainingSetSpec spec = FALAJ_TRY(decode_training_set(object));
  const Object* service_object = find({"FeatureService", object.project, spec.service});
  if (service_object == nullptr) return {};
  const FeatureService service = FALAJ_TRY(decode_feature_service(*service_object));
  const auto layout = layout_of(object, service, find);
  if (!layout.ok() || !*layout) return {};  // The service itself says what is wrong.
  const std::vector<table::Field>& keys = (*layout)->keys;
  if (!spec.split_by.empty() && find_column(keys, spec.split_by) == nullptr) {
    return not_there(place_of(object) + " split.by", spec.split_by,
                     "the keys of FeatureService " + spec.service, keys);
  }
  if (spec.spine_view.empty()) return {};
  const std::optional<View> spine = view_of(object, spec.spine_view, find);
  return spine ? check_spine(object, spec, *spine, keys) : Status{};
}

}  // namespace falaj::features
