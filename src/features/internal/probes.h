// features/internal/probes.h — the rows of a spine in the order of segments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "features/internal/key_column.h"
#include "table/batch.h"

namespace falaj::features {

// One question: the newest row of this key that is not younger than `at`.
struct Probe {
  std::uint64_t prefix;  // features/key.h
  std::int64_t at;
  std::uint32_t row;  // Of the spine, counted from the first that was asked about.
};

// Rows [begin, end) of a spine that have a key and a time, ascending by key and time. One sort
// serves every view with these keys. Cost: 24 bytes a row, and the keys unless they are one int64.
class Probes {
 public:
  // `keys` are the spine's columns in the order of the entity's.
  Probes(const std::vector<const table::Column*>& keys, const table::Column& time,
         std::size_t begin, std::size_t end);

  std::span<const Probe> sorted() const { return sorted_; }
  // Of every spine row its place in sorted(), or Column::kNoRow.
  std::vector<std::uint32_t> places() const;
  // The encoded key, or "" when the prefix is all of it.
  std::string_view key(const Probe& probe) const {
    return texts_.empty() ? std::string_view() : texts_.front()[probe.row];
  }

 private:
  std::size_t rows_;
  std::vector<KeyColumn> texts_;  // One, or none when prefixes are whole.
  std::vector<Probe> sorted_;
};

}  // namespace falaj::features
