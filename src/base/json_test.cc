#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace falaj {
namespace {

ErrorId id_of(std::string_view text) {
  const auto parsed = parse_json(text);
  return parsed.ok() ? ErrorId::kInternal : parsed.error().id;
}

TEST(Json, reads_every_kind_of_value) {
  EXPECT_TRUE(parse_json(" null ")->is_null());
  EXPECT_EQ(parse_json("true")->as_bool(), true);
  EXPECT_EQ(parse_json("-9223372036854775808")->as_int(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_json("9223372036854775808")->as_double(), 9223372036854775808.0);
  EXPECT_EQ(parse_json("1.5e3")->as_double(), 1500.0);
  EXPECT_EQ(parse_json(R"("aé\n\u00e9\ud83d\ude00")")->as_string(),
            "a\xc3\xa9\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(to_json(*parse_json(R"( {"b" : [1, 2.0, {}], "a":"x"} )")),
            R"({"a":"x","b":[1,2.0,{}]})");
}

TEST(Json, numbers_at_the_edges) {
  EXPECT_TRUE(std::signbit(parse_json("-0")->as_double()));
  EXPECT_EQ(parse_json("1e-400")->as_double(), 0.0);
  EXPECT_EQ(parse_json("0e999999999999")->as_double(), 0.0);
  EXPECT_EQ(parse_json("5e-324")->as_double(), 5e-324);
  EXPECT_EQ(parse_json("0." + std::string(400, '0') + "1")->as_double(), 0.0);
  EXPECT_EQ(parse_json("1" + std::string(400, '0') + "e-400")->as_double(), 1.0);
  EXPECT_EQ(id_of("1" + std::string(400, '0') + "e-1"), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of("1e400"), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of("1" + std::string(400, '0')), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of("1e99999999999999999999"), ErrorId::kMalformedJson);
  EXPECT_EQ(parse_json("1e-99999999999999999999")->as_double(), 0.0);
}

TEST(Json, refuses_what_a_careless_peer_lets_through) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{1:1}",
                           "nul",
                           "nulll",
                           "tru",
                           "TRUE",
                           "01",
                           "-",
                           "-a",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "1e+",
                           "0x1",
                           "NaN",
                           "Infinity",
                           "-Infinity",
                           "'a'",
                           "\"a",
                           "\"\\",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\t\"",
                           "\"\n\"",
                           "\"\\u0000\"",
                           "1 2",
                           "[] []",
                           "{}x",
                           "// c\n1",
                           "[1 2]",
                           "{\"a\" 1}",
                           "\xef\xbb\xbf{}",
                           "\"\\u+123\"",
                           "\"\\u 123\""}) {
    EXPECT_EQ(id_of(text), ErrorId::kMalformedJson) << text;
  }
  EXPECT_EQ(id_of(std::string_view("\0", 1)), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of(std::string_view("1\0", 2)), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of(std::string_view("\"a\0b\"", 5)), ErrorId::kMalformedJson);
  EXPECT_EQ(id_of(R"({"a":1,"a":2})"), ErrorId::kDuplicateField);
  EXPECT_EQ(id_of(R"({"a":1,"\u0061":2})"), ErrorId::kDuplicateField);
  EXPECT_EQ(id_of("\"\xff\""), ErrorId::kInvalidUtf8);
  EXPECT_EQ(id_of(R"("\ud800")"), ErrorId::kInvalidUtf8);
  EXPECT_EQ(id_of(R"("\udc00\ud800")"), ErrorId::kInvalidUtf8);
}

TEST(Json, holds_its_limits) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(64)).ok());
  EXPECT_EQ(id_of(nested(65)), ErrorId::kTooDeep);
  EXPECT_EQ(id_of(std::string(1'000'000, '[')), ErrorId::kTooDeep);
  EXPECT_TRUE(parse_json("[1]", {.bytes_max = 3}).ok());
  EXPECT_EQ(parse_json("[1] ", {.bytes_max = 3}).error().id, ErrorId::kBodyTooLarge);
}

TEST(Json, an_error_names_line_and_column) {
  EXPECT_NE(parse_json("{\n  \"a\": x\n}").error().message.find("line 2 column 8"),
            std::string::npos);
}

