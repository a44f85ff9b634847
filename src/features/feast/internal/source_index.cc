#include "features/feast/internal/source_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <tuple>

#include "base/time.h"
#include "features/key.h"

namespace falaj::features::feast {
namespace {

using table::Column;
using table::Type;

bool is_nothing(const Cell& cell) {
  return cell.column.is_null(cell.row) ||
         (cell.column.type() == Type::kFloat64 && std::isnan(cell.column.doubles()[cell.row]));
}

// Of bools and numbers.
double number_of(const Cell& cell) {
  switch (cell.column.type()) {
    case Type::kBool:
      return cell.column.bools()[cell.row];
    case Type::kFloat64:
      return cell.column.doubles()[cell.row];
    default:
      return static_cast<double>(cell.column.ints()[cell.row]);
  }
}

Likeness whole_likeness(std::int64_t exact, double theirs) {
  const bool whole = theirs >= -0x1p63 && theirs < 0x1p63 && std::trunc(theirs) == theirs;
  if (whole && static_cast<std::int64_t>(theirs) == exact) return Likeness::kSame;
  return static_cast<double>(exact) == theirs ? Likeness::kRounded : Likeness::kOther;
}

Likeness same_if(bool same) { return same ? Likeness::kSame : Likeness::kOther; }

}  // namespace

Likeness likeness(const Cell& exact, const Cell& theirs, bool single) {
  const bool nothing = is_nothing(exact);
  if (nothing || is_nothing(theirs)) return same_if(nothing && is_nothing(theirs));
  const Type a = exact.column.type();
  const Type b = theirs.column.type();
  if (a == Type::kString || b == Type::kString) {
    return same_if(a == b &&
                   exact.column.strings()[exact.row] == theirs.column.strings()[theirs.row]);
  }
  const bool ints = a == b && (a == Type::kInt64 || a == Type::kTimestamp);
  if (ints) return same_if(exact.column.ints()[exact.row] == theirs.column.ints()[theirs.row]);
  if (a == Type::kTimestamp || b == Type::kTimestamp) return Likeness::kOther;
  if (a == Type::kInt64) return whole_likeness(exact.column.ints()[exact.row], number_of(theirs));
  if (!single) return same_if(number_of(exact) == number_of(theirs));
  return same_if(static_cast<float>(number_of(exact)) == static_cast<float>(number_of(theirs)));
}

std::string cell_text(const Cell& cell) {
  if (cell.column.is_null(cell.row)) return "null";
  switch (cell.column.type()) {
    case Type::kString:
      return std::string(cell.column.strings()[cell.row]);
    case Type::kTimestamp:
      return to_rfc3339(Timestamp{cell.column.ints()[cell.row]});
    case Type::kInt64:
      return std::to_string(cell.column.ints()[cell.row]);
    case Type::kBool:
      return cell.column.bools()[cell.row] != 0 ? "true" : "false";
    case Type::kFloat64:
      break;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", cell.column.doubles()[cell.row]);
  return text;
}

SourceIndex::SourceIndex(const ViewPlan& view, const table::Batch& rows) : view_(view) {
  event_ = rows.find(view.event_time);
  if (!view.created_time.empty()) created_ = rows.find(view.created_time);
  for (const table::Field& feature : view.features) {
    features_.push_back(rows.find(feature.name));
    single_.push_back(std::find(view.singles.begin(), view.singles.end(), feature.name) !=
                      view.singles.end());
  }
  std::vector<const Column*> keys;
  for (const table::Field& key : view.keys) keys.push_back(rows.find(key.name));
  for (std::uint32_t row = 0; row < rows.rows(); ++row) {
    const bool null =
        std::any_of(keys.begin(), keys.end(), [&](const Column* key) { return key->is_null(row); });
    if (!null && !event_->is_null(row)) by_key_[key_of_row(keys, row)].push_back(row);
  }
}

const std::vector<std::uint32_t>& SourceIndex::rows_of(const std::string& key) const {
  static const std::vector<std::uint32_t> kNone;
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? kNone : found->second;
}

std::optional<std::int64_t> SourceIndex::created(std::uint32_t row) const {
  if (created_ == nullptr || created_->is_null(row)) return std::nullopt;
  return created_->ints()[row];
}

bool SourceIndex::within(std::uint32_t row, std::int64_t at) const {
  if (event(row) > at) return false;
  // Never negative, and as large as 2^64 − 1.
  const auto age = static_cast<std::uint64_t>(at) - static_cast<std::uint64_t>(event(row));
  return view_.ttl.nanos == 0 || age <= static_cast<std::uint64_t>(view_.ttl.nanos);
}

std::optional<std::uint32_t> SourceIndex::winner(const std::string& key, std::int64_t at) const {
  std::optional<std::uint32_t> best;
  const auto rank = [this](std::uint32_t row) { return std::tuple(event(row), created(row), row); };
  for (const std::uint32_t row : rows_of(key)) {
    if (within(row, at) && (!best || rank(row) > rank(*best))) best = row;
  }
  return best;
}

bool SourceIndex::same_values(std::uint32_t source, const std::vector<const Column*>& theirs,
                              std::size_t row) const {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Likeness alike = likeness({*features_[i], source}, {*theirs[i], row}, single_[i]);
    if (alike == Likeness::kOther) return false;
  }
  return true;
}

std::uint64_t SourceIndex::hash_of(const std::vector<const Column*>& columns,
                                   std::size_t row) const {
  std::uint64_t out = 0;
  for (const Column* column : columns) {
    const Cell cell{*column, row};
    std::uint64_t one = 1;
    if (is_nothing(cell)) {
      one = 2;
    } else if (column->type() == Type::kString) {
      one = std::hash<std::string_view>{}(column->strings()[row]);
    } else if (column->type() == Type::kTimestamp) {
      one = static_cast<std::uint64_t>(column->ints()[row]);
    } else {
      one = std::bit_cast<std::uint32_t>(static_cast<float>(number_of(cell)));
    }
    out = (out ^ one) * 0x9E3779B97F4A7C15u;
    out ^= out >> 29;
  }
  return out;
}

bool SourceIndex::has_values(const std::vector<const Column*>& theirs, std::size_t row) const {
  if (by_values_.empty()) {
    for (const auto& [key, rows] : by_key_) {
      for (const std::uint32_t each : rows) by_values_.emplace(hash_of(features_, each), each);
    }
  }
  const auto [begin, end] = by_values_.equal_range(hash_of(theirs, row));
  return std::any_of(begin, end,
                     [&](const auto& each) { return same_values(each.second, theirs, row); });
}

}  // namespace falaj::features::feast
