#include "features/definitions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/decode.h"
#include "base/json.h"
#include "features/internal/beside.h"
#include "features/view_care.h"

namespace falaj::features {
namespace {

constexpr std::size_t kFeaturesMax = 4096;
constexpr std::size_t kColumnNameMax = 128;
constexpr std::size_t kExpectationsMax = 256;
constexpr std::size_t kAggregatesMax = 256;
constexpr std::int64_t kEventsMaxMost = 1'000'000;

std::string where(const storage::Object& object) {
  return object.kind + " " + object.name + " spec";
}

Error out_of_range(const std::string& text) { return Error(ErrorId::kOutOfRange, text); }

// A column's name may be any printable text; two leading underscores are ours.
Status check_column(const std::string& place, std::string_view name) {
  const bool control =
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (!name.empty() && name.size() <= kColumnNameMax && !control && !name.starts_with("__") &&
      is_valid_utf8(name)) {
    return {};
  }
  return Error(ErrorId::kInvalidName,
               place + ": \"" + std::string(name.substr(0, kColumnNameMax)) +
                   "\" is not a column name: use 1 to 128 printable characters that do not begin "
                   "with two underscores");
}

Status check_distinct(const std::string& place, const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      return Error(ErrorId::kDuplicateField, place + ": \"" + name + "\" is named twice");
    }
  }
  return {};
}

Result<table::Field> decode_key(const Value& value, const std::string& place) {
  Fields fields(value, place + " keys");
  table::Field key;
  key.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_column(fields.where(), key.name));
  const std::string type = FALAJ_TRY(fields.choice("type", {"int64", "string"}));
  key.type = FALAJ_TRY(table::parse_type(type));
  FALAJ_TRY(fields.finish());
  return key;
}

Result<Severity> decode_severity(Fields& fields) {
  const std::string severity = FALAJ_TRY(fields.choice("severity", {"block", "warn"}));
  return severity == "warn" ? Severity::kWarn : Severity::kBlock;
}

// Whether it is an expression at all is looked at beside the entity and the source.
Result<RowExpectation> decode_row_expectation(const Value& value, const std::string& place) {
  Fields fields(value, place + " expect");
  RowExpectation expect;
  expect.unique = FALAJ_TRY(fields.texts("unique"));
  expect.expr =
      FALAJ_TRY(expect.unique.empty() ? fields.required_text("expr") : fields.text("expr"));
  if (!expect.unique.empty() && !expect.expr.empty()) {
    return Error(ErrorId::kInvalidArgument, fields.where() + ": either 'expr' or 'unique'");
  }
  FALAJ_TRY(check_distinct(fields.where() + " unique", expect.unique));
  std::string described = expect.expr;
  for (const std::string& column : expect.unique) {
    described += (described.empty() ? "unique " : ", ") + column;
  }
  expect.name = FALAJ_TRY(fields.text("name", described));
  expect.severity = FALAJ_TRY(decode_severity(fields));
  expect.broken_max = FALAJ_TRY(fields.share("broken_max", 1.0));
  FALAJ_TRY(fields.finish());
  if (expect.severity == Severity::kWarn && expect.broken_max < 1) {
    return out_of_range(fields.where() + ": 'broken_max' is for severity: block");
  }
  return expect;
}

Result<Expectation> decode_expectation(const Value& value, table::Type type,
                                       const std::string& place) {
  Fields fields(value, place + " expect");
  Expectation expect;
  if (fields.any("min").is_number()) expect.min = fields.any("min").as_double();
  if (fields.any("max").is_number()) expect.max = fields.any("max").as_double();
  // Asked again through the typed reader, so that a wrong type is refused in the usual words.
  static_cast<void>(FALAJ_TRY(fields.number("min", 0)));
  static_cast<void>(FALAJ_TRY(fields.number("max", 0)));
  expect.nulls_max = FALAJ_TRY(fields.share("nulls_max", 1.0));
  expect.severity = FALAJ_TRY(decode_severity(fields));
  FALAJ_TRY(fields.finish());
  const bool number = type == table::Type::kInt64 || type == table::Type::kFloat64;
  if ((expect.min || expect.max) && !number) {
    return Error(ErrorId::kWrongType, fields.where() + ": min and max are for int64 and float64");
  }
  if (expect.min && expect.max && *expect.min > *expect.max) {
    return out_of_range(fields.where() + ": min is above max");
  }
  return expect;
}

