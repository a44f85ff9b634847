#include "features/internal/spine.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "features/internal/view_rows.h"
#include "table/io.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

Error invalid(const std::string& text) { return Error(ErrorId::kSpineInvalid, "spine: " + text); }

Status check_label(const std::string& name, Type type) {
  if (type == Type::kInt64 || type == Type::kFloat64 || type == Type::kBool) return {};
  return invalid("label \"" + name + "\" is " + std::string(type_name(type)) +
                 ": a model learns a number, declare int64, float64 or bool");
}

// Rows of the period, each with a label.
Result<Spine> finish(Batch rows, const SpineRequest& request) {
  const std::size_t keys = request.keys.size();
  const Column& time = rows.columns[keys];
  std::vector<std::uint32_t> inside;
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    const Timestamp at{time.ints()[row]};
    // A row without a time is outside every period, but belongs to an unlimited one.
    const bool unlimited = request.from == Timestamp::min() && request.to == Timestamp::max();
    const bool within = time.is_null(row) ? unlimited : at >= request.from && at < request.to;
    if (within || unlimited) inside.push_back(static_cast<std::uint32_t>(row));
  }
  if (inside.empty()) {
    return invalid("no row has " + to_rfc3339(request.from) + " ≤ " + request.time_column + " < " +
                   to_rfc3339(request.to) + ": ingest labels, or widen the period");
  }
  Spine out{inside.size() == rows.rows() ? std::move(rows) : rows.take(inside), keys};
  if (const std::size_t missing = out.label().null_count(); missing > 0) {
    return invalid(std::to_string(missing) + " of " + std::to_string(out.rows.rows()) +
                   " rows have no \"" + request.label +
                   "\": leave them out of the source, or end the period before them");
  }
  return out;
}

// What the file itself says about a wanted column.
Result<table::Field> column_of_file(const table::Schema& found, const table::Field& wanted,
                                    ErrorId when_missing) {
  const auto place = found.find(wanted.name);
  if (!place) {
    return Error(when_missing, "spine: the file has no column \"" + wanted.name + "\"");
  }
  return table::Field{wanted.name, found.fields[*place].type};
}

// Where a key or the label stands among a view's columns.
Result<std::size_t> column_of_view(const table::Schema& schema, const table::Field& wanted,
                                   const ViewDefinition& view) {
  const auto place = schema.find(wanted.name);
  if (!place) {
    return Error(ErrorId::kEntityKeyMissing,
                 "spine: FeatureView " + view.view.name + " has no column \"" + wanted.name +
                     "\": it must be a key of its entity or one of its features");
  }
  if (schema.fields[*place].type == wanted.type) return *place;
  return invalid("column \"" + wanted.name + "\" of FeatureView " + view.view.name + " is " +
                 std::string(type_name(schema.fields[*place].type)) + ", but the key is " +
                 std::string(type_name(wanted.type)));
}

// Features of the label view that the spine needs: keys of other entities, and the label.
Result<std::vector<table::Field>> needed_features(const ViewDefinition& view,
                                                  const SpineRequest& request) {
  std::vector<table::Field> out;
  bool has_label = false;
  for (const Feature& feature : view.view.features) {
    const bool is_key =
        std::any_of(request.keys.begin(), request.keys.end(),
                    [&](const table::Field& key) { return key.name == feature.name; });
    const bool is_label = feature.name == request.label;
    has_label |= is_label;
    if (is_label) FALAJ_TRY(check_label(feature.name, feature.type));
    if (is_key || is_label) out.push_back({feature.name, feature.type});
  }
  if (!has_label) {
    return invalid("FeatureView " + view.view.name + " has no feature \"" + request.label +
                   "\" to be the label");
  }
  return out;
}

std::vector<std::uint32_t> by_time(const ViewRows& rows) {
  std::vector<std::uint32_t> order(rows.versions().size());
  std::iota(order.begin(), order.end(), 0u);
  // Versions ascend by key, event, created, sequence: a stable sort keeps that among equal times.
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return rows.versions()[a].event < rows.versions()[b].event;
  });
  for (std::uint32_t& row : order) row = rows.origin(row);
  return order;
}

template <class T>
void hash_values(Sha256Hasher& hasher, const std::vector<T>& values) {
  hasher.update(std::as_bytes(std::span(values)));
}

}  // namespace

Spine Spine::part(std::size_t first, std::size_t count) const {
  std::vector<std::uint32_t> wanted(count);
  std::iota(wanted.begin(), wanted.end(), static_cast<std::uint32_t>(first));
  return {rows.take(wanted), key_count};
}

Result<Spine> spine_of_file(const ByteReader& file, table::Format format,
                            const SpineRequest& request) {
  const Result<table::Schema> found = table::read_schema(file, format);
  if (!found.ok()) return invalid(found.error().message);
  table::ReadOptions options;
  for (const table::Field& key : request.keys) {
    FALAJ_TRY(column_of_file(*found, key, ErrorId::kEntityKeyMissing));
    options.schema.fields.push_back(key);
  }
  const table::Field time{request.time_column, Type::kTimestamp};
  FALAJ_TRY(column_of_file(*found, time, ErrorId::kSpineInvalid));
  options.schema.fields.push_back(time);
  const table::Field label =
      FALAJ_TRY(column_of_file(*found, {request.label, Type::kFloat64}, ErrorId::kSpineInvalid));
  FALAJ_TRY(check_label(label.name, label.type));
  options.schema.fields.push_back(label);
  Result<Batch> rows = table::read_all(file, format, options);
  if (!rows.ok()) return invalid(rows.error().message);
  return finish(std::move(rows).value(), request);
}

Result<Spine> spine_of_view(const storage::BlobStore& blobs, const ViewDefinition& view,
                            const std::vector<Segment>& segments, const SpineRequest& request) {
  const std::vector<table::Field> features = FALAJ_TRY(needed_features(view, request));
  const ViewRows loaded = FALAJ_TRY(ViewRows::load(blobs, view, segments, features));
  const Batch sorted = loaded.rows().take(by_time(loaded));
  Batch rows;
  for (const table::Field& key : request.keys) {
    const std::size_t place = FALAJ_TRY(column_of_view(sorted.schema, key, view));
    FALAJ_TRY(rows.add(key, sorted.columns[place]));
  }
  FALAJ_TRY(rows.add({request.time_column, Type::kTimestamp}, *sorted.find(kEventColumn)));
  const Column& label = *sorted.find(request.label);
  FALAJ_TRY(rows.add({request.label, label.type()}, label));
  return finish(std::move(rows), request);
}

std::string hash_rows(const Batch& rows) {
  Sha256Hasher hasher;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const Column& column = rows.columns[i];
    hasher.update(rows.schema.fields[i].name + "\n" + std::string(type_name(column.type())) + "\n" +
                  std::to_string(column.size()) + "\n");
    std::vector<std::uint8_t> nulls(column.size());
    for (std::size_t row = 0; row < column.size(); ++row) nulls[row] = column.is_null(row) ? 1 : 0;
    hash_values(hasher, nulls);
    switch (column.type()) {
      case Type::kInt64:
      case Type::kTimestamp:
        hash_values(hasher, column.ints());
        break;
      case Type::kFloat64:
        hash_values(hasher, column.doubles());
        break;
      case Type::kBool:
        hash_values(hasher, column.bools());
        break;
      case Type::kString:
        hash_values(hasher, column.strings().offsets());
        hasher.update(column.strings().bytes());
        break;
    }
  }
  return hasher.finish().hex();
}

}  // namespace falaj::features
