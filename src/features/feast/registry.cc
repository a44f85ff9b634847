#include "features/feast/registry.h"

#include <limits>
#include <utility>

#include "base/json.h"
#include "onnx/wire.h"

namespace falaj::features::feast {
namespace {

using onnx::WireField;

constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kBytes = 2;
constexpr std::size_t kObjectsMax = 1'000'000;

Error damaged(const std::string& what) {
  return Error(ErrorId::kMalformedTable, "this is no registry of Feast: " + what);
}

// Calls `use` for every field of a message; what it does not know it ignores.
template <class Use>
Status each_field(std::string_view message, Use use) {
  onnx::WireReader reader(message);
  while (true) {
    const Result<std::optional<WireField>> field = reader.next();
    if (!field.ok()) return damaged("its bytes cannot be read as a message");
    if (!field->has_value()) return {};
    FALAJ_TRY(use(**field));
  }
}

Status take_text(const WireField& field, std::string& out) {
  if (field.type != kBytes) return damaged("a text has another type");
  if (!is_valid_utf8(field.bytes)) return damaged("a text is not UTF-8");
  out = std::string(field.bytes);
  return {};
}

Status take_message(const WireField& field) {
  return field.type == kBytes ? Status{} : Status(damaged("a message has another type"));
}

Status take_number(const WireField& field, std::uint64_t& out) {
  if (field.type != kVarint) return damaged("a number has another type");
  out = field.integer;
  return {};
}

Status take_type(const WireField& field, std::uint32_t& out) {
  std::uint64_t number = 0;
  FALAJ_TRY(take_number(field, number));
  if (number > std::numeric_limits<std::int32_t>::max()) return damaged("a type is out of range");
  out = static_cast<std::uint32_t>(number);
  return {};
}

Status take_flag(const WireField& field, bool& out) {
  std::uint64_t number = 0;
  FALAJ_TRY(take_number(field, number));
  out = number != 0;
  return {};
}

// An entry of a map of texts.
Status take_pair(const WireField& field, std::map<std::string, std::string>& out) {
  FALAJ_TRY(take_message(field));
  std::string key;
  std::string value;
  FALAJ_TRY(each_field(field.bytes, [&](const WireField& part) -> Status {
    if (part.number == 1) return take_text(part, key);
    return part.number == 2 ? take_text(part, value) : Status{};
  }));
  out[key] = value;
  return {};
}

// Owner and description; a tag of that name wins.
Status take_label(const WireField& field, const char* name, Labels& out) {
  std::string text;
  FALAJ_TRY(take_text(field, text));
  if (!text.empty()) out.emplace(name, text);
  return {};
}

Status take_duration(const WireField& field, Duration& out) {
  FALAJ_TRY(take_message(field));
  std::uint64_t seconds = 0;
  std::uint64_t nanos = 0;
  FALAJ_TRY(each_field(field.bytes, [&](const WireField& part) -> Status {
    if (part.number == 1) return take_number(part, seconds);
    return part.number == 2 ? take_number(part, nanos) : Status{};
  }));
  if (seconds > 9'000'000'000 || nanos > 999'999'999) {
    return damaged("a time to live is negative or over 285 years");
  }
  out = Duration{static_cast<std::int64_t>(seconds * 1'000'000'000 + nanos)};
  return {};
}

// A feature, or a key column.
Status take_field(const WireField& field, std::vector<FeastField>& out) {
  FALAJ_TRY(take_message(field));
  FeastField& added = out.emplace_back();
  return each_field(field.bytes, [&](const WireField& part) -> Status {
    if (part.number == 1) return take_text(part, added.name);
    return part.number == 2 ? take_type(part, added.type) : Status{};
  });
}

std::string technology_of(std::uint32_t type) {
  switch (type) {
    case 1:
      return "files";
    case 2:
      return "BigQuery";
    case 3:
      return "Kafka";
    case 4:
      return "Kinesis";
    case 5:
      return "Redshift";
    case 7:
      return "requests";
    case 8:
      return "Snowflake";
    case 9:
      return "pushes";
    case 10:
      return "Trino";
    case 11:
      return "Spark";
    case 12:
      return "Athena";
    case 13:
      return "Iceberg";
    default:
      return "a store of its own";
  }
}

Status take_file(const WireField& field, FeastSource& out) {
  FALAJ_TRY(take_message(field));
  return each_field(field.bytes, [&](const WireField& part) -> Status {
    if (part.number == 2) return take_text(part, out.path);
    if (part.number != 1) return {};
    FALAJ_TRY(take_message(part));
    return each_field(part.bytes, [&](const WireField& format) -> Status {
      if (format.number == 2) out.technology = "Delta";
      return {};
    });
  });
}

Status take_source(const WireField& field, std::optional<FeastSource>& into) {
  FALAJ_TRY(take_message(field));
  FeastSource out;
  std::uint32_t type = 0;
  FALAJ_TRY(each_field(field.bytes, [&](const WireField& part) -> Status {
    switch (part.number) {
      case 1:
        return take_type(part, type);
      case 2:
        return take_pair(part, out.renamed);
      case 3:
        return take_text(part, out.event_time);
      case 5:
        return take_text(part, out.created_time);
      case 11:
        return take_file(part, out);
      case 20:
        return take_text(part, out.name);
      default:
        return {};
    }
  }));
  const bool delta = out.technology == "Delta";
  out.kind = type == 1 && !delta ? SourceKind::kFile
             : type == 9         ? SourceKind::kPush
                                 : SourceKind::kElsewhere;
  if (!delta) out.technology = technology_of(type);
  into = std::move(out);
  return {};
}

Status take_entity(std::string_view spec, FeastEntity& out) {
  return each_field(spec, [&](const WireField& part) -> Status {
    switch (part.number) {
      case 1:
        return take_text(part, out.name);
      case 2:
        return take_type(part, out.type);
      case 3:
        return take_label(part, "description", out.labels);
      case 4:
        return take_text(part, out.join_key);
      case 8:
        return take_pair(part, out.labels);
      case 9:
        return take_text(part, out.project);
      case 10:
        return take_label(part, "owner", out.labels);
      default:
        return {};
    }
  });
}

Status take_view_part(const WireField& part, FeastView& out) {
  switch (part.number) {
    case 1:
      return take_text(part, out.name);
    case 2:
      return take_text(part, out.project);
    case 3:
      return take_text(part, out.entities.emplace_back());
    case 4:
      return take_field(part, out.features);
    case 5:
      return take_pair(part, out.labels);
    case 6:
      return take_duration(part, out.ttl);
    case 7:
      return take_source(part, out.batch);
    case 8:
      return take_flag(part, out.online);
    case 9:
      return take_source(part, out.stream);
    case 10:
      return take_label(part, "description", out.labels);
    case 11:
      return take_label(part, "owner", out.labels);
    case 12:
      return take_field(part, out.keys);
    case 14:
    case 15:
      out.has_code = true;
      return {};
    case 20:
      return take_flag(part, out.disabled);
    default:
      return {};
  }
}

Status take_projection(const WireField& field, std::vector<FeastProjection>& out) {
  FALAJ_TRY(take_message(field));
  FeastProjection& added = out.emplace_back();
  return each_field(field.bytes, [&](const WireField& part) -> Status {
    switch (part.number) {
      case 1:
        return take_text(part, added.view);
      case 2: {
        std::vector<FeastField> feature;
        FALAJ_TRY(take_field(part, feature));
        added.features.push_back(std::move(feature[0].name));
        return {};
      }
      case 3:
        return take_text(part, added.alias);
      case 4:
        return take_pair(part, added.keys);
      default:
        return {};
    }
  });
}

Status take_service(std::string_view spec, FeastService& out) {
  return each_field(spec, [&](const WireField& part) -> Status {
    switch (part.number) {
      case 1:
        return take_text(part, out.name);
      case 2:
        return take_text(part, out.project);
      case 3:
        return take_projection(part, out.views);
      case 4:
        return take_pair(part, out.labels);
      case 5:
        return take_label(part, "description", out.labels);
      case 6:
        return take_label(part, "owner", out.labels);
      default:
        return {};
    }
  });
}

// Most objects are {spec: 1, meta: 2} with {name: 1, project: 2} in the spec; a validation
// reference has name and project (3) itself.
Status take_other(std::string_view object, const char* kind, FeastOther& out) {
  out.kind = kind;
  const bool bare = out.kind == "ValidationReference";
  const std::uint32_t project = bare ? 3 : 2;
  const auto names = [&](const WireField& part) -> Status {
    if (part.number == 1) return take_text(part, out.name);
    return part.number == project ? take_text(part, out.project) : Status{};
  };
  if (bare) return each_field(object, names);
  return each_field(object, [&](const WireField& part) -> Status {
    if (part.number != 1) return {};
    FALAJ_TRY(take_message(part));
    return each_field(part.bytes, names);
  });
}

// The specification (1) of an object.
Result<std::string_view> spec_of(const WireField& object) {
  std::string_view spec;
  FALAJ_TRY(each_field(object.bytes, [&](const WireField& part) -> Status {
    if (part.number != 1) return {};
    FALAJ_TRY(take_message(part));
    spec = part.bytes;
    return {};
  }));
  return spec;
}

const char* other_kind(std::uint32_t number) {
  switch (number) {
    case 2:
      return "FeatureTable";
    case 8:
      return "OnDemandFeatureView";
    case 11:
      return "SavedDataset";
    case 13:
      return "ValidationReference";
    case 14:
      return "StreamFeatureView";
    case 16:
      return "Permission";
    case 19:
      return "LabelView";
    default:
      return nullptr;
  }
}

Status take_object(const WireField& field, FeastRegistry& out) {
  const char* const other = other_kind(field.number);
  const bool known = field.number == 1 || field.number == 6 || field.number == 7;
  if (other == nullptr && !known) return {};
  FALAJ_TRY(take_message(field));
  if (other != nullptr) return take_other(field.bytes, other, out.others.emplace_back());
  const std::string_view spec = FALAJ_TRY(spec_of(field));
  if (field.number == 1) return take_entity(spec, out.entities.emplace_back());
  if (field.number == 7) return take_service(spec, out.services.emplace_back());
  FeastView& view = out.views.emplace_back();
  return each_field(spec, [&](const WireField& part) { return take_view_part(part, view); });
}

}  // namespace

std::string value_type_name(std::uint32_t type) {
  static constexpr std::pair<std::uint32_t, const char*> kNames[] = {
      {0, "no type"},         {1, "BYTES"},        {2, "STRING"},          {3, "INT32"},
      {4, "INT64"},           {5, "DOUBLE"},       {6, "FLOAT"},           {7, "BOOL"},
      {8, "TIMESTAMP"},       {11, "BYTES_LIST"},  {12, "STRING_LIST"},    {13, "INT32_LIST"},
      {14, "INT64_LIST"},     {15, "DOUBLE_LIST"}, {16, "FLOAT_LIST"},     {17, "BOOL_LIST"},
      {18, "TIMESTAMP_LIST"}, {20, "MAP"},         {32, "JSON"},           {34, "STRUCT"},
      {36, "UUID"},           {44, "DECIMAL"},     {48, "ZONED_TIMESTAMP"}};
  for (const auto& [number, name] : kNames) {
    if (number == type) return name;
  }
  return "type " + std::to_string(type);
}

Result<FeastRegistry> read_registry(std::string_view bytes) {
  FeastRegistry out;
  FALAJ_TRY(each_field(bytes, [&](const WireField& field) -> Status {
    const std::size_t objects =
        out.entities.size() + out.views.size() + out.services.size() + out.others.size();
    if (objects > kObjectsMax) return damaged("it has over a million objects");
    return take_object(field, out);
  }));
  return out;
}

}  // namespace falaj::features::feast
