#include "api/feast/feast_codec.h"

#include <algorithm>

#include "api/native/entity_json.h"
#include "api/native/online_codec.h"
#include "base/json.h"

namespace falaj::api {
namespace {

namespace dom = simdjson::dom;
using features::FeatureStatus;
using features::KeyPart;

constexpr std::string_view kEpoch = "\"1970-01-01T00:00:00Z\"";

Error wrong(const std::string& what) { return Error{ErrorId::kWrongType, what}; }
Error too_many(const std::string& what, std::size_t most) {
  return Error{ErrorId::kOutOfRange,
               "over " + std::to_string(most) + " " + what + ": split the request"};
}

Status parse_features(dom::element element, FeastRead& into) {
  dom::array list;
  if (element.get(list) != simdjson::SUCCESS) return wrong("features must be a list of texts");
  for (const dom::element item : list) {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) return wrong("features must be a list of texts");
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return Error{ErrorId::kOutOfRange, "feature '" + std::string(text.substr(0, 128)) +
                                             "' must be written as view:feature"};
    }
    if (into.features.size() == FeastRead::kFeaturesMax) {
      return too_many("features", FeastRead::kFeaturesMax);
    }
    into.features.push_back(
        {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))});
  }
  return {};
}

Status parse_column(std::string_view name, dom::element element, FeastRead& into) {
  dom::array list;
  if (element.get(list) != simdjson::SUCCESS) {
    return wrong("entities: '" + std::string(name) + "' must be a list of ids");
  }
  FeastRead::Column column;
  column.name = name;
  for (const dom::element item : list) {
    if (column.values.size() == FeastRead::kRowsMax) {
      return too_many("rows of entities", FeastRead::kRowsMax);
    }
    std::int64_t number = 0;
    std::string_view text;
    if (item.get(number) == simdjson::SUCCESS) {
      column.values.emplace_back(number);
    } else if (item.get(text) == simdjson::SUCCESS) {
      column.values.emplace_back(std::string(text));
    } else {
      return wrong("entities: '" + std::string(name) + "' must be whole numbers or texts");
    }
  }
  if (!into.entities.empty() && column.values.size() != into.rows) {
    return Error{ErrorId::kOutOfRange, "entities: all columns must have the same length"};
  }
  into.rows = column.values.size();
  into.entities.push_back(std::move(column));
  return {};
}

Status parse_entities(dom::element element, FeastRead& into) {
  dom::object columns;
  if (element.get(columns) != simdjson::SUCCESS) {
    return wrong("entities must be an object of join key: ids");
  }
  for (const dom::key_value_pair member : columns) {
    if (into.entities.size() == FeastRead::kColumnsMax) {
      return too_many("columns of entities", FeastRead::kColumnsMax);
    }
    FALAJ_TRY(parse_column(member.key, member.value, into));
  }
  return {};
}

Status parse_member(dom::key_value_pair member, FeastRead& into) {
  if (member.key == "features") {
    return member.value.is_null() ? Status() : parse_features(member.value, into);
  }
  if (member.key == "entities") return parse_entities(member.value, into);
  if (member.key == "feature_service" && !member.value.is_null()) {
    std::string_view name;
    if (member.value.get(name) != simdjson::SUCCESS) return wrong("feature_service must be a text");
    into.service = name;
  }
  if (member.key == "full_feature_names") {
    bool full = false;
    if (member.value.get(full) != simdjson::SUCCESS) {
      return wrong("full_feature_names must be true or false");
    }
    into.names = full ? features::NameStyle::kFull : features::NameStyle::kBare;
  }
  return {};
}

void append_part(std::string& out, const KeyPart& part) {
  if (const auto* number = std::get_if<std::int64_t>(&part)) {
    out += std::to_string(*number);
  } else {
    append_json_string(out, std::get<std::string>(part));
  }
}

// [item(0), item(1), …]
template <class Item>
void append_list(std::string& out, std::size_t count, const Item& item) {
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    item(i);
  }
  out += ']';
}

// Those that the plan looks at; others are left out, as there.
std::vector<const FeastRead::Column*> join_keys(const FeastRead& request,
                                                const features::OnlinePlan& plan) {
  std::vector<const FeastRead::Column*> out;
  for (const FeastRead::Column& column : request.entities) {
    if (table::Schema{plan.keys}.find(column.name)) out.push_back(&column);
  }
  return out;
}

