#include "base/value.h"

#include <gtest/gtest.h>

namespace falaj {
namespace {

TEST(Value, builds_objects_and_lists_from_null) {
  Value v;
  v["name"] = "fraud";
  v["spec"]["rows"] = 3;
  v["tags"].push("a");
  v["tags"].push(2.5);
  EXPECT_EQ(v.text("name"), "fraud");
  EXPECT_EQ(v["spec"].integer("rows"), 3);
  EXPECT_EQ(v["tags"].as_array().size(), 2u);
  EXPECT_EQ(v["tags"].as_array()[1].as_double(), 2.5);
  EXPECT_TRUE(v.has("name"));
  EXPECT_FALSE(v.has("none"));
}

TEST(Value, reading_what_is_absent_gives_null_and_fallbacks) {
  const Value v = 5;
  EXPECT_TRUE(v["a"]["b"].is_null());
  EXPECT_EQ(v.text("a", "x"), "x");
  EXPECT_EQ(v.number("a", 1.5), 1.5);
  const Value mixed(Value::Object{{"n", 3}, {"t", "s"}});
  EXPECT_EQ(mixed.number("n"), 3.0);
  EXPECT_EQ(mixed.integer("t", 9), 9);
}

TEST(Value, names_its_type) {
  EXPECT_EQ(Value().type_name(), "null");
  EXPECT_EQ(Value(true).type_name(), "bool");
  EXPECT_EQ(Value(1).type_name(), "integer");
  EXPECT_EQ(Value(1.0).type_name(), "number");
  EXPECT_EQ(Value("x").type_name(), "text");
  EXPECT_EQ(Value::array().type_name(), "list");
  EXPECT_EQ(Value::object().type_name(), "object");
}

TEST(ValueDeath, reading_the_wrong_type_stops_the_process) {
  EXPECT_DEATH(static_cast<void>(Value(1).as_string()), "broken invariant: is_string");
  EXPECT_DEATH(static_cast<void>(Value("x").as_double()), "broken invariant: is_number");
}

}  // namespace
}  // namespace falaj
