#include "table/batch.h"

#include <gtest/gtest.h>

#include <cmath>

namespace falaj::table {
namespace {

Column words(std::initializer_list<const char*> texts) {
  Column column(Type::kString);
  for (const char* text : texts) {
    if (text == nullptr) {
      column.push_null();
    } else {
      column.push_string(text);
    }
  }
  return column;
}

TEST(Type, names_read_back_and_narrow_names_widen) {
  for (const Type type :
       {Type::kBool, Type::kInt64, Type::kFloat64, Type::kString, Type::kTimestamp}) {
    EXPECT_EQ(parse_type(type_name(type)).value(), type);
  }
  EXPECT_EQ(parse_type("int32").value(), Type::kInt64);
  EXPECT_EQ(parse_type("float32").value(), Type::kFloat64);
  const Result<Type> unknown = parse_type("decimal");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("decimal"), std::string::npos);
}

TEST(Column, a_null_holds_nothing_and_is_counted) {
  Column column(Type::kInt64);
  column.push_int(7);
  column.push_null();
  column.push_int(9);
  EXPECT_EQ(column.size(), 3u);
  EXPECT_EQ(column.null_count(), 1u);
  EXPECT_FALSE(column.is_null(0));
  EXPECT_TRUE(column.is_null(1));
  EXPECT_EQ(column.ints(), (std::vector<std::int64_t>{7, 0, 9}));
}

TEST(Column, equal_content_is_equal_however_it_was_made) {
  Column pushed(Type::kFloat64);
  pushed.push_double(1.5);
  pushed.push_double(2.5);
  EXPECT_EQ(pushed, Column::of_doubles({1.5, 2.5}));
  EXPECT_EQ(pushed, Column::of_doubles({1.5, 2.5}, {1, 1}));
  EXPECT_NE(pushed, Column::of_doubles({1.5, 0}, {1, 0}));
}

TEST(Column, take_reorders_repeats_and_makes_missing_rows_null) {
  const Column column = words({"a", nullptr, "ccc"});
  EXPECT_EQ(column.take({2, 0, 2, Column::kNoRow, 1}),
            words({"ccc", "a", "ccc", nullptr, nullptr}));
  // Rows without the null give a column without nulls.
  EXPECT_EQ(column.take({0, 2}), words({"a", "ccc"}));
}

TEST(Column, append_keeps_nulls_of_both_sides) {
  Column left = words({"a", "b"});
  left.append(words({nullptr, "d"}));
  left.append(words({"e"}));
  EXPECT_EQ(left, words({"a", "b", nullptr, "d", "e"}));
}

TEST(Column, push_from_copies_values_and_nulls_of_each_type) {
  for (const Type type :
       {Type::kBool, Type::kInt64, Type::kFloat64, Type::kString, Type::kTimestamp}) {
    Column from(type);
    from.push_null();
    if (type == Type::kBool) from.push_bool(true);
    if (type == Type::kInt64 || type == Type::kTimestamp) from.push_int(42);
    if (type == Type::kFloat64) from.push_double(0.25);
    if (type == Type::kString) from.push_string("x");
    Column to(type);
    to.push_from(from, 0);
    to.push_from(from, 1);
    EXPECT_EQ(to, from) << type_name(type);
  }
}

TEST(Column, numbers_for_a_model_widen_and_nulls_are_nan) {
  EXPECT_EQ(Column::of_ints(Type::kInt64, {3}).number_at(0), 3.0);
  EXPECT_EQ(Column::of_ints(Type::kTimestamp, {2'500'000'000}).number_at(0), 2.5);
  EXPECT_EQ(Column::of_bools({1}).number_at(0), 1.0);
  EXPECT_TRUE(std::isnan(Column::of_doubles({0}, {0}).number_at(0)));
  EXPECT_TRUE(std::isnan(words({"7"}).number_at(0)));
}

TEST(ColumnDeathTest, asking_for_another_type_stops_the_process) {
  const Column column(Type::kInt64);
  EXPECT_DEATH(column.doubles(), "kFloat64");
}

TEST(Batch, add_refuses_a_taken_name_and_another_length) {
  Batch batch;
  ASSERT_TRUE(batch.add({"a", Type::kInt64}, Column::of_ints(Type::kInt64, {1, 2})).ok());
  EXPECT_EQ(batch.add({"a", Type::kInt64}, Column::of_ints(Type::kInt64, {1, 2})).error().code,
            Code::kConflict);
  EXPECT_EQ(batch.add({"b", Type::kInt64}, Column::of_ints(Type::kInt64, {1})).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(batch.rows(), 2u);
  EXPECT_EQ(batch.find("b"), nullptr);
  ASSERT_NE(batch.find("a"), nullptr);
}

}  // namespace
}  // namespace falaj::table
