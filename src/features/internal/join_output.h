// features/internal/join_output.h — the columns that a join fills, in any order of rows, from
// several threads.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
  // `found` says which rows were filled, 0 or 1 each; the others are null.
  table::Column finish(const std::vector<std::uint8_t>& found);

 private:
  table::Type type_;
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::uint8_t>,
               std::vector<std::string_view>>
      values_;
  std::vector<std::uint8_t> nulls_;  // 1: filled with a null.
};

}  // namespace falaj::features
