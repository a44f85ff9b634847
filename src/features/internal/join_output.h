// features/internal/join_output.h — the columns that a join fills, from several threads.
//
// They are filled in the order of the questions, each thread side by side in memory, and put into
// the order of the spine at the end, a column at a time: to write ten columns at random places
// costs a cache miss for each value. What was filled is used again for the next view: fresh memory
// costs more than writing into it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
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

// Values that are written before they are read: nothing is in them at first.
template <class T>
class Unfilled {
 public:
  // What was there is lost.
  void resize(std::size_t size) {
    if (size > capacity_) {
      values_ = std::make_unique_for_overwrite<T[]>(size);
      capacity_ = size;
    }
  }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t capacity_ = 0;
};

// One column. Threads may fill different rows at once.
class OutputColumn {
 public:
  OutputColumn() = default;
  // What was filled before is forgotten. Only a column that may have nulls is given some.
  void prepare(table::Type type, std::size_t rows, bool may_have_nulls);
  // Texts are kept in `arena`, which must live until finish().
  void fill(const Chunk& chunk, std::span<const Move> moves, TextArena& arena);
  void fill_nulls(std::span<const Move> moves);
  // These rows have no answer.
  void clear(std::span<const std::uint32_t> rows);
  void set(std::size_t row, std::int64_t value);  // Of an integer column.
  std::int64_t integer(std::size_t row) const {
    return std::get<Unfilled<std::int64_t>>(values_)[row];
  }
  void set(std::size_t row, const expression::Cell& cell, TextArena& arena);
  // Row i is what was filled at places[i], or null where valid[i] is 0; all are valid when that is
  // empty. Every valid place was filled, set or cleared. A row at Column::kNoRow is not valid.
  table::Column finish(const std::vector<std::uint8_t>& valid,
                       const std::vector<std::uint32_t>& places) const;

 private:
  table::Type type_ = table::Type::kInt64;
  std::variant<Unfilled<std::int64_t>, Unfilled<double>, Unfilled<std::uint8_t>,
               Unfilled<std::string_view>>
      values_;
  std::vector<std::uint8_t> nulls_;  // 1: filled with a null. Empty when it has none.
};

// flags[places[i]] for every i, 0 at Column::kNoRow; nothing when all are 1.
std::vector<std::uint8_t> valid_in_order(const std::vector<std::uint8_t>& flags,
                                         const std::vector<std::uint32_t>& places);

}  // namespace falaj::features
