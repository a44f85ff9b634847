// features/testing/join_oracle.h — the point-in-time rule written down as plainly as possible, and
// views to try it on. Slow on purpose: for every spine row it looks at every row of the view.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "features/internal/segment_file.h"
#include "features/internal/segments.h"
#include "features/key.h"
#include "features/point_in_time_join.h"

namespace falaj::features {

// A value of any type; nothing is null.
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

struct PlainRow {
  std::vector<Cell> key;
  std::optional<std::int64_t> event;
  std::optional<std::int64_t> created;
  std::uint64_t commit = 1;
  std::int64_t position = 0;
  std::vector<Cell> features;
};

// A view as a list of rows, in no order.
struct PlainView {
  std::string name;
  std::vector<table::Field> keys;
  std::vector<std::string> columns;
  std::vector<table::Field> features;
  std::int64_t ttl = 0;
  CreatedRule created = CreatedRule::kBreaksTies;
  std::string available_as{};
  std::vector<PlainRow> rows{};
};

inline void push(table::Column& column, const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return column.push_null();
  if (const auto* v = std::get_if<bool>(&cell)) return column.push_bool(*v);
  if (const auto* v = std::get_if<std::int64_t>(&cell)) return column.push_int(*v);
  if (const auto* v = std::get_if<double>(&cell)) return column.push_double(*v);
  column.push_string(std::get<std::string>(cell));
}

inline Cell cell_of(const table::Column& column, std::size_t row) {
  if (column.is_null(row)) return {};
  switch (column.type()) {
    case table::Type::kBool:
      return column.bools()[row] != 0;
    case table::Type::kFloat64:
      return column.doubles()[row];
    case table::Type::kString:
      return std::string(column.strings()[row]);
    case table::Type::kInt64:
    case table::Type::kTimestamp:
      break;
  }
  return column.ints()[row];
}

inline bool has_null(const std::vector<Cell>& key) {
  return std::any_of(key.begin(), key.end(),
                     [](const Cell& part) { return std::holds_alternative<std::monostate>(part); });
}

// Which row of the view a spine row gets, or none.
inline const PlainRow* oracle_winner(const PlainView& view, const std::vector<Cell>& key,
                                     std::optional<std::int64_t> at, std::uint64_t known_at) {
  const PlainRow* best = nullptr;
  for (const PlainRow& row : view.rows) {
    if (row.commit > known_at) continue;
    if (!at || !row.event || has_null(key) || row.key != key) continue;
    if (*row.event > *at) continue;
    // Never negative, and as large as 2^64 − 1.
    const std::uint64_t age =
        static_cast<std::uint64_t>(*at) - static_cast<std::uint64_t>(*row.event);
    if (view.ttl > 0 && age > static_cast<std::uint64_t>(view.ttl)) continue;
    if (view.created == CreatedRule::kKnownByRow && (!row.created || *row.created > *at)) continue;
    const auto rank = [](const PlainRow& r) {
      // No creation time is before every other.
      return std::tuple(*r.event, r.created.has_value(), r.created.value_or(0), r.commit,
                        r.position);
    };
    if (best == nullptr || rank(row) > rank(*best)) best = &row;
  }
  return best;
}

inline table::Batch oracle_join(const table::Batch& spine, const std::string& time_column,
                                const std::vector<PlainView>& views, std::uint64_t known_at) {
  table::Batch out;
  for (const PlainView& view : views) {
    std::vector<table::Column> columns;
    for (const table::Field& feature : view.features) columns.emplace_back(feature.type);
    table::Column available(table::Type::kTimestamp);
    for (std::size_t row = 0; row < spine.rows(); ++row) {
      std::vector<Cell> key;
      for (std::size_t i = 0; i < view.keys.size(); ++i) {
        key.push_back(
            cell_of(*spine.find(view.columns.empty() ? view.keys[i].name : view.columns[i]), row));
      }
      const Cell time = cell_of(*spine.find(time_column), row);
      std::optional<std::int64_t> at;
      if (const auto* nanos = std::get_if<std::int64_t>(&time)) at = *nanos;
      const PlainRow* winner = oracle_winner(view, key, at, known_at);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        push(columns[i], winner == nullptr ? Cell() : winner->features[i]);
      }
      push(available, winner == nullptr ? Cell() : winner->created.value_or(*winner->event));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out.schema.fields.push_back(
          {view.name + "__" + view.features[i].name, view.features[i].type});
      out.columns.push_back(std::move(columns[i]));
    }
    if (view.available_as.empty()) continue;
    out.schema.fields.push_back({view.available_as, table::Type::kTimestamp});
    out.columns.push_back(std::move(available));
  }
  return out;
}