TEST(Json, writes_canonically) {
  EXPECT_EQ(to_json(Value(Value::Object{{"b", 1}, {"a", nullptr}})), R"({"a":null,"b":1})");
  EXPECT_EQ(to_json(Value(std::nan(""))), "null");
  EXPECT_EQ(to_json(Value(0.1)), "0.1");
  EXPECT_EQ(to_json(Value(1.0)), "1.0");
  EXPECT_EQ(to_json(Value(std::string("\"\\\n\x01\x7f"))), "\"\\\"\\\\\\n\\u0001\x7f\"");
  EXPECT_EQ(to_json(Value("a\xff")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(to_pretty_json(*parse_json(R"({"a":[1,{}],"b":[]})")),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
  std::string out;
  append_json_number(out, 1.0);
  EXPECT_EQ(out, "1");
}

TEST(Utf8, knows_overlong_forms_and_surrogates) {
  EXPECT_TRUE(is_valid_utf8("plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80, \xf4\x8f\xbf\xbf"));
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "eight by\xc3", "\xe2\x82"}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << bad;
  }
}

// From here nlohmann's reader is the oracle.
Value from_oracle(const nlohmann::json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer() && !json.is_number_unsigned()) return json.get<std::int64_t>();
  if (json.is_number_unsigned()) {
    const auto n = json.get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return static_cast<double>(n);
    }
    return static_cast<std::int64_t>(n);
  }
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Value out = Value::array();
    for (const auto& element : json) out.push(from_oracle(element));
    return out;
  }
  Value out = Value::object();
  for (const auto& [key, member] : json.items()) out[key] = from_oracle(member);
  return out;
}

Value random_value(std::mt19937_64& random, int depth) {
  static constexpr double kDoubles[] = {0.1, -1.5e300, 5e-324, 1.0, 1e21, 123456789012345680000.0};
  switch (random() % (depth > 4 ? 6 : 8)) {
    case 0:
      return {};
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<std::int64_t>(random() % 100);
    case 4:
      return kDoubles[random() % std::size(kDoubles)];
    case 5: {
      static constexpr std::string_view kParts[] = {"a", "\"", "\\", "\n", "\xc3\xa9", "\x01", "/"};
      std::string text;
      for (auto n = random() % 6; n > 0; --n) text += kParts[random() % std::size(kParts)];
      return text;
    }
    case 6: {
      Value out = Value::array();
      for (auto n = random() % 5; n > 0; --n) out.push(random_value(random, depth + 1));
      return out;
    }
    default: {
      Value out = Value::object();
      for (auto n = random() % 5; n > 0; --n) {
        out["k" + std::to_string(random() % 20)] = random_value(random, depth + 1);
      }
      return out;
    }
  }
}

TEST(Json, what_is_written_reads_back_the_same_here_and_in_the_oracle) {
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Value value = random_value(random, 0);
    const std::string text = to_json(value);
    ASSERT_EQ(parse_json(text).value(), value) << text;
    ASSERT_EQ(parse_json(to_pretty_json(value)).value(), value) << text;
    ASSERT_EQ(from_oracle(nlohmann::json::parse(text)), value) << text;
  }
}

// Random damage: whoever accepts must have read the same; we refuse whatever the oracle refuses.
TEST(Json, never_accepts_what_the_oracle_refuses) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::string text = to_json(random_value(random, 0));
    for (auto n = 1 + random() % 2; n > 0; --n) {
      static constexpr std::string_view kBytes = "{}[]\":,0-1e.\\ut\xc3 \n";
      const char byte = kBytes[random() % kBytes.size()];
      const std::size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0 && at < text.size()) {
        text[at] = byte;
      } else {
        text.insert(at, 1, byte);
      }
    }
    const auto ours = parse_json(text);
    const auto theirs = nlohmann::json::parse(text, nullptr, false);
    if (ours.ok()) {
      ++accepted;
      ASSERT_FALSE(theirs.is_discarded()) << text;
      // The oracle drops the sign of an integer -0, which equality does not see.
      ASSERT_TRUE(*ours == from_oracle(theirs) || text.find("-0") != std::string::npos) << text;
    } else if (!theirs.is_discarded()) {
      // We are stricter in these cases only.
      const ErrorId id = ours.error().id;
      ASSERT_TRUE(id == ErrorId::kDuplicateField || text.find("\\u0000") != std::string::npos)
          << text << ": " << ours.error().message;
    }
  }
  EXPECT_GT(accepted, 1'000);
}

}  // namespace
}  // namespace falaj
