// Random expressions over random rows: the kernels, for a block and for one row, agree to the bit
// with a plain walk down the tree. FALAJ_EXPRESSIONS=N tries more of them.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <limits>
#include <random>

#include "expression/expression.h"
#include "expression/testing/tree_walk.h"

namespace falaj::expression {
namespace {

using table::Batch;
using table::Column;
using table::Type;
using testing::Plain;
using testing::TreeWalk;

const table::Schema& schema() {
  static const table::Schema all{{{"i", Type::kInt64},
                                  {"j", Type::kInt64},
                                  {"x", Type::kFloat64},
                                  {"y", Type::kFloat64},
                                  {"s", Type::kString},
                                  {"p", Type::kString},
                                  {"b", Type::kBool},
                                  {"u", Type::kTimestamp},
                                  {"time", Type::kTimestamp}}};
  return all;
}

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  std::string pick(std::initializer_list<const char*> words) {
    return *(words.begin() + below(words.size()));
  }

  std::string write(Type type, int depth) {
    if (depth == 0 || below(6) == 0) return leaf(type);
    if (below(4) == 0) return any(type, depth - 1);
    switch (type) {
      case Type::kBool:
        return truth(depth - 1);
      case Type::kInt64:
        return whole(depth - 1);
      case Type::kFloat64:
        return real(depth - 1);
      case Type::kString:
        return text(depth - 1);
      case Type::kTimestamp:
        break;
    }
    return time(depth - 1);
  }

  Type type() {
    constexpr Type kAll[] = {Type::kBool, Type::kInt64, Type::kFloat64, Type::kString,
                             Type::kTimestamp};
    return kAll[below(5)];
  }

 private:
  std::string leaf(Type type) {
    switch (type) {
      case Type::kBool:
        return pick({"b", "true", "false"});
      case Type::kInt64:
        return pick({"i", "j", "0", "3", "-7", "9223372036854775807", "-9223372036854775808"});
      case Type::kFloat64:
        return pick({"x", "y", "0.0", "2.5", "0.1", "-1e300", "1e-300", "9.5e18"});
      case Type::kString:
        return pick({"s", "p", "''", "'a'", "'12'", "'ü b'"});
      case Type::kTimestamp:
        break;
    }
    return pick({"u", "row_time()", "time"});
  }

  std::string call(const std::string& name, std::initializer_list<std::string> operands) {
    std::string out = name + "(";
    for (const std::string& each : operands) out += (out.back() == '(' ? "" : ", ") + each;
    return out + ")";
  }

  // Of any type.
  std::string any(Type type, int depth) {
    const auto one = [&] { return below(8) == 0 ? std::string("null") : write(type, depth); };
    switch (below(5)) {
      case 0:
        return call("if", {write(Type::kBool, depth), one(), write(type, depth)});
      case 1:
        return call("if", {write(Type::kBool, depth), one(), write(Type::kBool, depth), one(),
                           write(type, depth)});
      case 2:
        return call("coalesce", {one(), write(type, depth), one()});
      case 3:
        return call("nullif", {write(type, depth), one()});
      default:
        return call(pick({"min", "max"}), {write(type, depth), write(type, depth), one()});
    }
  }

  std::string truth(int depth) {
    const auto flag = [&] { return write(Type::kBool, depth); };
    switch (below(6)) {
      case 0:
        return "(" + flag() + pick({" and ", " or "}) + flag() + ")";
      case 1:
        return "(not " + flag() + ")";
      case 2:
        return call("is_null", {write(type(), depth)});
      case 3: {
        const Type of = type();
        return "(" + write(of, depth) + " in (" + write(of, depth) + ", null, " + write(of, depth) +
               "))";
      }
      case 4:
        return call("contains", {write(Type::kString, depth), write(Type::kString, depth)});
      default:
        break;
    }
    const Type of = type();
    const Type other = of == Type::kInt64 && below(2) == 0 ? Type::kFloat64 : of;
    return "(" + write(of, depth) + pick({" == ", " != ", " < ", " <= ", " > ", " >= "}) +
           write(other, depth) + ")";
  }

