// expression/expression.h — one safe language for computed features and expectations.
//
//   auto ratio = FALAJ_TRY(Expression::compile("amount / max(mean_30d, 1)", schema));
//   Column column = ratio.evaluate(rows);          // A block: freezing, ingest.
//   Cell one = ratio.evaluate(cells, scratch);     // One row: online. The same kernels.
//
// An expression reads columns and gives one value a row. It has no loops, no state, no clock and no
// way to fail: where an operation has no answer (a number too large, a division by zero, a text
// that is no number) the value is null. docs/reference/expressions.md is its manual.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "table/batch.h"

namespace falaj::expression {

// What a person may write; past it the expression is refused before anything is built of it.
inline constexpr std::size_t kLengthMax = 4096;  // Bytes.
inline constexpr std::size_t kDepthMax = 48;     // Parentheses, calls and signs inside each other.
inline constexpr std::size_t kNodesMax = 512;    // Names, constants, operators and calls.
// A computed text that would be longer is null.
inline constexpr std::size_t kTextMax = 4096;

// One value. A bool is 0 or 1 and a timestamp nanoseconds in `integer`.
struct Cell {
  bool is_null = true;
  std::int64_t integer = 0;
  double number = 0;
  std::string_view text{};
};

// Memory that evaluations use again, so that one row costs no allocation. One per thread.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;

 private:
  friend class Expression;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Immutable; copies share the program. Threads may evaluate one at the same time.
class Expression {
 public:
  // `row_time` names the timestamp column that row_time() reads; "": there is none.
  // FJ-3050 says what is wrong and where, with the line and a caret under the place.
  static Result<Expression> compile(std::string_view text, const table::Schema& columns,
                                    std::string_view row_time = {});

  table::Type type() const;
  // The columns that it reads, each once.
  const std::vector<table::Field>& columns() const;
  const std::string& text() const;

  // A value for each row of `rows`, which has columns() by name and type (the process stops
  // otherwise). Cost: a pass over blocks of 1024 rows for each operation, of 64
  // where texts are computed, so that no expression can fill the memory with them.
  table::Column evaluate(const table::Batch& rows) const;
  // The same with the columns in the order of columns(), each of `rows` rows.
  table::Column evaluate(std::span<const table::Column* const> columns, std::size_t rows) const;
  // The value for one row; cells in the order of columns(). A text in the result points into
  // `scratch` or `row`, and lasts until either changes.
  Cell evaluate(std::span<const Cell> row, Scratch& scratch) const;

 private:
  struct Program;
  explicit Expression(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  void run(Scratch& scratch, std::size_t rows) const;
  friend class Scratch;
  std::shared_ptr<const Program> program_;
};

}  // namespace falaj::expression
