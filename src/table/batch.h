// table/batch.h — columns of equal length, in memory. The currency between ingest, joins, training
// and profiles. Plain vectors: simple to fill, quick to scan, no library type in sight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "table/schema.h"

namespace falaj::table {

// All texts of a column in one buffer.
class StringColumn {
 public:
  StringColumn() : offsets_(1, 0) {}
  void push(std::string_view text);
  std::string_view operator[](std::size_t row) const {
    return std::string_view(bytes_).substr(offsets_[row], offsets_[row + 1] - offsets_[row]);
  }
  std::size_t size() const { return offsets_.size() - 1; }
  void reserve(std::size_t rows, std::size_t bytes);
  void append(const StringColumn& from);
  // The raw layout, for adapters: row i is bytes()[offsets()[i], offsets()[i + 1]).
  const std::string& bytes() const { return bytes_; }
  const std::vector<std::uint64_t>& offsets() const { return offsets_; }
  bool operator==(const StringColumn&) const = default;

 private:
  std::string bytes_;
  std::vector<std::uint64_t> offsets_;
};

// One column. Timestamps are int64 nanoseconds (UTC); bools are 0/1 bytes.
class Column {
 public:
  explicit Column(Type type);
  Type type() const { return type_; }
  std::size_t size() const;
  void reserve(std::size_t rows);

  bool is_null(std::size_t row) const { return !valid_.empty() && valid_[row] == 0; }
  std::size_t null_count() const;

  // Typed access; asking for another type stops the process. A null row holds 0 / "".
  const std::vector<std::int64_t>& ints() const;  // kInt64 and kTimestamp
  const std::vector<double>& doubles() const;
  const std::vector<std::uint8_t>& bools() const;
  const StringColumn& strings() const;

  void push_int(std::int64_t v);
  void push_double(double v);
  void push_bool(bool v);
  void push_string(std::string_view v);
  void push_null();
  // Appends row `row` of `from`, which has the same type.
  void push_from(const Column& from, std::size_t row);
  // Appends all rows of `from`, which has the same type.
  void append(const Column& from);
  // Takes whole vectors without copying; `valid` is empty (no null) or 0/1 per row.
  static Column of_ints(Type type, std::vector<std::int64_t> v,
                        std::vector<std::uint8_t> valid = {});
  static Column of_doubles(std::vector<double> v, std::vector<std::uint8_t> valid = {});
  static Column of_strings(StringColumn v, std::vector<std::uint8_t> valid = {});
  static Column of_bools(std::vector<std::uint8_t> v, std::vector<std::uint8_t> valid = {});

  // The rows named by `rows`, in that order. kNoRow gives null.
  static constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;
  Column take(const std::vector<std::uint32_t>& rows) const;

  // As a number for a model: ints, bools and timestamps (seconds) widened, null → NaN.
  // Strings are not numbers: NaN.
  double number_at(std::size_t row) const;
  bool operator==(const Column&) const = default;

 private:
  Type type_;
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::uint8_t>,
               StringColumn>
      data_;
  std::vector<std::uint8_t> valid_;  // Empty while no null was pushed.
};

struct Batch {
  Schema schema;
  std::vector<Column> columns;

  Batch() = default;
  explicit Batch(Schema s);
  std::size_t rows() const { return columns.empty() ? 0 : columns.front().size(); }
  // nullptr when there is no such column.
  const Column* find(std::string_view name) const;
  // kConflict when the name is taken, kInvalidArgument when the length differs.
  Status add(Field field, Column column);
  // Appends the rows of `from`, which has the same schema; an empty batch takes its schema.
  void append(Batch from);
  Batch take(const std::vector<std::uint32_t>& rows) const;
  bool operator==(const Batch&) const = default;
};

}  // namespace falaj::table
