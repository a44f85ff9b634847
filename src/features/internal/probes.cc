#include "features/internal/probes.h"

#include "features/internal/sort_by_number.h"
#include "features/key.h"

namespace falaj::features {

using table::Column;

Probes::Probes(const std::vector<const Column*>& keys, const Column& time, std::size_t begin,
               std::size_t end)
    : rows_(end - begin) {
  const bool whole = keys.size() == 1 && keys[0]->type() == table::Type::kInt64;
  if (!whole) texts_.emplace_back(keys, begin, end);
  sorted_.reserve(end - begin);
  for (std::size_t row = begin; row < end; ++row) {
    if (time.is_null(row)) continue;
    const auto number = static_cast<std::uint32_t>(row - begin);
    if (whole) {
      if (keys[0]->is_null(row)) continue;
      sorted_.push_back({key_prefix(keys[0]->ints()[row]), time.ints()[row], number});
    } else if (const std::string_view text = texts_.front()[number]; !text.empty()) {
      sorted_.push_back({key_prefix(text), time.ints()[row], number});
    }
  }
  const auto ascends = [&](const Probe& a, const Probe& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    if (!whole) {
      if (const int order = key(a).compare(key(b)); order != 0) return order < 0;
    }
    return a.at < b.at;
  };
  sort_by_number(
      sorted_, [](const Probe& probe) { return probe.prefix; }, ascends);
}

std::vector<std::uint32_t> Probes::places() const {
  std::vector<std::uint32_t> out(rows_, Column::kNoRow);
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    out[sorted_[i].row] = static_cast<std::uint32_t>(i);
  }
  return out;
}

}  // namespace falaj::features