Result<Feature> decode_feature(const Value& value, const std::string& place) {
  Fields fields(value, place + " features");
  Feature feature;
  feature.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_column(fields.where(), feature.name));
  const std::string type = FALAJ_TRY(fields.required_text("type"));
  Result<table::Type> parsed = table::parse_type(type);
  if (!parsed.ok()) return parsed.error().within(place + ": feature \"" + feature.name + "\"");
  feature.type = *parsed;
  const Value expect = FALAJ_TRY(fields.object("expect"));
  feature.expect = FALAJ_TRY(
      decode_expectation(expect, feature.type, place + " feature \"" + feature.name + "\""));
  FALAJ_TRY(decode_sensitivity(fields));  // Kept by ViewCare.
  FALAJ_TRY(fields.finish());
  return feature;
}

Result<ComputedFeature> decode_computed(const Value& value, const std::string& place) {
  Fields fields(value, place);
  ComputedFeature out;
  out.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_column(fields.where(), out.name));
  const std::string type = FALAJ_TRY(fields.required_text("type"));
  Result<table::Type> parsed = table::parse_type(type);
  if (!parsed.ok()) return parsed.error().within(place + ": feature \"" + out.name + "\"");
  out.type = *parsed;
  out.expr = FALAJ_TRY(fields.required_text("expr"));
  FALAJ_TRY(fields.finish());
  return out;
}

using enum AggregateFunction;
using table::Type;

constexpr std::pair<std::string_view, AggregateFunction> kFunctions[] = {
    {"count", kCount},       {"sum", kSum},          {"mean", kMean},   {"var", kVar},
    {"min", kMin},           {"max", kMax},          {"first", kFirst}, {"last", kLast},
    {"distinct", kDistinct}, {"quantile", kQuantile}};

// What the function makes of values of a type; nothing when it does not take them.
std::optional<Type> aggregate_type(AggregateFunction function, Type of) {
  const bool number = of == Type::kInt64 || of == Type::kFloat64;
  switch (function) {
    case kCount:
    case kDistinct:
      return Type::kInt64;
    case kFirst:
    case kLast:
      return of;
    case kSum:
      return number ? std::optional(of) : std::nullopt;
    case kMin:
    case kMax:
      return number || of == Type::kTimestamp ? std::optional(of) : std::nullopt;
    case kMean:
    case kVar:
    case kQuantile:
      break;
  }
  return number ? std::optional(Type::kFloat64) : std::nullopt;
}

// `{sum: amount, window: 7d}`: one function. What it is of is found once all features are known.
Result<Aggregate> decode_aggregate(const Value& value, const std::string& place) {
  if (!value.is_object()) {
    return Error(ErrorId::kWrongType, place + " must be such as {sum: amount, window: 7d}");
  }
  Fields fields(value, place);
  Aggregate out;
  std::size_t named = 0;
  std::string known;
  for (const auto& [name, function] : kFunctions) {
    known.append(known.empty() ? "" : ", ").append(name);
    if (!value.has(name)) continue;
    ++named;
    out.function = function;
    out.of.name = FALAJ_TRY(fields.required_text(name));
  }
  const bool quantile = named == 1 && out.function == kQuantile;
  if (quantile) out.q = FALAJ_TRY(fields.number("q", -1));
  const bool windowed = value.has("window");
  out.window = FALAJ_TRY(fields.duration("window", Duration{}));
  if (named != 1) {
    std::string given;
    for (const auto& member : value.as_object()) given.append(" ").append(member.first, 0, 40);
    return Error(ErrorId::kMissingField,
                 place + " needs one function, one of " + known + "; it has:" + given);
  }
  FALAJ_TRY(fields.finish());
  if (!windowed) return Error(ErrorId::kMissingField, place + " needs a 'window', such as 7d");
  if (out.window <= Duration{}) return out_of_range(place + ": 'window' must be above 0");
  if (quantile && !(out.q >= 0 && out.q <= 1)) {
    return out_of_range(place + ": a quantile needs 'q', a number from 0 to 1");
  }
  if (out.of.name == "*") {
    if (out.function != kCount) {
      return out_of_range(place + ": only count takes \"*\"; name a feature of the view");
    }
    out.of.name.clear();
  } else if (out.of.name.empty()) {
    return out_of_range(place + ": name the feature to aggregate, or count: \"*\"");
  }
  return out;
}

