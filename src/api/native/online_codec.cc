#include "api/native/online_codec.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "api/native/entity_json.h"
#include "base/decode.h"
#include "base/json.h"
#include "base/units.h"

namespace falaj::api {
namespace {

namespace dom = simdjson::dom;
using features::FeatureStatus;
using table::Type;

Error malformed(std::string_view what) {
  return Error{ErrorId::kMalformedJson, "read body: " + std::string(what) +
                                            "; expected {\"entities\": [{\"customer_id\": 42}]}"};
}

Status parse_features(dom::element element, std::vector<std::string>& out) {
  dom::array list;
  if (element.get(list) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, "read body: features must be a list of names"};
  }
  for (const dom::element item : list) {
    std::string_view name;
    if (item.get(name) != simdjson::SUCCESS) {
      return Error{ErrorId::kWrongType, "read body: features must be a list of names"};
    }
    if (out.size() == ReadRequest::kFeaturesMax) {
      return Error{ErrorId::kOutOfRange, "read body: over " +
                                             std::to_string(ReadRequest::kFeaturesMax) +
                                             " features; split the request"};
    }
    out.emplace_back(name);
  }
  return {};
}

Result<Duration> parse_age(dom::element element) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, "read body: max_age must be a duration like \"1h\""};
  }
  const Duration age = FALAJ_TRY(parse_duration(text));
  if (age <= Duration{}) {
    return Error{ErrorId::kOutOfRange, "read body: max_age must be over 0"};
  }
  return age;
}

void append_whole(std::string& out, std::int64_t number) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

void append_names(std::string& out, const features::OnlinePlan& plan,
                  const std::vector<std::size_t>& columns) {
  out += '[';
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, plan.columns[columns[i]].name);
  }
  out += ']';
}

}  // namespace

Status parse_read(std::string_view body, ReadRequest& into) {
  into.features.clear();
  into.max_age = {};
  EntityList entities("read body", into.entities);
  dom::object object;
  if (const char* fault = parse_object(body, object)) return malformed(fault);
  for (const dom::key_value_pair member : object) {
    if (member.key == "entities") {
      FALAJ_TRY(entities.add_all(member.value, ReadRequest::kEntitiesMax));
    } else if (member.key == "features") {
      FALAJ_TRY(parse_features(member.value, into.features));
    } else if (member.key == "max_age") {
      into.max_age = FALAJ_TRY(parse_age(member.value));
    } else {
      return Error{ErrorId::kUnknownField, "read body: unknown member '" + std::string(member.key) +
                                               "'; use entities, features or max_age"};
    }
  }
  if (entities.count() == 0) return malformed("no entity");
  return {};
}

Result<std::vector<std::size_t>> wanted_columns(const ReadRequest& request,
                                                const features::OnlinePlan& plan) {
  std::vector<std::size_t> out;
  if (request.features.empty()) {
    for (std::size_t i = 0; i < plan.columns.size(); ++i) out.push_back(i);
    return out;
  }
  for (const std::string& name : request.features) {
    const auto found =
        std::find_if(plan.columns.begin(), plan.columns.end(),
                     [&](const table::Field& column) { return column.name == name; });
    if (found == plan.columns.end()) {
      std::vector<std::string> names;
      for (const table::Field& column : plan.columns) names.push_back(column.name);
      const std::string near = nearest_name(name, names);
      return Error{ErrorId::kReferenceMissing,
                   "there is no feature \"" + name + "\" to read" +
                       (near.empty() ? std::string() : "; did you mean \"" + near + "\"?")};
    }
    out.push_back(static_cast<std::size_t>(found - plan.columns.begin()));
  }
  return out;
}

FeatureStatus told_status(const features::OnlineAnswer& answer, std::size_t cell, Type type) {
  const FeatureStatus status = answer.statuses[cell];
  if (status == FeatureStatus::kPresent && type == Type::kFloat64 &&
      !std::isfinite(std::bit_cast<double>(answer.words[cell]))) {
    return FeatureStatus::kNullValue;
  }
  return status;
}

void append_online_value(std::string& out, const features::OnlineAnswer& answer, std::size_t cell,
                         Type type, TimeForm times) {
  if (answer.statuses[cell] != FeatureStatus::kPresent) {
    out += "null";
    return;
  }
  const std::uint64_t word = answer.words[cell];
  switch (type) {
    case Type::kBool:
      out += word != 0 ? "true" : "false";
      return;
    case Type::kInt64:
      append_whole(out, static_cast<std::int64_t>(word));
      return;
    case Type::kFloat64:
      append_json_number(out, std::bit_cast<double>(word));
      return;
    case Type::kString:
      append_json_string(out, answer.text(word));
      return;
    case Type::kTimestamp:
      break;
  }
  const Timestamp time{static_cast<std::int64_t>(word)};
  if (times == TimeForm::kRfc3339) {
    append_json_string(out, to_rfc3339(time));
  } else {
    append_whole(out, time.nanos / 1'000'000'000);
  }
}

std::string write_read(const ReadRequest& request, const std::vector<std::size_t>& columns,
                       const OnlineReply& reply) {
  const features::OnlinePlan& plan = reply.plan;
  const features::OnlineAnswer& answer = reply.answer;
  const std::vector<std::size_t>& views = plan.sources;
  std::vector<std::string> times(plan.views.size());
  std::string out;
  out.reserve(128 + request.entities.size() * (64 + columns.size() * 48));
  out += "{\"commit\":";
  append_whole(out, static_cast<std::int64_t>(answer.commit));
  out += ",\"at\":";
  append_json_string(out, to_rfc3339(reply.at));
  out += ",\"features\":";
  append_names(out, plan, columns);
  out += ",\"rows\":[";
  for (std::size_t row = 0; row < request.entities.size(); ++row) {
    if (row > 0) out += ',';
    out += "{\"entity\":";
    append_entity(out, request.entities[row]);
    for (std::size_t view = 0; view < times.size(); ++view) {
      const Timestamp event = answer.events[row * answer.views + view];
      times[view] = event == Timestamp::min() ? "null" : '"' + to_rfc3339(event) + '"';
    }
    const auto list = [&](std::string_view name, const auto& append) {
      out.append(",\"").append(name).append("\":[");
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (i > 0) out += ',';
        append(columns[i], row * answer.columns + columns[i]);
      }
      out += ']';
    };
    list("values", [&](std::size_t column, std::size_t cell) {
      append_online_value(out, answer, cell, plan.columns[column].type, TimeForm::kRfc3339);
    });
    list("statuses", [&](std::size_t column, std::size_t cell) {
      out += '"';
      out += features::status_name(told_status(answer, cell, plan.columns[column].type));
      out += '"';
    });
    list("event_times", [&](std::size_t column, std::size_t) { out += times[views[column]]; });
    out += '}';
  }
  out += "]}";
  return out;
}

}  // namespace falaj::api