  std::string whole(int depth) {
    const auto number = [&] { return write(Type::kInt64, depth); };
    switch (below(6)) {
      case 0:
        return call(pick({"abs", "floor", "int64"}), {number()});
      case 1:
        return call("int64", {write(below(2) == 0 ? Type::kFloat64 : Type::kString, depth)});
      case 2:
        return call("length", {write(Type::kString, depth)});
      case 3:
        return call(
            pick({"year", "month", "day", "hour", "minute", "second", "weekday", "day_of_year"}),
            {write(Type::kTimestamp, depth)});
      case 4:
        return below(2) == 0 ? call("hash", {write(type(), depth), write(type(), depth)})
                             : call("bucket", {write(type(), depth), number()});
      default:
        break;
    }
    return below(6) == 0
               ? "(-" + write(Type::kInt64, depth) + ")"
               : "(" + number() + pick({" + ", " - ", " * ", " // ", " % "}) + number() + ")";
  }

  std::string real(int depth) {
    const auto number = [&] { return write(below(3) == 0 ? Type::kInt64 : Type::kFloat64, depth); };
    switch (below(6)) {
      case 0:
        return call(pick({"sqrt", "ln", "exp", "float64"}), {number()});
      case 1:
        return call(pick({"abs", "floor", "ceil", "round"}), {write(Type::kFloat64, depth)});
      case 2:
        return call("days_between",
                    {write(Type::kTimestamp, depth), write(Type::kTimestamp, depth)});
      case 3:
        return call("clamp", {write(Type::kFloat64, depth), number(), number()});
      case 4:
        return "(" + number() + " / " + number() + ")";
      default:
        break;
    }
    return "(" + write(Type::kFloat64, depth) + pick({" + ", " - ", " * ", " // ", " % "}) +
           number() + ")";
  }

  std::string text(int depth) {
    const auto string = [&] { return write(Type::kString, depth); };
    switch (below(5)) {
      case 0:
        return call(pick({"lower", "upper", "string"}), {string()});
      case 1:
        return call("concat", {string(), string()});
      case 2:
        return call("substring", {string(), pick({"i", "1", "2"}), pick({"j", "3", "1"})});
      case 3:
        return call("replace", {string(), string(), string()});
      default:
        return call("string", {write(type(), depth)});
    }
  }

  std::string time(int depth) {
    if (below(2) == 0) {
      return call("add_days", {write(Type::kTimestamp, depth), write(Type::kInt64, depth)});
    }
    return call(pick({"start_of_hour", "start_of_day", "start_of_week", "start_of_month",
                      "start_of_year", "timestamp"}),
                {write(Type::kTimestamp, depth)});
  }