Result<AggregatedFeature> decode_aggregated(const Value& value, const std::string& place) {
  Fields fields(value, place);
  AggregatedFeature out;
  out.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_column(fields.where(), out.name));
  const std::string of = place + " \"" + out.name + "\"";
  const std::string type = FALAJ_TRY(fields.required_text("type"));
  Result<Type> parsed = table::parse_type(type);
  if (!parsed.ok()) return parsed.error().within(of);
  out.type = *parsed;
  out.aggregate = FALAJ_TRY(decode_aggregate(fields.any("aggregate"), of + " aggregate"));
  FALAJ_TRY(fields.finish());
  return out;
}

const Feature* find_stored(const FeatureView& view, const std::string& name) {
  const auto found = std::find_if(view.features.begin(), view.features.end(),
                                  [&](const Feature& each) { return each.name == name; });
  return found == view.features.end() ? nullptr : &*found;
}

Error not_stored(const std::string& place, const std::string& name, const FeatureView& view) {
  std::string known;
  for (const Feature& each : view.features)
    known.append(known.empty() ? "" : ", ").append(each.name);
  return Error(
      ErrorId::kReferenceMissing,
      place + ": \"" + name + "\" is no feature that the view's rows bring; they bring " + known);
}

// Whether the windows fit what the rows bring.
Status settle_aggregates(const std::string& place, const std::string& event_id, FeatureView& view) {
  if (view.aggregated.size() > kAggregatesMax) {
    return out_of_range(place + ": a view takes up to 256 features with 'aggregate'");
  }
  for (AggregatedFeature& feature : view.aggregated) {
    const std::string of = place + " feature \"" + feature.name + "\"";
    Aggregate& aggregate = feature.aggregate;
    std::optional<Type> type = Type::kInt64;
    if (!aggregate.of.name.empty()) {
      const Feature* input = find_stored(view, aggregate.of.name);
      if (input == nullptr) return not_stored(of, aggregate.of.name, view);
      aggregate.of.type = input->type;
      type = aggregate_type(aggregate.function, input->type);
    }
    const auto* function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions),
                     [&](auto& each) { return each.second == aggregate.function; });
    const std::string call = std::string(function->first) + " of \"" + aggregate.of.name + "\"";
    if (!type) {
      return Error(ErrorId::kWrongType, of + ": " + call + ", which is " +
                                            std::string(type_name(aggregate.of.type)) +
                                            ", has no meaning: take a number");
    }
    if (*type != feature.type) {
      return Error(ErrorId::kWrongType, of + " is declared as " +
                                            std::string(type_name(feature.type)) + ", but " + call +
                                            " is " + std::string(type_name(*type)));
    }
  }
  if (event_id.empty()) return {};
  const Feature* id = find_stored(view, event_id);
  if (id == nullptr) return not_stored(place + " 'event_id'", event_id, view);
  if (id->type != Type::kInt64 && id->type != Type::kString) {
    return Error(ErrorId::kWrongType, place + ": 'event_id' must be an int64 or string feature");
  }
  view.event_id = table::Field{id->name, id->type};
  return {};
}

// `[risk_score, {score: merchant_score}]`
Status decode_taken(const Value::Array& list, const std::string& place, ServiceView& out) {
  for (const Value& value : list) {
    if (value.is_string()) {
      out.features.push_back(value.as_string());
      out.names.push_back(value.as_string());
    } else if (value.is_object() && value.as_object().size() == 1 &&
               value.as_object().begin()->second.is_string()) {
      out.features.push_back(value.as_object().begin()->first);
      out.names.push_back(value.as_object().begin()->second.as_string());
    } else {
      return Error(ErrorId::kWrongType,
                   place + ": each feature is a name, or {name: what it is called here}");
    }
    FALAJ_TRY(check_column(place, out.names.back()));
  }
  FALAJ_TRY(check_distinct(place, out.features));
  FALAJ_TRY(check_distinct(place, out.names));
  if (out.names == out.features) out.names.clear();
  return {};
}

