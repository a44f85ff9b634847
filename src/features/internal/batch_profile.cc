#include "features/internal/batch_profile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/hash.h"

namespace falaj::features {

using table::Column;
using table::Type;

namespace {

ColumnProfile empty_profile_of(const table::Field& field, Detail detail) {
  ColumnProfile out;
  out.field = field;
  out.detail = detail;
  if (field.type == Type::kTimestamp) out.spread = Spread(Spread::kTimeShift);
  return out;
}

bool has_top(const ColumnProfile& profile) {
  const Type type = profile.field.type;
  return profile.detail == Detail::kValues && type != Type::kFloat64 && type != Type::kTimestamp;
}

std::string_view bytes_of(const std::uint64_t& number) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

// One column of one batch into its profile.
class ColumnIntake {
 public:
  ColumnIntake(ColumnProfile& into, const Column& column,
               const std::vector<Profiler::Chosen>& chosen)
      : into_(into), column_(column), chosen_(chosen) {}

  void take() {
    switch (into_.field.type) {
      case Type::kFloat64:
        return take_doubles(column_.doubles());
      case Type::kInt64:
        return take_ints(column_.ints());
      case Type::kTimestamp:
        return take_times(column_.ints());
      case Type::kString:
        return take_texts(column_.strings());
      case Type::kBool:
        return take_bools(column_.bools());
    }
  }

 private:
  bool keeps_numbers() const { return into_.detail != Detail::kCounts; }

  void bound(double value) {
    into_.sum += value;
    into_.least = std::min(into_.least, value);
    into_.most = std::max(into_.most, value);
  }
  void bound_int(std::int64_t value) {
    into_.least_int = std::min(into_.least_int, value);
    into_.most_int = std::max(into_.most_int, value);
  }

  void take_doubles(const std::vector<double>& values) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      if (column_.is_null(i) || !std::isfinite(value)) {
        ++missing;
        continue;
      }
      bound(value);
      into_.distinct.add(hash_of(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value)));
    }
    settle(values.size(), missing);
    for (const auto& [row, weight] : chosen_) {
      if (column_.is_null(row) || !std::isfinite(values[row])) continue;
      into_.spread.add(place_of_number(values[row]), weight);
    }
  }

  void take_ints(const std::vector<std::int64_t>& values) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (column_.is_null(i)) {
        ++missing;
        continue;
      }
      bound(static_cast<double>(values[i]));
      bound_int(values[i]);
      into_.distinct.add(hash_of(static_cast<std::uint64_t>(values[i])));
    }
    settle(values.size(), missing);
    if (!keeps_numbers()) return;
    const bool top = has_top(into_);
    for (const auto& [row, weight] : chosen_) {
      if (column_.is_null(row)) continue;
      into_.spread.add(place_of_number(static_cast<double>(values[row])), weight);
      const auto bits = static_cast<std::uint64_t>(values[row]);
      if (top) into_.top.add(bytes_of(bits), weight);
    }
  }

  void take_times(const std::vector<std::int64_t>& values) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (column_.is_null(i)) {
        ++missing;
        continue;
      }
      bound_int(values[i]);
      into_.distinct.add(hash_of(static_cast<std::uint64_t>(values[i])));
    }
    settle(values.size(), missing);
    for (const auto& [row, weight] : chosen_) {
      if (!column_.is_null(row)) into_.spread.add(place_of_time(values[row]), weight);
    }
  }

  void take_texts(const table::StringColumn& texts) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (column_.is_null(i)) {
        ++missing;
        continue;
      }
      const std::string_view text = texts[i];
      bound(static_cast<double>(text.size()));
      into_.distinct.add(hash64(text));
    }
    settle(texts.size(), missing);
    if (!keeps_numbers()) return;
    const bool top = has_top(into_);
    for (const auto& [row, weight] : chosen_) {
      if (column_.is_null(row)) continue;
      into_.spread.add(place_of_number(static_cast<double>(texts[row].size())), weight);
      if (top) into_.top.add(texts[row], weight);
    }
  }

  void take_bools(const std::vector<std::uint8_t>& values) {
    std::uint64_t missing = 0;
    std::uint64_t trues = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      missing += column_.is_null(i) ? 1 : 0;
      trues += column_.is_null(i) ? 0 : values[i];
    }
    settle(values.size(), missing);
    into_.sum += static_cast<double>(trues);
    const std::uint64_t falses = values.size() - missing - trues;
    if (trues > 0) note_bool(1, trues);
    if (falses > 0) note_bool(0, falses);
  }
  void note_bool(std::uint64_t value, std::uint64_t count) {
    into_.distinct.add(hash_of(value));
    if (has_top(into_)) into_.top.add(bytes_of(value), count);
  }

  void settle(std::size_t rows, std::uint64_t missing) {
    into_.missing += missing;
    into_.values += rows - missing;
    if (into_.detail == Detail::kValues) return;
    // Somebody's values: they are not kept, not even until the file is read.
    const ColumnProfile none;
    into_.least = none.least;
    into_.most = none.most;
    into_.least_int = none.least_int;
    into_.most_int = none.most_int;
    if (!keeps_numbers()) into_.sum = 0;
  }

  ColumnProfile& into_;
  const Column& column_;
  const std::vector<Profiler::Chosen>& chosen_;
};

