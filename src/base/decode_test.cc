#include "base/decode.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj {
namespace {

Value json(std::string_view text) { return parse_json(text).value(); }

TEST(Fields, reads_each_kind) {
  const Value spec = json(R"({"t":"x","i":3,"n":2.5,"b":true,"d":"30d","z":"64Mi","s":"1%",
                              "l":["a","b"],"o":{"k":1},"c":"two","m":4096,"r":0.5})");
  Fields fields(spec, "spec");
  EXPECT_EQ(*fields.required_text("t"), "x");
  EXPECT_EQ(*fields.integer("i", 0, 1, 5), 3);
  EXPECT_EQ(*fields.number("n", 0), 2.5);
  EXPECT_EQ(*fields.number("i", 0), 3.0);
  EXPECT_TRUE(*fields.boolean("b", false));
  EXPECT_EQ(*fields.duration("d", Duration{}), Duration::days(30));
  EXPECT_EQ(*fields.bytes("z", 0), 64 << 20);
  EXPECT_EQ(*fields.bytes("m", 0), 4096);
  EXPECT_EQ(*fields.share("s", 0), 0.01);
  EXPECT_EQ(*fields.share("r", 0), 0.5);
  EXPECT_EQ(*fields.texts("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.object("o")->integer("k"), 1);
  EXPECT_EQ(*fields.choice("c", {"one", "two"}), "two");
  EXPECT_TRUE(fields.finish().ok());
}

TEST(Fields, absent_and_null_members_take_the_fallback) {
  const Value spec = json(R"({"t":null})");
  Fields fields(spec, "spec");
  EXPECT_EQ(*fields.text("t", "f"), "f");
  EXPECT_EQ(*fields.integer("i", 7, 0, 9), 7);
  EXPECT_EQ(*fields.choice("c", {"one", "two"}), "one");
  EXPECT_TRUE(fields.texts("l")->empty());
  EXPECT_TRUE(fields.object("o")->is_object());
  EXPECT_TRUE(fields.finish().ok());
  const Value nothing;
  EXPECT_TRUE(Fields(nothing, "spec").finish().ok());
}

TEST(Fields, says_what_is_wrong) {
  const Value spec = json(R"({"t":5,"i":"x","big":99,"d":"5","l":[1],"c":"three","s":2})");
  Fields fields(spec, "View spec");
  EXPECT_EQ(fields.required_text("absent").error().id, ErrorId::kMissingField);
  EXPECT_EQ(fields.text("t").error().id, ErrorId::kWrongType);
  EXPECT_EQ(fields.text("t").error().message, "View spec: 't' must be a text, but it is integer");
  EXPECT_EQ(fields.integer("i", 0, 0, 9).error().id, ErrorId::kWrongType);
  EXPECT_EQ(fields.integer("big", 0, 0, 9).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(fields.duration("d", {}).error().id, ErrorId::kInvalidUnit);
  EXPECT_EQ(fields.duration("big", {}).error().id, ErrorId::kWrongType);
  EXPECT_EQ(fields.texts("l").error().id, ErrorId::kWrongType);
  EXPECT_EQ(fields.choice("c", {"one", "two"}).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(fields.choice("c", {"one", "two"}).error().message,
            "View spec: 'c' is 'three', but must be one or two");
  EXPECT_EQ(fields.share("s", 0).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(fields.list("t").error().id, ErrorId::kWrongType);
  EXPECT_EQ(fields.object("t").error().id, ErrorId::kWrongType);
}

TEST(Fields, an_unread_member_is_refused_with_the_nearest_name) {
  const Value spec = json(R"({"entiy":"customer"})");
  Fields fields(spec, "spec");
  EXPECT_TRUE(fields.text("entity").ok());
  EXPECT_TRUE(fields.text("source").ok());
  const Status status = fields.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().id, ErrorId::kUnknownField);
  EXPECT_EQ(status.error().message, "spec: unknown field 'entiy': did you mean 'entity'?");
  const Value list = json("[1]");
  EXPECT_EQ(Fields(list, "spec").finish().error().id, ErrorId::kWrongType);
}

TEST(NearestName, counts_swaps_as_one_and_gives_up_on_strangers) {
  const std::vector<std::string> names{"server.port", "server.host", "log.level"};
  EXPECT_EQ(nearest_name("server.prot", names), "server.port");
  EXPECT_EQ(nearest_name("log.levle", names), "log.level");
  EXPECT_EQ(nearest_name("zzz", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), names), "");
}

TEST(CheckName, holds_the_rule) {
  for (const char* good : {"a", "7", "customer_activity", "a-b_c9"}) {
    EXPECT_TRUE(check_name("name", good).ok()) << good;
  }
  EXPECT_TRUE(check_name("name", std::string(63, 'a')).ok());
  for (const std::string& bad :
       {std::string(), std::string(64, 'a'), std::string("A"), std::string("-a"), std::string("a_"),
        std::string("a b"), std::string("../x"), std::string("a\0b", 3)}) {
    ASSERT_FALSE(check_name("name", bad).ok()) << bad;
    EXPECT_EQ(check_name("name", bad).error().id, ErrorId::kInvalidName);
  }
}

}  // namespace
}  // namespace falaj