Error no_features(const std::string& place) {
  return out_of_range(place +
                      " names no feature; list some, or give the view's name alone for all of "
                      "them");
}

// `{as: origin, features: [temperature], keys: {location_id: origin_id}}`
Status decode_projection(const Value& value, const std::string& place, ServiceView& out) {
  Fields fields(value, place);
  out.as = FALAJ_TRY(fields.text("as"));
  if (!out.as.empty()) FALAJ_TRY(check_name("alias", out.as));
  const bool listed = !fields.any("features").is_null();
  const Value::Array list = FALAJ_TRY(fields.list("features"));
  FALAJ_TRY(decode_taken(list, place, out));
  if (listed && list.empty()) return no_features(place);
  const Value keys = FALAJ_TRY(fields.object("keys"));
  FALAJ_TRY(fields.finish());
  if (keys.is_null()) return {};
  Fields columns(keys, place + " keys");
  for (const auto& member : keys.as_object()) {
    std::string column = FALAJ_TRY(columns.required_text(member.first));
    FALAJ_TRY(check_column(columns.where(), column));
    out.keys.emplace(member.first, std::move(column));
  }
  return {};
}

// `customer_activity`, `{merchant_profile: [risk_score]}` or `{location: {as: origin, …}}`.
Result<ServiceView> decode_service_view(const Value& value, const std::string& place) {
  ServiceView out;
  if (value.is_string()) {
    out.view = value.as_string();
  } else if (value.is_object() && value.as_object().size() == 1) {
    const auto& [view, taken] = *value.as_object().begin();
    out.view = view;
    const std::string of = place + " features \"" + view + "\"";
    if (taken.is_object()) {
      FALAJ_TRY(decode_projection(taken, of, out));
    } else {
      Fields fields(value, place + " features");
      const Value::Array list = FALAJ_TRY(fields.list(view));
      FALAJ_TRY(decode_taken(list, of, out));
      if (out.features.empty()) return no_features(of);
    }
  } else {
    return Error(ErrorId::kWrongType,
                 place +
                     ": each of 'features' is a view's name, {view: [feature, …]} or {view: {as, "
                     "features, keys}}");
  }
  FALAJ_TRY(check_name("FeatureView", out.view));
  return out;
}

Result<Timestamp> decode_time(Fields& fields, std::string_view key, Timestamp fallback) {
  const std::string text = FALAJ_TRY(fields.text(key));
  if (text.empty()) return fallback;
  Result<Timestamp> time = parse_timestamp(text);
  if (!time.ok()) return time.error().within(fields.where() + " '" + std::string(key) + "'");
  return time;
}

Status decode_spine(const Value& value, const std::string& place, TrainingSetSpec& spec) {
  Fields fields(value, place + " spine");
  spec.spine_view = FALAJ_TRY(fields.text("view"));
  spec.spine_path = FALAJ_TRY(fields.text("path"));
  spec.time_column = FALAJ_TRY(fields.text("time"));
  spec.label = FALAJ_TRY(fields.required_text("label"));
  spec.from = FALAJ_TRY(decode_time(fields, "from", Timestamp::min()));
  spec.to = FALAJ_TRY(decode_time(fields, "to", Timestamp::max()));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_column(fields.where(), spec.label));
  if (spec.spine_view.empty() == spec.spine_path.empty()) {
    return Error(ErrorId::kMissingField,
                 fields.where() + ": give either 'view' (a label view) or 'path' (a file)");
  }
  if (!spec.spine_view.empty()) FALAJ_TRY(check_name("FeatureView", spec.spine_view));
  if (spec.spine_path.empty() != spec.time_column.empty()) {
    return Error(ErrorId::kMissingField,
                 fields.where() + ": 'time' names the time column of a file, and only of a file");
  }
  if (spec.from >= spec.to) return out_of_range(fields.where() + ": 'from' must be before 'to'");
  return {};
}