Profiler::Profiler(const ViewDefinition& definition, const ViewCare& care)
    : first_feature_(definition.entity.keys.size() + 3) {
  for (const table::Field& key : definition.entity.keys) {
    profile_.keys.push_back(empty_profile_of(key, Detail::kCounts));
  }
  for (const Feature& feature : definition.view.features) {
    if (profile_.features.size() == BatchProfile::kColumnsMax) break;
    const bool personal = care.is_personal(feature.name, definition.entity);
    profile_.features.push_back(empty_profile_of({feature.name, feature.type},
                                                 personal ? Detail::kPersonal : Detail::kValues));
  }
}

void Profiler::choose(std::size_t rows) {
  chosen_.clear();
  const std::uint64_t end = profile_.rows + rows;
  std::uint64_t position = profile_.rows;
  for (; position < std::min(end, kAllRows); ++position) {
    chosen_.push_back({static_cast<std::uint32_t>(position - profile_.rows), 1});
  }
  // One of each kStride that follow one another, not always the same one: files have rhythms.
  for (std::uint64_t group = position / kStride; group * kStride < end; ++group) {
    const std::uint64_t one = group * kStride + hash_of(group) % kStride;
    if (one < position || one >= end) continue;
    chosen_.push_back({static_cast<std::uint32_t>(one - profile_.rows), kStride});
  }
}

void Profiler::add(const table::Batch& rows) {
  if (rows.rows() == 0) return;
  choose(rows.rows());
  for (std::size_t i = 0; i < profile_.keys.size(); ++i) {
    ColumnIntake(profile_.keys[i], rows.columns[i], chosen_).take();
  }
  const auto& events = rows.columns[profile_.keys.size()].ints();
  const auto [least, most] = std::minmax_element(events.begin(), events.end());
  profile_.event_min = std::min(profile_.event_min, *least);
  profile_.event_max = std::max(profile_.event_max, *most);
  for (std::size_t i = 0; i < profile_.features.size(); ++i) {
    ColumnIntake(profile_.features[i], rows.columns[first_feature_ + i], chosen_).take();
  }
  profile_.rows += rows.rows();
  profile_.looked_at += chosen_.size();
}

namespace {

void merge_column(ColumnProfile& into, const ColumnProfile& other) {
  into.detail = std::min(into.detail, other.detail);
  into.values += other.values;
  into.missing += other.missing;
  into.sum += other.sum;
  into.distinct.merge(other.distinct);
  if (into.detail == Detail::kCounts) return;
  into.spread.merge(other.spread);
  if (into.detail == Detail::kPersonal) {
    const ColumnProfile none;
    into.least = none.least;
    into.most = none.most;
    into.least_int = none.least_int;
    into.most_int = none.most_int;
    into.top = none.top;
    return;
  }
  into.least = std::min(into.least, other.least);
  into.most = std::max(into.most, other.most);
  into.least_int = std::min(into.least_int, other.least_int);
  into.most_int = std::max(into.most_int, other.most_int);
  into.top.merge(other.top);
}

void merge_columns(std::vector<ColumnProfile>& into, const std::vector<ColumnProfile>& other) {
  for (const ColumnProfile& column : other) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const ColumnProfile& each) {
      return each.field == column.field;
    });
    if (same != into.end()) {
      merge_column(*same, column);
    } else if (into.size() < BatchProfile::kColumnsMax) {
      into.push_back(column);
    }
  }
}

}  // namespace

void BatchProfile::merge(const BatchProfile& other) {
  rows += other.rows;
  looked_at += other.looked_at;
  event_min = std::min(event_min, other.event_min);
  event_max = std::max(event_max, other.event_max);
  merge_columns(keys, other.keys);
  merge_columns(features, other.features);
}

}  // namespace falaj::features
