// Any bytes as an expression: an error that says where, or a program that answers for any row, the
// same for a block as for one row.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "expression/expression.h"

namespace {

using falaj::expression::Cell;
using falaj::table::Batch;
using falaj::table::Column;
using falaj::table::Type;

const Batch& rows() {
  static const Batch all = [] {
    Batch out({{{"a", Type::kInt64},
                {"b", Type::kFloat64},
                {"c", Type::kString},
                {"d", Type::kBool},
                {"t", Type::kTimestamp}}});
    for (const std::int64_t i :
         {std::int64_t{0}, std::int64_t{-7}, std::numeric_limits<std::int64_t>::min(),
          std::numeric_limits<std::int64_t>::max()}) {
      out.columns[0].push_int(i);
      out.columns[1].push_double(i == -7 ? std::numeric_limits<double>::quiet_NaN()
                                         : static_cast<double>(i) / 3);
      out.columns[2].push_string(i == 0 ? "" : "péche 12");
      out.columns[3].push_bool(i < 0);
      out.columns[4].push_int(i);
    }
    for (Column& column : out.columns) column.push_null();
    return out;
  }();
  return all;
}

Cell cell_of(const Column& column, std::size_t row) {
  Cell out;
  if (column.is_null(row)) return out;
  out.is_null = false;
  if (column.type() == Type::kString) {
    out.text = column.strings()[row];
  } else if (column.type() == Type::kFloat64) {
    out.number = column.doubles()[row];
  } else if (column.type() == Type::kBool) {
    out.integer = column.bools()[row];
  } else {
    out.integer = column.ints()[row];
  }
  return out;
}

bool same(const Cell& a, const Cell& b) {
  return a.is_null == b.is_null && a.integer == b.integer && a.text == b.text &&
         std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.number);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::expression;  // NOLINT: one function, one file.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto made = Expression::compile(text, rows().schema, "t");
  if (!made.ok()) {
    FALAJ_CHECK(made.error().id == falaj::ErrorId::kExpressionInvalid);
    FALAJ_CHECK(!made.error().message.empty());
    return 0;
  }
  const Column block = made->evaluate(rows());
  FALAJ_CHECK(block.size() == rows().rows() && block.type() == made->type());
  Scratch scratch;
  for (std::size_t row = 0; row < block.size(); ++row) {
    std::vector<Cell> cells;
    for (const auto& field : made->columns()) {
      cells.push_back(cell_of(*rows().find(field.name), row));
    }
    FALAJ_CHECK(same(made->evaluate(cells, scratch), cell_of(block, row)));
  }
  return 0;
}