void append_key(std::string& out, const FeastRead::Column& column) {
  out += "{\"values\":";
  append_list(out, column.values.size(),
              [&](std::size_t row) { append_part(out, column.values[row]); });
  out += ",\"statuses\":";
  append_list(out, column.values.size(), [&](std::size_t) { out += "\"PRESENT\""; });
  out += ",\"event_timestamps\":";
  append_list(out, column.values.size(), [&](std::size_t) { out += kEpoch; });
  out += '}';
}

struct Shown {
  std::size_t column;
  std::size_t view;
  table::Type type;
};

void append_feature(std::string& out, std::size_t rows, const Shown& shown,
                    const features::OnlineAnswer& answer) {
  const auto cell = [&](std::size_t row) { return row * answer.columns + shown.column; };
  out += "{\"values\":";
  append_list(out, rows, [&](std::size_t row) {
    append_online_value(out, answer, cell(row), shown.type, TimeForm::kUnixSeconds);
  });
  out += ",\"statuses\":";
  append_list(out, rows, [&](std::size_t row) {
    out += '"';
    out += features::status_name(told_status(answer, cell(row), shown.type));
    out += '"';
  });
  out += ",\"event_timestamps\":";
  append_list(out, rows, [&](std::size_t row) {
    const Timestamp event = answer.events[row * answer.views + shown.view];
    if (event == Timestamp::min()) {
      out += kEpoch;
    } else {
      append_json_string(out, to_rfc3339(event));
    }
  });
  out += '}';
}

}  // namespace

Result<FeastRead> parse_feast_read(std::string_view body) {
  dom::object object;
  if (const char* fault = parse_object(body, object)) {
    return Error{ErrorId::kMalformedJson, std::string("body: ") + fault};
  }
  FeastRead out;
  for (const dom::key_value_pair member : object) FALAJ_TRY(parse_member(member, out));
  if (out.entities.empty()) return Error{ErrorId::kMissingField, "entities are missing"};
  if (out.service.empty() == out.features.empty()) {
    return Error{ErrorId::kMissingField, "give either features or a feature_service"};
  }
  return out;
}

FeastViews views_of(const FeastRead& request) {
  FeastViews out;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // View, and feature in it.
  for (const FeastRead::Reference& reference : request.features) {
    auto view = std::find_if(out.views.begin(), out.views.end(),
                             [&](const auto& known) { return known.view == reference.view; });
    if (view == out.views.end()) view = out.views.insert(out.views.end(), {reference.view, {}});
    auto feature = std::find(view->features.begin(), view->features.end(), reference.feature);
    if (feature == view->features.end()) {
      feature = view->features.insert(view->features.end(), reference.feature);
    }
    places.emplace_back(view - out.views.begin(), feature - view->features.begin());
  }
  for (const auto& [view, feature] : places) {
    std::size_t column = feature;
    for (std::size_t before = 0; before < view; ++before) {
      column += out.views[before].features.size();
    }
    out.columns.push_back(column);
  }
  return out;
}

Result<std::vector<KeyPart>> feast_keys(const FeastRead& request,
                                        const features::OnlinePlan& plan) {
  std::vector<KeyPart> keys;
  features::EntityKeys entity;
  for (std::size_t row = 0; row < request.rows; ++row) {
    entity.clear();
    for (const FeastRead::Column& column : request.entities) {
      entity.emplace_back(column.name, column.values[row]);
    }
    FALAJ_TRY(features::append_keys(plan, entity, keys));
  }
  return keys;
}

std::string write_feast_read(const FeastRead& request, const features::OnlinePlan& plan,
                             const std::vector<std::size_t>& columns,
                             const features::OnlineAnswer& answer) {
  const std::vector<const FeastRead::Column*> keys = join_keys(request, plan);
  const bool full = request.names == features::NameStyle::kFull;
  std::string out = "{\"metadata\":{\"feature_names\":";
  out.reserve(256 + (keys.size() + columns.size()) * (64 + request.rows * 48));
  append_list(out, keys.size() + columns.size(), [&](std::size_t i) {
    if (i < keys.size()) return append_json_string(out, keys[i]->name);
    const std::size_t column = columns[i - keys.size()];
    append_json_string(out, full ? plan.full_names[column] : plan.columns[column].name);
  });
  out += "},\"results\":";
  append_list(out, keys.size() + columns.size(), [&](std::size_t i) {
    if (i < keys.size()) return append_key(out, *keys[i]);
    const std::size_t column = columns[i - keys.size()];
    append_feature(out, request.rows, {column, plan.sources[column], plan.columns[column].type},
                   answer);
  });
  out += '}';
  return out;
}

}  // namespace falaj::api
