#include "expression/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace falaj::expression {
namespace {

using table::Batch;
using table::Column;
using table::Schema;
using table::Type;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

const Schema& schema() {
  static const Schema all{{{"n", Type::kInt64},
                           {"x", Type::kFloat64},
                           {"s", Type::kString},
                           {"flag", Type::kBool},
                           {"at", Type::kTimestamp},
                           {"two words", Type::kInt64}}};
  return all;
}

// One row; n is 7, x is 2.5, s is "Ünal Bey", flag is true, at is a Sunday, `two words` is null.
Batch row() {
  Batch out(schema());
  out.columns[0].push_int(7);
  out.columns[1].push_double(2.5);
  out.columns[2].push_string("Ünal Bey");
  out.columns[3].push_bool(true);
  out.columns[4].push_int(parse_timestamp("2024-02-29T23:59:58.5Z").value().nanos -
                          4 * 86'400'000'000'000);
  out.columns[5].push_null();
  return out;
}

// The value as a person would write it.
std::string value_of(std::string_view text) {
  const Result<Expression> made = Expression::compile(text, schema(), "at");
  if (!made.ok()) return made.error().message;
  const Column column = made->evaluate(row());
  if (column.is_null(0)) return "null";
  switch (column.type()) {
    case Type::kBool:
      return column.bools()[0] != 0 ? "true" : "false";
    case Type::kInt64:
      return std::to_string(column.ints()[0]);
    case Type::kTimestamp:
      return to_rfc3339(Timestamp{column.ints()[0]});
    case Type::kFloat64: {
      char room[64];
      const int size = std::snprintf(room, sizeof(room), "%.17g", column.doubles()[0]);
      return std::string(room, static_cast<std::size_t>(size)) + "f";
    }
    case Type::kString:
      break;
  }
  return "'" + std::string(column.strings()[0]) + "'";
}

std::string error_of(std::string_view text) {
  const Result<Expression> made = Expression::compile(text, schema(), "at");
  EXPECT_FALSE(made.ok()) << text;
  if (made.ok()) return {};
  EXPECT_EQ(made.error().id, ErrorId::kExpressionInvalid);
  return made.error().message;
}

TEST(Expression, follows_the_usual_order_of_operations) {
  EXPECT_EQ(value_of("1 + 2 * 3"), "7");
  EXPECT_EQ(value_of("(1 + 2) * 3"), "9");
  EXPECT_EQ(value_of("10 - 4 - 3"), "3");
  EXPECT_EQ(value_of("7 / 2"), "3.5f");
  EXPECT_EQ(value_of("-7 // 2"), "-4");
  EXPECT_EQ(value_of("-7 % 3"), "2");
  EXPECT_EQ(value_of("7 % -3"), "-2");
  EXPECT_EQ(value_of("1 + 2 < 4 and not 1 > 2 or false"), "true");
  EXPECT_EQ(value_of("not 1 = 2"), "true");
  EXPECT_EQ(value_of("n * x"), "17.5f");
}

TEST(Expression, answers_null_where_an_integer_has_no_answer) {
  EXPECT_EQ(value_of("9223372036854775807 + 1"), "null");
  EXPECT_EQ(value_of("-9223372036854775808 - 1"), "null");
  EXPECT_EQ(value_of("-9223372036854775808 // -1"), "null");
  EXPECT_EQ(value_of("-9223372036854775808 % -1"), "0");
  EXPECT_EQ(value_of("abs(-9223372036854775808)"), "null");
  EXPECT_EQ(value_of("-(-9223372036854775807 - 1)"), "null");
  EXPECT_EQ(value_of("4611686018427387904 * 2"), "null");
  EXPECT_EQ(value_of("n / 0"), "null");
  EXPECT_EQ(value_of("n // 0"), "null");
  EXPECT_EQ(value_of("n % 0"), "null");
  EXPECT_EQ(value_of("int64(1e19)"), "null");
  EXPECT_EQ(value_of("int64(9.3e18)"), "null");
  EXPECT_EQ(value_of("int64(-2.9)"), "-2");
}

TEST(Expression, keeps_the_rules_of_ieee_for_floats_but_divides_by_zero_to_null) {
  EXPECT_EQ(value_of("1e308 * 10"), "inff");
  EXPECT_EQ(value_of("0.0 / 0"), "null");
  EXPECT_EQ(value_of("1.5 / 0"), "null");
  EXPECT_EQ(value_of("1e308 * 10 - 1e308 * 10"), "-nanf");
  EXPECT_EQ(value_of("is_nan(1e308 * 10 - 1e308 * 10)"), "true");
  EXPECT_EQ(value_of("(1e308 * 10 - 1e308 * 10) == (1e308 * 10 - 1e308 * 10)"), "false");
  EXPECT_EQ(value_of("(1e308 * 10 - 1e308 * 10) != 1"), "true");
  EXPECT_EQ(value_of("is_nan(max(1, 1e308 * 10 - 1e308 * 10))"), "true");
  EXPECT_EQ(value_of("is_nan(min(1e308 * 10 - 1e308 * 10, 1))"), "true");
  EXPECT_EQ(value_of("is_finite(1e308 * 10)"), "false");
  EXPECT_EQ(value_of("sqrt(-1)"), "null");
  EXPECT_EQ(value_of("ln(0)"), "null");
  EXPECT_EQ(value_of("pow(-8, 0.5)"), "null");
  EXPECT_EQ(value_of("pow(0, -1)"), "null");
  EXPECT_EQ(value_of("pow(2, 10)"), "1024f");
  EXPECT_EQ(value_of("-7.5 % 2"), "0.5f");
}

TEST(Expression, whole_quotients_of_floats_fit_their_rests) {
  EXPECT_EQ(value_of("1.0 // 0.1"), "9f") << "the float64 0.1 is a little over a tenth";
  EXPECT_EQ(value_of("abs(0.1 * (1.0 // 0.1) + 1.0 % 0.1 - 1.0) < 1e-15"), "true");
  EXPECT_EQ(value_of("-7.5 // 2"), "-4f");
  EXPECT_EQ(value_of("7.5 // -2.5"), "-3f");
  EXPECT_EQ(value_of("-1e-20 // 1.0"), "-1f");
  EXPECT_EQ(value_of("-1e-310 // 1e300"), "-1f") << "their quotient is too small for a float64";
  EXPECT_EQ(value_of("1.5e308 // -1e308"), "-2f") << "nothing on the way may be infinite";
  EXPECT_EQ(value_of("1e300 // 1e-5"), "9.9999999999999994e+304f");
  EXPECT_EQ(value_of("1e308 * 10 // 2"), "inff");
}

TEST(Expression, rounds_half_away_from_zero) {
  EXPECT_EQ(value_of("round(2.5)"), "3f");
  EXPECT_EQ(value_of("round(-2.5)"), "-3f");
  EXPECT_EQ(value_of("round(1234.567, -2)"), "1200f");
  EXPECT_EQ(value_of("round(1e300, 15)"), "1.0000000000000001e+300f");
  EXPECT_EQ(value_of("round(721871.05672, 15) == 721871.05672"), "true");
  EXPECT_EQ(value_of("round(-721871.05672, 2) == -721871.06"), "true");
  EXPECT_EQ(value_of("round(1.5, 99)"), "null");
  EXPECT_EQ(value_of("round(n)"), "7");
}

TEST(Expression, passes_null_on_except_where_nulls_are_the_matter) {
  EXPECT_EQ(value_of("`two words` + 1"), "null");
  EXPECT_EQ(value_of("`two words` == `two words`"), "null");
  EXPECT_EQ(value_of("is_null(`two words`)"), "true");
  EXPECT_EQ(value_of("`two words` is not null"), "false");
  EXPECT_EQ(value_of("coalesce(`two words`, null, x)"), "2.5f");
  EXPECT_EQ(value_of("false and is_null(null + 1)"), "false");
  EXPECT_EQ(value_of("`two words` > 1 and false"), "false");
  EXPECT_EQ(value_of("`two words` > 1 or true"), "true");
  EXPECT_EQ(value_of("`two words` > 1 or false"), "null");
  EXPECT_EQ(value_of("if(`two words` > 1, 1, 2)"), "2");
  EXPECT_EQ(value_of("if(false, 1, true, null, 2)"), "null");
  EXPECT_EQ(value_of("nullif(n, 7)"), "null");
  EXPECT_EQ(value_of("nullif(n, 8)"), "7");
  EXPECT_EQ(value_of("n in (1, 7, null)"), "true");
  EXPECT_EQ(value_of("n in (1, null)"), "null");
  EXPECT_EQ(value_of("n not in (1, 2)"), "true");
  EXPECT_EQ(value_of("max(n, `two words`)"), "null");
}

TEST(Expression, chooses_and_widens) {
  EXPECT_EQ(value_of("if(flag, n, x)"), "7f");
  EXPECT_EQ(value_of("if(n > 9, 'much', n > 5, 'some', 'few')"), "'some'");
  EXPECT_EQ(value_of("clamp(n, 1, 5)"), "5");
  EXPECT_EQ(value_of("min(3, 1.5, n)"), "1.5f");
  EXPECT_EQ(value_of("n == 7.0"), "true");
}

TEST(Expression, works_on_characters_not_bytes) {
  EXPECT_EQ(value_of("length(s)"), "8");
  EXPECT_EQ(value_of("substring(s, 1, 2)"), "'Ün'");
  EXPECT_EQ(value_of("substring(s, 9, 2)"), "''");
  EXPECT_EQ(value_of("substring(s, 0, 2)"), "null");
  EXPECT_EQ(value_of("lower(s)"), "'Ünal bey'");
  EXPECT_EQ(value_of("concat(upper(s), '!', string(n))"), "'ÜNAL BEY!7'");
  EXPECT_EQ(value_of("split_part(s, ' ', 2)"), "'Bey'");
  EXPECT_EQ(value_of("split_part(s, ' ', 3)"), "null");
  EXPECT_EQ(value_of("replace('aaa', 'a', 'bb')"), "'bbbbbb'");
  EXPECT_EQ(value_of("trim('  a b ')"), "'a b'");
  EXPECT_EQ(value_of("'it''s'"), "'it's'");
  EXPECT_EQ(value_of("contains(s, 'nal') and starts_with(s, 'Ü') and ends_with(s, 'y')"), "true");
  EXPECT_EQ(value_of("int64('12') + int64('-3')"), "9");
  EXPECT_EQ(value_of("int64('12 ')"), "null");
  EXPECT_EQ(value_of("float64('nan')"), "null");
  EXPECT_EQ(value_of("float64('2.5e1')"), "25f");
  EXPECT_EQ(value_of("string(0.1)"), "'0.1'");
}

TEST(Expression, does_not_let_texts_grow_without_bound) {
  // Each replace doubles it.
  std::string text = "'" + std::string(1000, 'a') + "'";
  for (int i = 0; i < 10; ++i) text = "replace(" + text + ", 'a', 'aa')";
  EXPECT_EQ(value_of(text), "null");
}

TEST(Expression, reads_the_calendar_in_utc) {
  EXPECT_EQ(value_of("at"), "2024-02-25T23:59:58.500Z");
  EXPECT_EQ(value_of("weekday(at)"), "7");
  EXPECT_EQ(value_of("hour(at) * 10000 + minute(at) * 100 + second(at)"), "235958");
  EXPECT_EQ(value_of("day_of_year(at)"), "56");
  EXPECT_EQ(value_of("start_of_week(at)"), "2024-02-19T00:00:00Z");
  EXPECT_EQ(value_of("start_of_month(add_days(at, 4))"), "2024-02-01T00:00:00Z");
  EXPECT_EQ(value_of("day(add_days(at, 4))"), "29");
  EXPECT_EQ(value_of("days_between(at, add_hours(at, 36))"), "1.5f");
  EXPECT_EQ(value_of("seconds_between(at, add_seconds(at, -5))"), "-5f");
  EXPECT_EQ(value_of("row_time() == at"), "true");
  EXPECT_EQ(value_of("timestamp('2024-02-25T23:59:58.5+00:00') == at"), "true");
  EXPECT_EQ(value_of("timestamp('yesterday')"), "null");
  EXPECT_EQ(value_of("year(timestamp('1970-01-01') ) - year(add_seconds(timestamp('1970-01-01'), "
                     "-1))"),
            "1");
  EXPECT_EQ(value_of("add_days(at, 9223372036854775807)"), "null");
  EXPECT_EQ(value_of("epoch_seconds(from_epoch_seconds(-1))"), "-1");
}

// Models are trained on buckets: these numbers may never change.
TEST(Expression, hashes_to_the_same_bucket_for_ever) {
  EXPECT_EQ(value_of("hash('a') == hash('a') and hash('a') != hash('b')"), "true");
  EXPECT_EQ(value_of("hash(0.0) == hash(-0.0)"), "true");
  EXPECT_EQ(value_of("hash(1, 2) != hash(2, 1)"), "true");
  EXPECT_EQ(value_of("bucket('falaj', 1000)"), "334");
  EXPECT_EQ(value_of("bucket(12345, 1000)"), "800");
  EXPECT_EQ(value_of("bucket(n, 0)"), "null");
}

TEST(Expression, points_at_what_is_wrong) {
  EXPECT_EQ(error_of("3 * xx"),
            "position 5: there is no column \"xx\": did you mean \"x\"?\n  3 * xx\n      ^");
  EXPECT_EQ(error_of("n +\n  flog"),
            "line 2, position 3: there is no column \"flog\": did you mean \"flag\"?\n"
            "    flog\n    ^");
  EXPECT_EQ(error_of("'Ü' == n"),
            "position 8: this is int64, but what it stands beside is string: convert one of "
            "them\n  'Ü' == n\n         ^");
  EXPECT_EQ(error_of("squirt(x)").substr(0, 39), "position 1: there is no function \"squir");
  EXPECT_EQ(error_of("sqrt(s)").substr(0, 52),
            "position 1: \"sqrt\" takes (float64), not (string)\n  s");
  EXPECT_EQ(error_of("n + ").substr(0, 59),
            "position 5: the expression ends where a value should follow");
  EXPECT_EQ(error_of("1 < 2 < 3").substr(0, 42), "position 7: comparisons do not chain: join");
  EXPECT_EQ(error_of("\"n\"").substr(0, 40), "position 1: texts stand in single quotes");
  EXPECT_NE(error_of("if(n, 1, 2)").find("a condition is a bool"), std::string::npos);
  EXPECT_NE(error_of("null").find("always null"), std::string::npos);
  EXPECT_NE(error_of("coalesce(null, null)").find("all of its values are null"), std::string::npos);
}

TEST(Expression, refuses_what_is_not_in_the_language) {
  for (const char* text : {"",
                           " ",
                           "1 2",
                           "(1",
                           "1)",
                           "n n",
                           "f(",
                           "'open",
                           "`open",
                           "n ** 2",
                           "n & 1",
                           "1e",
                           "1.2.3",
                           "12abc",
                           "9223372036854775808",
                           "1e400",
                           "n in ()",
                           "n is 3",
                           "not",
                           "concat(1, 2)",
                           "if(true, 1)",
                           "row_time(1)",
                           "hash()",
                           "hash(null)",
                           "bucket(n, x)",
                           "`hash both`(1, 2)",
                           "n + 'a'",
                           "at + 1",
                           "flag + flag",
                           "-s",
                           "not n",
                           "n; drop",
                           "n -- 1 x"}) {
    EXPECT_FALSE(Expression::compile(text, schema(), "at").ok()) << text;
  }
  EXPECT_FALSE(Expression::compile("row_time()", schema()).ok());
  EXPECT_FALSE(Expression::compile("'\xff'", schema()).ok());
  EXPECT_FALSE(Expression::compile(std::string_view("n\0", 2), schema()).ok());
}

TEST(Expression, refuses_bombs_at_once) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '(') + "1" + std::string(depth, ')');
  };
  EXPECT_EQ(value_of(nested(kDepthMax)), "1");
  EXPECT_NE(error_of(nested(kDepthMax + 1)).find("levels inside each other"), std::string::npos);
  EXPECT_FALSE(Expression::compile(std::string(4000, '('), schema()).ok());
  std::string minus;
  for (int i = 0; i < 1000; ++i) minus += "- ";
  EXPECT_FALSE(Expression::compile(minus + "n", schema()).ok());
  std::string long_sum = "1";
  for (int i = 0; i < 300; ++i) long_sum += "+1";
  EXPECT_NE(error_of(long_sum).find("over 512 parts"), std::string::npos);
  EXPECT_NE(error_of(std::string(kLengthMax + 1, ' ')).find("bytes, over 4096"), std::string::npos);
}

TEST(Expression, tells_which_columns_it_reads) {
  const auto made = Expression::compile("x + n * x + hour(row_time())", schema(), "at");
  ASSERT_TRUE(made.ok());
  const std::vector<table::Field> wanted{
      {"x", Type::kFloat64}, {"n", Type::kInt64}, {"at", Type::kTimestamp}};
  EXPECT_EQ(made->columns(), wanted);
  EXPECT_EQ(made->type(), Type::kFloat64);
}

TEST(Expression, widens_the_extremes_of_int64) {
  EXPECT_EQ(value_of(std::to_string(kLeast) + " == " + std::to_string(kLeast)), "true");
  EXPECT_EQ(value_of(std::to_string(kMost)), "9223372036854775807");
}

}  // namespace
}  // namespace falaj::expression