  std::mt19937_64 random_;
};

std::vector<testing::Row> random_rows(Writer& random, std::size_t count) {
  const std::int64_t ints[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               7,
                               -40,
                               1'000'000,
                               1ll << 40,
                               std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()};
  const double inf = std::numeric_limits<double>::infinity();
  const double doubles[] = {
      0,   -0.0, 1,    -1.5,   2.5,   1e-310, 9.3e18, -9.3e18,
      0.1, -0.3, 1e15, 5e-324, 1e300, inf,    -inf,   std::numeric_limits<double>::quiet_NaN()};
  const char* texts[] = {"", "a", "A b", "12", "-3", "üÜ", "aXbXc", "9999999999999999999"};
  std::vector<testing::Row> out(count);
  for (testing::Row& row : out) {
    for (const table::Field& field : schema().fields) {
      Plain& value = row[field.name];
      value = Plain::none(field.type);
      if (random.below(5) == 0) continue;
      value.null = false;
      const bool other = field.type == Type::kFloat64 || field.type == Type::kString;
      if (!other) value.i = ints[random.below(std::size(ints))];
      if (field.type == Type::kBool) value.i &= 1;
      if (field.type == Type::kTimestamp && random.below(3) > 0) {
        value.i = static_cast<std::int64_t>(random.below(3'000'000'000)) * 1'000'003'217 -
                  400'000'000'000'000'000;
      }
      if (field.type == Type::kFloat64) value.d = doubles[random.below(std::size(doubles))];
      if (field.type == Type::kString) value.s = texts[random.below(std::size(texts))];
    }
  }
  return out;
}

Cell cell_of(const Plain& value) { return {value.null, value.i, value.d, value.s}; }

Batch batch_of(const std::vector<testing::Row>& rows) {
  Batch out(schema());
  for (const testing::Row& row : rows) {
    for (std::size_t i = 0; i < schema().fields.size(); ++i) {
      const Plain& value = row.at(schema().fields[i].name);
      Column& column = out.columns[i];
      if (value.null) {
        column.push_null();
      } else if (value.type == Type::kFloat64) {
        column.push_double(value.d);
      } else if (value.type == Type::kString) {
        column.push_string(value.s);
      } else if (value.type == Type::kBool) {
        column.push_bool(value.i != 0);
      } else {
        column.push_int(value.i);
      }
    }
  }
  return out;
}

Plain plain_of(const Column& column, std::size_t row) {
  Plain out = Plain::none(column.type());
  if (column.is_null(row)) return out;
  out.null = false;
  if (column.type() == Type::kFloat64) {
    out.d = column.doubles()[row];
  } else if (column.type() == Type::kString) {
    out.s = column.strings()[row];
  } else {
    out.i = column.type() == Type::kBool ? column.bools()[row] : column.ints()[row];
  }
  return out;
}

// One NaN is as good as another: which of two a processor keeps is its own business.
bool same(const Plain& a, const Plain& b) {
  if (a.type != b.type || a.null != b.null) return false;
  if (a.null) return true;
  if (std::isnan(a.d) && std::isnan(b.d)) return true;
  return a.i == b.i && a.s == b.s &&
         std::bit_cast<std::uint64_t>(a.d) == std::bit_cast<std::uint64_t>(b.d);
}
bool bit_equal(const Cell& a, const Plain& b) {
  return a.is_null == b.null && a.integer == b.i && a.text == b.s &&
         std::bit_cast<std::uint64_t>(a.number) == std::bit_cast<std::uint64_t>(b.d);
}

TEST(ExpressionProperty, kernels_agree_with_a_walk_down_the_tree) {
  const char* wanted = std::getenv("FALAJ_EXPRESSIONS");
  const std::uint64_t count = wanted == nullptr ? 1'500 : std::strtoull(wanted, nullptr, 10);
  Writer random(20'261'116);
  Scratch scratch;
  std::uint64_t values = 0;
  std::uint64_t nulls = 0;
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::string text = random.write(random.type(), 3);
    const auto made = Expression::compile(text, schema(), "time");
    if (!made.ok() && made.error().message.find(" bytes, over ") != std::string::npos) continue;
    if (!made.ok() && made.error().message.find(" parts: ") != std::string::npos) continue;
    ASSERT_TRUE(made.ok()) << made.error().message;
    const Node node = parse(text).value();
    // Now and then more than one block.
    const std::vector<testing::Row> rows = random_rows(random, n % 100 == 0 ? 1030 : 24);
    const Column block = made->evaluate(batch_of(rows));
    ASSERT_EQ(block.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Plain expected = TreeWalk(rows[i]).evaluate(node);
      const Plain got = plain_of(block, i);
      ASSERT_TRUE(same(got, expected))
          << text << "\n row " << i << ": null " << got.null << "/" << expected.null << " int "
          << got.i << "/" << expected.i << " float " << got.d << "/" << expected.d << " text '"
          << got.s << "'/'" << expected.s << "' type " << table::type_name(got.type) << "/"
          << table::type_name(expected.type);
      std::vector<Cell> cells;
      for (const table::Field& field : made->columns()) {
        cells.push_back(cell_of(rows[i].at(field.name)));
      }
      ASSERT_TRUE(bit_equal(made->evaluate(cells, scratch), got)) << text << "\n row " << i;
      ++values;
      nulls += expected.null ? 1 : 0;
    }
  }
  EXPECT_GT(values - nulls, values / 4);  // Most of it must not be about nothing.
}

}  // namespace
}  // namespace falaj::expression