// The rows as Falaj keeps them: one segment for each commit, or `parts` of them, whose positions
// run on from one to the next in every other view and are mixed in the others. Rows without a key
// or an event time never get into a segment.
inline JoinView stored(const PlainView& view, std::size_t block_rows, std::size_t parts = 1) {
  JoinView out{view.name,          view.keys,    view.columns,      {},
               Duration{view.ttl}, view.created, view.available_as, {}};
  for (const table::Field& feature : view.features) {
    out.features.push_back({feature, view.name + "__" + feature.name});
  }
  FeatureView declared;
  for (const table::Field& feature : view.features) {
    declared.features.push_back({feature.name, feature.type, {}});
  }
  Entity entity;
  entity.keys = view.keys;
  const table::Schema schema = segment_schema(declared, entity);
  std::vector<std::pair<std::uint64_t, std::size_t>> groups;
  const auto group_of = [&](const PlainRow& row) {
    const auto position = static_cast<std::size_t>(row.position);
    const std::size_t each = view.rows.size() / parts + 1;
    return std::pair(row.commit, view.rows.size() % 2 == 0 ? position / each : position % parts);
  };
  for (const PlainRow& row : view.rows) groups.push_back(group_of(row));
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const auto& group : groups) {
    table::Batch batch(schema);
    for (const PlainRow& row : view.rows) {
      if (group_of(row) != group || has_null(row.key) || !row.event) continue;
      std::size_t column = 0;
      for (const Cell& part : row.key) push(batch.columns[column++], part);
      push(batch.columns[column++], *row.event);
      push(batch.columns[column++], row.created ? Cell(*row.created) : Cell());
      push(batch.columns[column++], row.position);
      for (const Cell& value : row.features) push(batch.columns[column++], value);
    }
    if (batch.rows() == 0) continue;
    TextWriter writer;
    const Status written = write_segment_file(
        writer, sorted_rows(std::move(batch), view.keys.size()), view.keys.size(), block_rows);
    EXPECT_TRUE(written.ok()) << written.error().message;
    Result<SegmentFile> file = SegmentFile::open(std::make_shared<TextReader>(writer.take()));
    EXPECT_TRUE(file.ok()) << file.error().message;
    out.segments.push_back({std::make_shared<SegmentFile>(std::move(file).value()), group.first});
  }
  return out;
}

// Where two batches differ, "" when they are equal to the bit (a NaN equals itself).
inline std::string difference(const table::Batch& got, const table::Batch& want) {
  if (got.schema != want.schema) return "other columns";
  for (std::size_t i = 0; i < got.columns.size(); ++i) {
    const table::Column& a = got.columns[i];
    const table::Column& b = want.columns[i];
    if (a.size() != b.size()) return "other lengths";
    for (std::size_t row = 0; row < a.size(); ++row) {
      const Cell x = cell_of(a, row);
      const Cell y = cell_of(b, row);
      const auto* p = std::get_if<double>(&x);
      const auto* q = std::get_if<double>(&y);
      const bool same =
          p != nullptr && q != nullptr ? std::memcmp(p, q, sizeof(double)) == 0 : x == y;
      if (!same) return got.schema.fields[i].name + " of row " + std::to_string(row);
    }
  }
  return {};
}

}  // namespace falaj::features