Status decode_known_at(Fields& fields, TrainingSetSpec& spec) {
  const Value& known = fields.any("as_known_at");
  if (known.is_null() || (known.is_string() && known.as_string() == "now")) return {};
  if (!known.is_int()) {
    return Error(ErrorId::kWrongType,
                 fields.where() + ": 'as_known_at' must be now or the number of a commit");
  }
  if (known.as_int() < 0) return out_of_range(fields.where() + ": 'as_known_at' is negative");
  spec.as_known_at = known.as_int();
  return {};
}

Status decode_split(const Value& value, const std::string& place, TrainingSetSpec& spec) {
  Fields fields(value, place + " split");
  spec.split_by = FALAJ_TRY(fields.text("by"));
  spec.valid_share = FALAJ_TRY(fields.share("valid", spec.valid_share));
  FALAJ_TRY(fields.finish());
  if (spec.split_by == "time") spec.split_by.clear();
  if (spec.valid_share < 1) return {};
  return out_of_range(fields.where() +
                      ": 'valid' must leave rows to train on; give less than 100%");
}

using References = Result<std::vector<storage::Reference>>;

storage::Reference refer(const storage::Object& from, std::string kind, std::string name) {
  return {std::move(kind), from.project, std::move(name)};
}

References check_entity(const storage::Object& object) {
  FALAJ_TRY(decode_entity(object));
  return std::vector<storage::Reference>{};
}

References check_source(const storage::Object& object) {
  FALAJ_TRY(decode_source(object));
  return std::vector<storage::Reference>{};
}

References check_feature_view(const storage::Object& object) {
  const FeatureView view = FALAJ_TRY(decode_feature_view(object));
  return std::vector<storage::Reference>{refer(object, "Entity", view.entity),
                                         refer(object, "Source", view.source)};
}

References check_feature_service(const storage::Object& object) {
  const FeatureService service = FALAJ_TRY(decode_feature_service(object));
  std::vector<storage::Reference> out;
  std::set<std::string_view> named;  // A view may stand there twice, under two aliases.
  for (const ServiceView& view : service.views) {
    if (named.insert(view.view).second) out.push_back(refer(object, "FeatureView", view.view));
  }
  return out;
}

References check_training_set(const storage::Object& object) {
  const TrainingSetSpec spec = FALAJ_TRY(decode_training_set(object));
  std::vector<storage::Reference> out{refer(object, "FeatureService", spec.service)};
  if (!spec.spine_view.empty()) out.push_back(refer(object, "FeatureView", spec.spine_view));
  return out;
}

Error immutable(const storage::Object& object, const std::string& field, const std::string& before,
                const std::string& after) {
  return Error(ErrorId::kImmutableField,
               where(object) + ": " + field + " is " + before + " and cannot become " + after +
                   ", because rows may be stored that way: declare a new " + object.kind +
                   " under another name");
}

std::string keys_text(const Entity& entity) {
  std::string out;
  for (const table::Field& key : entity.keys) {
    out.append(out.empty() ? "[" : ", ").append(key.name).append(" ").append(type_name(key.type));
  }
  return out + "]";
}

// Rows are found by their key's bytes: other columns, types or another order find nothing.
Status check_entity_change(const storage::Object& before, const storage::Object& after) {
  const Result<Entity> old = decode_entity(before);
  if (!old.ok()) return {};  // What cannot be read any more cannot be contradicted.
  const Entity next = FALAJ_TRY(decode_entity(after));
  if (old->keys == next.keys) return {};
  return immutable(after, "'keys'", keys_text(*old), keys_text(next));
}

// Segments keep the key columns and feature types they were written with.
Status check_feature_view_change(const storage::Object& before, const storage::Object& after) {
  const Result<FeatureView> old = decode_feature_view(before);
  if (!old.ok()) return {};
  const FeatureView next = FALAJ_TRY(decode_feature_view(after));
  if (old->entity != next.entity) {
    return immutable(after, "'entity'", "\"" + old->entity + "\"", "\"" + next.entity + "\"");
  }
  for (const Feature& was : old->features) {
    for (const Feature& is : next.features) {
      if (is.name != was.name || is.type == was.type) continue;
      return immutable(after, "the type of feature \"" + is.name + "\"",
                       std::string(type_name(was.type)), std::string(type_name(is.type)));
    }
  }
  return {};
}

}  // namespace

