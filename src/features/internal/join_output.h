// features/internal/join_output.h — the columns that a join fills, from several threads.
//
// They are filled in the order of the questions, each thread side by side in memory, and put into
// the order of the spine at the end, a column at a time: to write ten columns at random places
// costs a cache miss for each value.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "expression/expression.h"
#include "features/internal/segment_chunk.h"
#include "table/batch.h"

namespace falaj::features {

// Texts that outlive the block they were read from; never moved.
class TextArena {
 public:
  std::string_view keep(std::string_view text);

 private:
  std::deque<std::string> pieces_;
};

// Row `from` of a chunk becomes row `to` of the output.
struct Move {
  std::uint32_t from;
  std::uint32_t to;
};

// One column. Threads may fill different rows at once.
class OutputColumn {
 public:
  OutputColumn(table::Type type, std::size_t rows);
  // Texts are kept in `arena`, which must live until finish().
  void fill(const Chunk& chunk, std::span<const Move> moves, TextArena& arena);
  void fill_nulls(std::span<const Move> moves);
  void set(std::size_t row, std::int64_t value);  // Of an integer column.
  std::int64_t integer(std::size_t row) const {
    return std::get<std::vector<std::int64_t>>(values_)[row];
  }
  void set(std::size_t row, const expression::Cell& cell, TextArena& arena);
  // Row i is what was filled at places[i], if found[places[i]] is 1; null otherwise, and where
  // places[i] is Column::kNoRow. Call once.
  table::Column finish(const std::vector<std::uint8_t>& found,
                       const std::vector<std::uint32_t>& places);

 private:
  table::Type type_;
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::uint8_t>,
               std::vector<std::string_view>>
      values_;
  std::vector<std::uint8_t> nulls_;  // 1: filled with a null.
};

}  // namespace falaj::features
