#include "features/infer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "base/decode.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::size_t kDomainMax = 20;
constexpr std::size_t kRowsEachMin = 20;

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

Status check_column(const Batch& sample, const std::string& name) {
  if (sample.schema.find(name)) return {};
  std::vector<std::string> names;
  for (const table::Field& field : sample.schema.fields) names.push_back(field.name);
  return Error(ErrorId::kSchemaMismatch,
               "the file has no column \"" + name + "\"; it has " + listed(names));
}

bool may_be_key(const table::Field& field) {
  const bool named = field.name == "id" || field.name.ends_with("_id");
  return named && (field.type == Type::kInt64 || field.type == Type::kString);
}

Result<std::vector<std::string>> keys_of(const Batch& sample, const InferOptions& options) {
  for (const std::string& key : options.keys) FALAJ_TRY(check_column(sample, key));
  if (!options.keys.empty()) return options.keys;
  std::vector<std::string> found;
  for (const table::Field& field : sample.schema.fields) {
    if (may_be_key(field)) found.push_back(field.name);
  }
  if (found.size() == 1) return found;
  return Error(ErrorId::kSchemaMismatch,
               found.empty() ? "no column is called like a key: name it with --key"
                             : "several columns are called like a key: name one or more of " +
                                   listed(found) + " with --key");
}

Result<std::string> event_time_of(const Batch& sample, const InferOptions& options) {
  if (!options.event_time.empty()) {
    FALAJ_TRY(check_column(sample, options.event_time));
    return options.event_time;
  }
  std::vector<std::string> found;
  for (const table::Field& field : sample.schema.fields) {
    if (field.type != Type::kTimestamp || field.name == options.created_time) continue;
    if (field.name == "event_timestamp" || field.name == "event_time") return field.name;
    found.push_back(field.name);
  }
  if (found.size() == 1) return found[0];
  return Error(ErrorId::kSchemaMismatch, found.empty()
                                             ? "no column holds times: name it with --event-time"
                                             : "several columns hold times: name one of " +
                                                   listed(found) + " with --event-time");
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", std::ceil(share * 1000) / 10);
  return text;
}

bool is_missing(const Column& column, std::size_t row) {
  return column.is_null(row) ||
         (column.type() == Type::kFloat64 && std::isnan(column.doubles()[row]));
}

Value expectation_of(const Column& column) {
  const auto rows = static_cast<double>(column.size());
  double missing = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (is_missing(column, i)) {
      ++missing;
      continue;
    }
    least = std::min(least, column.number_at(i));
    most = std::max(most, column.number_at(i));
  }
  Value out = Value::object();
  // Three standard deviations, and three rows, since none in n may still be 3 in n.
  const double share = missing / rows;
  const double bound = share + 3 * std::sqrt(share * (1 - share) / rows) + 3 / rows;
  if (bound < 1) out["nulls_max"] = percent_text(bound);
  const bool number = column.type() == Type::kInt64 || column.type() == Type::kFloat64;
  if (number && least >= 0 && least <= most) {
    out["min"] = 0;
    if (column.type() == Type::kFloat64 && most <= 1) out["max"] = 1;
  }
  if (!out.as_object().empty()) out["severity"] = "warn";
  return out;
}

std::string quoted(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    out += c;
    if (c == quote) out += c;
  }
  return out + quote;
}

// A name as an expression writes it.
std::string column_text(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  const bool letter = !name.empty() && (name[0] < '0' || name[0] > '9');
  static const std::set<std::string_view> kWords{"and", "or",   "not",  "in",
                                                 "is",  "null", "true", "false"};
  return plain && letter && !kWords.contains(name) ? name : quoted(name, '`');
}

// "" when the values are too many to be a list of all there are.
std::string domain_of(const std::string& name, const Column& column) {
  if (column.type() != Type::kString) return {};
  std::set<std::string_view> values;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column.is_null(i)) continue;
    ++seen;
    values.insert(column.strings()[i]);
    if (values.size() > kDomainMax) return {};
  }
  if (values.empty() || seen < values.size() * kRowsEachMin) return {};
  std::string out = column_text(name) + " in (";
  for (const std::string_view value : values) {
    out.append(out.back() == '(' ? "" : ", ").append(quoted(value, '\''));
  }
  return out + ")";
}

Value object_of(const std::string& kind, const std::string& name) {
  Value out = Value::object();
  out["kind"] = kind;
  out["metadata"]["name"] = name;
  return out;
}

Value field_of(const table::Field& field) {
  Value out = Value::object();
  out["name"] = field.name;
  out["type"] = table::type_name(field.type);
  return out;
}

Value view_of(const Batch& sample, const InferOptions& options, const std::string& entity,
              const std::set<std::string>& taken) {
  Value view = object_of("FeatureView", options.name);
  Value& spec = view["spec"];
  spec["entity"] = entity;
  spec["source"] = options.name + "_source";
  spec["features"] = Value::array();
  for (std::size_t i = 0; i < sample.columns.size(); ++i) {
    const table::Field& field = sample.schema.fields[i];
    if (taken.contains(field.name)) continue;
    Value feature = field_of(field);
    Value expect = expectation_of(sample.columns[i]);
    if (!expect.as_object().empty()) feature["expect"] = std::move(expect);
    spec["features"].push(std::move(feature));
    const std::string domain = domain_of(field.name, sample.columns[i]);
    if (domain.empty()) continue;
    Value known = Value::object();
    known["name"] = "known " + field.name;
    known["expr"] = domain;
    known["severity"] = "warn";
    spec["expect"].push(std::move(known));
  }
  return view;
}

}  // namespace

Result<std::vector<Value>> infer_objects(const Batch& sample, const InferOptions& options) {
  FALAJ_TRY(check_name("FeatureView", options.name));
  if (sample.rows() == 0) return Error(ErrorId::kAllRowsRejected, "the sample has no row");
  const std::vector<std::string> keys = FALAJ_TRY(keys_of(sample, options));
  const std::string event_time = FALAJ_TRY(event_time_of(sample, options));
  if (!options.created_time.empty()) FALAJ_TRY(check_column(sample, options.created_time));
  std::string name = options.entity;
  if (name.empty())
    name = keys[0].ends_with("_id") ? keys[0].substr(0, keys[0].size() - 3) : keys[0];
  FALAJ_TRY(check_name("Entity", name));

  Value entity = object_of("Entity", name);
  std::set<std::string> taken{event_time, options.created_time};
  for (const std::string& key : keys) {
    const table::Field& field = sample.schema.fields[*sample.schema.find(key)];
    if (field.type != Type::kInt64 && field.type != Type::kString) {
      return Error(ErrorId::kSchemaMismatch, "key \"" + key + "\" is " +
                                                 std::string(table::type_name(field.type)) +
                                                 ": a key is int64 or string");
    }
    entity["spec"]["keys"].push(field_of(field));
    taken.insert(key);
  }
  Value source = object_of("Source", options.name + "_source");
  source["spec"]["format"] = options.format;
  source["spec"]["path"] = options.path;
  source["spec"]["event_time"] = event_time;
  if (!options.created_time.empty()) source["spec"]["created_time"] = options.created_time;
  Value view = view_of(sample, options, name, taken);
  if (view["spec"]["features"].as_array().empty()) {
    return Error(ErrorId::kSchemaMismatch,
                 "the file has keys and times, but no column that could be a feature");
  }
  std::vector<Value> out;
  out.push_back(std::move(entity));
  out.push_back(std::move(source));
  out.push_back(std::move(view));
  return out;
}

}  // namespace falaj::features
