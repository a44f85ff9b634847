#include "features/internal/join_output.h"

#include <algorithm>
#include <utility>

namespace falaj::features {
namespace {

using table::Column;
using table::Type;

constexpr std::size_t kPieceBytes = 65'536;

// What was filled, in the order of the spine; a place without an answer has nothing in it.
template <class T>
std::vector<T> ordered(const std::vector<T>& filled, const std::vector<std::uint32_t>& places) {
  std::vector<T> out(places.size());
  for (std::size_t row = 0; row < places.size(); ++row) {
    if (places[row] != Column::kNoRow) out[row] = filled[places[row]];
  }
  return out;
}

}  // namespace

std::string_view TextArena::keep(std::string_view text) {
  if (text.empty()) return {};
  if (pieces_.empty() || pieces_.back().capacity() - pieces_.back().size() < text.size()) {
    pieces_.emplace_back().reserve(std::max(text.size(), kPieceBytes));
  }
  std::string& piece = pieces_.back();
  piece += text;
  return std::string_view(piece).substr(piece.size() - text.size());
}

OutputColumn::OutputColumn(Type type, std::size_t rows) : type_(type), nulls_(rows, 0) {
  switch (type) {
    case Type::kInt64:
    case Type::kTimestamp:
      values_ = std::vector<std::int64_t>(rows);
      break;
    case Type::kFloat64:
      values_ = std::vector<double>(rows);
      break;
    case Type::kBool:
      values_ = std::vector<std::uint8_t>(rows);
      break;
    case Type::kString:
      values_ = std::vector<std::string_view>(rows);
      break;
  }
}

void OutputColumn::fill(const Chunk& chunk, std::span<const Move> moves, TextArena& arena) {
  // A null keeps the zero that is there.
  const auto each = [&](auto& out, auto get) {
    if (!chunk.has_nulls()) {
      for (const Move& move : moves) {
        out[move.to] = static_cast<std::decay_t<decltype(out[0])>>(get(move.from));
      }
      return;
    }
    for (const Move& move : moves) {
      if (chunk.is_null(move.from)) {
        nulls_[move.to] = 1;
      } else {
        out[move.to] = static_cast<std::decay_t<decltype(out[0])>>(get(move.from));
      }
    }
  };
  if (auto* ints = std::get_if<std::vector<std::int64_t>>(&values_)) {
    chunk.with_ints([&](auto get) { each(*ints, get); });
  } else if (auto* doubles = std::get_if<std::vector<double>>(&values_)) {
    chunk.with_doubles([&](auto get) { each(*doubles, get); });
  } else if (auto* bools = std::get_if<std::vector<std::uint8_t>>(&values_)) {
    chunk.with_ints([&](auto get) { each(*bools, get); });
  } else {
    // Rows of one run often have the same text.
    std::uint32_t last = 0;
    std::string_view kept;
    bool any = false;
    each(std::get<std::vector<std::string_view>>(values_), [&](std::uint32_t row) {
      const std::uint32_t code = chunk.code_at(row);
      if (!any || code != last) kept = arena.keep(chunk.text(code));
      any = true;
      last = code;
      return kept;
    });
  }
}

void OutputColumn::fill_nulls(std::span<const Move> moves) {
  for (const Move& move : moves) nulls_[move.to] = 1;
}

void OutputColumn::set(std::size_t row, std::int64_t value) {
  std::get<std::vector<std::int64_t>>(values_)[row] = value;
}

void OutputColumn::set(std::size_t row, const expression::Cell& cell, TextArena& arena) {
  nulls_[row] = cell.is_null ? 1 : 0;
  if (cell.is_null) return;
  if (auto* ints = std::get_if<std::vector<std::int64_t>>(&values_)) {
    (*ints)[row] = cell.integer;
  } else if (auto* doubles = std::get_if<std::vector<double>>(&values_)) {
    (*doubles)[row] = cell.number;
  } else if (auto* bools = std::get_if<std::vector<std::uint8_t>>(&values_)) {
    (*bools)[row] = static_cast<std::uint8_t>(cell.integer);
  } else {
    std::get<std::vector<std::string_view>>(values_)[row] = arena.keep(cell.text);
  }
}

Column OutputColumn::finish(const std::vector<std::uint8_t>& found,
                            const std::vector<std::uint32_t>& places) {
  bool any_null = false;
  std::vector<std::uint8_t> valid(places.size());
  for (std::size_t row = 0; row < places.size(); ++row) {
    const std::uint32_t place = places[row];
    valid[row] = place != Column::kNoRow && found[place] == 1 && nulls_[place] == 0 ? 1 : 0;
    any_null |= valid[row] == 0;
  }
  if (!any_null) valid.clear();
  if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&values_)) {
    return Column::of_ints(type_, ordered(*ints, places), std::move(valid));
  }
  if (const auto* doubles = std::get_if<std::vector<double>>(&values_)) {
    return Column::of_doubles(ordered(*doubles, places), std::move(valid));
  }
  if (const auto* bools = std::get_if<std::vector<std::uint8_t>>(&values_)) {
    return Column::of_bools(ordered(*bools, places), std::move(valid));
  }
  const auto texts = ordered(std::get<std::vector<std::string_view>>(values_), places);
  table::StringColumn out;
  std::size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  out.reserve(texts.size(), bytes);
  for (const std::string_view text : texts) out.push(text);
  return Column::of_strings(std::move(out), std::move(valid));
}

}  // namespace falaj::features
