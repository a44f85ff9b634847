#include "features/internal/join_output.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace falaj::features {
namespace {

using table::Column;
using table::Type;

constexpr std::size_t kPieceBytes = 65'536;

// What was filled, in the order of the spine. Made in one go, without zeros first.
template <class T, class Filled>
std::vector<T> ordered(const Filled& filled, const std::vector<std::uint32_t>& places) {
  static const T nothing{};
  const auto values = places | std::views::transform([&](std::uint32_t place) -> const T& {
                        return place == Column::kNoRow ? nothing : filled[place];
                      });
  return std::vector<T>(values.begin(), values.end());
}

// Keeps the memory of what was there.
template <class T, class Values>
void resize(Values& values, std::size_t rows) {
  if (!std::holds_alternative<Unfilled<T>>(values)) values = Unfilled<T>();
  std::get<Unfilled<T>>(values).resize(rows);
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

void OutputColumn::prepare(Type type, std::size_t rows, bool may_have_nulls) {
  type_ = type;
  nulls_.assign(may_have_nulls ? rows : 0, 0);
  switch (type) {
    case Type::kInt64:
    case Type::kTimestamp:
      return resize<std::int64_t>(values_, rows);
    case Type::kFloat64:
      return resize<double>(values_, rows);
    case Type::kBool:
      return resize<std::uint8_t>(values_, rows);
    case Type::kString:
      return resize<std::string_view>(values_, rows);
  }
}

void OutputColumn::fill(const Chunk& chunk, std::span<const Move> moves, TextArena& arena) {
  const auto each = [&](auto& out, auto get) {
    if (!chunk.has_nulls()) {
      for (const Move& move : moves) {
        out[move.to] = static_cast<std::decay_t<decltype(out[0])>>(get(move.from));
      }
      return;
    }
    FALAJ_CHECK(!nulls_.empty());
    for (const Move& move : moves) {
      if (chunk.is_null(move.from)) {
        nulls_[move.to] = 1;
        out[move.to] = {};
      } else {
        out[move.to] = static_cast<std::decay_t<decltype(out[0])>>(get(move.from));
      }
    }
  };
  if (auto* ints = std::get_if<Unfilled<std::int64_t>>(&values_)) {
    chunk.with_ints([&](auto get) { each(*ints, get); });
  } else if (auto* doubles = std::get_if<Unfilled<double>>(&values_)) {
    chunk.with_doubles([&](auto get) { each(*doubles, get); });
  } else if (auto* bools = std::get_if<Unfilled<std::uint8_t>>(&values_)) {
    chunk.with_ints([&](auto get) { each(*bools, get); });
  } else {
    // Rows of one run often have the same text.
    std::uint32_t last = 0;
    std::string_view kept;
    bool any = false;
    each(std::get<Unfilled<std::string_view>>(values_), [&](std::uint32_t row) {
      const std::uint32_t code = chunk.code_at(row);
      if (!any || code != last) kept = arena.keep(chunk.text(code));
      any = true;
      last = code;
      return kept;
    });
  }
}

void OutputColumn::fill_nulls(std::span<const Move> moves) {
  std::visit(
      [&](auto& values) {
        for (const Move& move : moves) {
          nulls_[move.to] = 1;
          values[move.to] = {};
        }
      },
      values_);
}

void OutputColumn::clear(std::span<const std::uint32_t> rows) {
  std::visit(
      [&](auto& values) {
        for (const std::uint32_t row : rows) values[row] = {};
      },
      values_);
}

void OutputColumn::set(std::size_t row, std::int64_t value) {
  std::get<Unfilled<std::int64_t>>(values_)[row] = value;
}

void OutputColumn::set(std::size_t row, const expression::Cell& cell, TextArena& arena) {
  nulls_[row] = cell.is_null ? 1 : 0;
  if (cell.is_null) {
    std::visit([row](auto& values) { values[row] = {}; }, values_);
    return;
  }
  if (auto* ints = std::get_if<Unfilled<std::int64_t>>(&values_)) {
    (*ints)[row] = cell.integer;
  } else if (auto* doubles = std::get_if<Unfilled<double>>(&values_)) {
    (*doubles)[row] = cell.number;
  } else if (auto* bools = std::get_if<Unfilled<std::uint8_t>>(&values_)) {
    (*bools)[row] = static_cast<std::uint8_t>(cell.integer);
  } else {
    std::get<Unfilled<std::string_view>>(values_)[row] = arena.keep(cell.text);
  }
}

Column OutputColumn::finish(const std::vector<std::uint8_t>& valid_rows,
                            const std::vector<std::uint32_t>& places) const {
  std::vector<std::uint8_t> valid = valid_rows;
  if (!nulls_.empty()) {
    if (valid.empty()) valid.assign(places.size(), 1);
    for (std::size_t row = 0; row < places.size(); ++row) {
      if (valid[row] != 0) valid[row] = nulls_[places[row]] == 0 ? 1 : 0;
    }
  }
  if (const auto* ints = std::get_if<Unfilled<std::int64_t>>(&values_)) {
    return Column::of_ints(type_, ordered<std::int64_t>(*ints, places), std::move(valid));
  }
  if (const auto* doubles = std::get_if<Unfilled<double>>(&values_)) {
    return Column::of_doubles(ordered<double>(*doubles, places), std::move(valid));
  }
  if (const auto* bools = std::get_if<Unfilled<std::uint8_t>>(&values_)) {
    return Column::of_bools(ordered<std::uint8_t>(*bools, places), std::move(valid));
  }
  const auto texts =
      ordered<std::string_view>(std::get<Unfilled<std::string_view>>(values_), places);
  table::StringColumn out;
  std::size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  out.reserve(texts.size(), bytes);
  for (const std::string_view text : texts) out.push(text);
  return Column::of_strings(std::move(out), std::move(valid));
}

std::vector<std::uint8_t> valid_in_order(const std::vector<std::uint8_t>& flags,
                                         const std::vector<std::uint32_t>& places) {
  std::vector<std::uint8_t> out = ordered<std::uint8_t>(flags, places);
  if (std::find(out.begin(), out.end(), std::uint8_t{0}) == out.end()) out.clear();
  return out;
}

}  // namespace falaj::features