Result<Entity> decode_entity(const storage::Object& object) {
  Fields fields(object.spec, where(object));
  Entity entity;
  entity.name = object.name;
  std::vector<std::string> names;
  for (const Value& value : FALAJ_TRY(fields.list("keys"))) {
    entity.keys.push_back(FALAJ_TRY(decode_key(value, where(object))));
    names.push_back(entity.keys.back().name);
  }
  const bool subject_keys = FALAJ_TRY(fields.boolean("subject_keys", false));
  if (subject_keys) entity.row_key = storage::RowKey::kItsOwn;
  FALAJ_TRY(fields.finish());
  if (entity.keys.empty() || entity.keys.size() > 8) {
    return Error(ErrorId::kMissingField, where(object) +
                                             ": 'keys' needs one to eight columns, such as "
                                             "[{name: customer_id, type: int64}]");
  }
  FALAJ_TRY(check_distinct(where(object) + " keys", names));
  return entity;
}

Result<Source> decode_source(const storage::Object& object) {
  Fields fields(object.spec, where(object));
  Source source;
  source.name = object.name;
  const std::string format = FALAJ_TRY(fields.choice("format", {"parquet", "csv", "arrow"}));
  source.format = FALAJ_TRY(table::parse_format(format));
  source.path = FALAJ_TRY(fields.text("path"));
  source.event_time = FALAJ_TRY(fields.required_text("event_time"));
  source.created_time = FALAJ_TRY(fields.text("created_time"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_column(fields.where(), source.event_time));
  if (!source.created_time.empty()) FALAJ_TRY(check_column(fields.where(), source.created_time));
  return source;
}

Result<FeatureView> decode_feature_view(const storage::Object& object) {
  Fields fields(object.spec, where(object));
  FeatureView view;
  view.name = object.name;
  view.entity = FALAJ_TRY(fields.required_text("entity"));
  FALAJ_TRY(check_name("Entity", view.entity));
  view.source = FALAJ_TRY(fields.required_text("source"));
  FALAJ_TRY(check_name("Source", view.source));
  view.ttl = FALAJ_TRY(fields.duration("ttl", Duration{}));
  if (view.ttl < Duration{}) return out_of_range(fields.where() + ": 'ttl' is negative");
  std::vector<std::string> names;
  for (const Value& value : FALAJ_TRY(fields.list("features"))) {
    if (value.has("expr")) {
      view.computed.push_back(FALAJ_TRY(decode_computed(value, fields.where() + " features")));
      names.push_back(view.computed.back().name);
    } else if (value.has("aggregate")) {
      view.aggregated.push_back(FALAJ_TRY(decode_aggregated(value, fields.where() + " features")));
      names.push_back(view.aggregated.back().name);
    } else {
      view.features.push_back(FALAJ_TRY(decode_feature(value, fields.where())));
      names.push_back(view.features.back().name);
    }
  }
  std::vector<std::string> expectations;
  for (const Value& value : FALAJ_TRY(fields.list("expect"))) {
    view.expect.push_back(FALAJ_TRY(decode_row_expectation(value, fields.where())));
    expectations.push_back(view.expect.back().name);
  }
  const bool online = FALAJ_TRY(fields.boolean("online", true));
  view.online = online ? OnlineUse::kOnline : OnlineUse::kOffline;
  const std::string event_id = FALAJ_TRY(fields.text("event_id"));
  view.events_max = FALAJ_TRY(fields.integer("events_max", view.events_max, 1, kEventsMaxMost));
  FALAJ_TRY(decode_sensitivity(fields));  // Both are kept by ViewCare.
  FALAJ_TRY(decode_arrival(fields));
  FALAJ_TRY(fields.finish());
  if (view.features.empty() || view.features.size() > kFeaturesMax) {
    return Error(ErrorId::kMissingField,
                 fields.where() + ": 'features' needs one to 4096 of {name, type}");
  }
  FALAJ_TRY(settle_aggregates(fields.where(), event_id, view));
  FALAJ_TRY(check_distinct(fields.where() + " features", names));
  if (view.expect.size() > kExpectationsMax) {
    return out_of_range(fields.where() + ": 'expect' takes up to 256 expectations");
  }
  FALAJ_TRY(check_distinct(fields.where() + " expect", expectations));
  return view;
}

Result<FeatureService> decode_feature_service(const storage::Object& object) {
  Fields fields(object.spec, where(object));
  FeatureService service;
  service.name = object.name;
  std::vector<std::string> names;
  for (const Value& value : FALAJ_TRY(fields.list("features"))) {
    service.views.push_back(FALAJ_TRY(decode_service_view(value, fields.where())));
    const ServiceView& view = service.views.back();
    names.push_back(view.as.empty() ? view.view : view.as);
  }
  std::vector<std::string> computed;
  for (const Value& value : FALAJ_TRY(fields.list("on_demand"))) {
    service.on_demand.push_back(FALAJ_TRY(decode_computed(value, fields.where() + " on_demand")));
    computed.push_back(service.on_demand.back().name);
  }
  const bool full = FALAJ_TRY(fields.boolean("full_names", false));
  service.names = full ? NameStyle::kFull : NameStyle::kBare;
  FALAJ_TRY(fields.finish());
  if (service.views.empty() || service.views.size() > kFeaturesMax) {
    return Error(ErrorId::kMissingField, fields.where() + ": 'features' names no feature view");
  }
  FALAJ_TRY(check_distinct(fields.where() + " features", names));
  FALAJ_TRY(check_distinct(fields.where() + " on_demand", computed));
  if (computed.size() > kFeaturesMax) {
    return out_of_range(fields.where() + ": 'on_demand' takes up to 4096 features");
  }
  return service;
}

Result<TrainingSetSpec> decode_training_set(const storage::Object& object) {
  Fields fields(object.spec, where(object));
  TrainingSetSpec spec;
  spec.name = object.name;
  spec.service = FALAJ_TRY(fields.required_text("service"));
  FALAJ_TRY(check_name("FeatureService", spec.service));
  const Value spine = FALAJ_TRY(fields.object("spine"));
  FALAJ_TRY(decode_spine(spine, fields.where(), spec));
  FALAJ_TRY(decode_known_at(fields, spec));
  const Value split = FALAJ_TRY(fields.object("split"));
  FALAJ_TRY(decode_split(split, fields.where(), spec));
  const std::string later =
      FALAJ_TRY(fields.choice("created_later", {"mark", "refuse", "leave_out"}));
  if (later == "refuse") spec.created_later = CreatedLater::kRefuse;
  if (later == "leave_out") spec.created_later = CreatedLater::kLeaveOut;
  FALAJ_TRY(fields.text("purpose"));  // Compared with the project's by the catalog.
  FALAJ_TRY(fields.finish());
  return spec;
}

const AggregatedFeature* find_aggregated(const FeatureView& view, std::string_view name) {
  const auto found = std::find_if(view.aggregated.begin(), view.aggregated.end(),
                                  [&](const AggregatedFeature& each) { return each.name == name; });
  return found == view.aggregated.end() ? nullptr : &*found;
}

std::vector<storage::KindInfo> kinds() {
  using storage::Scope;
  return {
      {"Entity", Scope::kProject, "What features are about: its key columns.", check_entity,
       check_entity_change},
      {"Source", Scope::kProject, "Where rows come from, and which columns tell their times.",
       check_source},
      {"FeatureView", Scope::kProject, "Features of one entity from one source, with expectations.",
       check_feature_view, check_feature_view_change, view_beside_its_source},
      {"FeatureService",
       Scope::kProject,
       "The features that a model takes, in order.",
       check_feature_service,
       {},
       service_beside_its_views},
      {"TrainingSet",
       Scope::kProject,
       "Labels joined with a service's features as they were known.",
       check_training_set,
       {},
       set_beside_its_service},
  };
}

}  // namespace falaj::features
