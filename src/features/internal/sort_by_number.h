// features/internal/sort_by_number.h — sorts rows by a number that most of them share with others,
// as keys are: counted into place instead of compared.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace falaj::features {

// Ascending by number(row), a std::uint64_t, and then by ascends(a, b), which must agree with it.
// Rows that ascend already within a number are not sorted again. Numbers that are far apart, and
// few rows, are only compared. Cost: the rows once more in memory.
template <class Row, class Number, class Ascends>
void sort_by_number(std::vector<Row>& rows, Number number, Ascends ascends) {
  // Bits that one pass sorts by, and how many passes are worth it: past that, comparing costs less
  // than moving.
  constexpr unsigned kDigitBits = 11;
  constexpr unsigned kPassesMost = 4;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return number(a) < number(b); });
  if (least == rows.end()) return;
  const std::uint64_t base = number(*least);
  const auto bits = static_cast<unsigned>(std::bit_width(number(*most) - base));
  if (bits > kDigitBits * kPassesMost || rows.size() < kDigits) {
    std::sort(rows.begin(), rows.end(), ascends);
    return;
  }
  std::vector<Row> other(rows.size());
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    std::array<std::size_t, kDigits> places{};
    const auto digit = [&](const Row& row) {
      return (number(row) - base) >> shift & (kDigits - 1);
    };
    for (const Row& row : rows) ++places[digit(row)];
    std::size_t before = 0;
    for (std::size_t& place : places) before += std::exchange(place, before);
    for (const Row& row : rows) other[places[digit(row)]++] = row;
    std::swap(rows, other);
  }
  for (auto first = rows.begin(); first != rows.end();) {
    const auto last = std::find_if(first, rows.end(),
                                   [&](const Row& row) { return number(row) != number(*first); });
    if (!std::is_sorted(first, last, ascends)) std::sort(first, last, ascends);
    first = last;
  }
}

}  // namespace falaj::features
