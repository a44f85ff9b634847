#include "config/yaml.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/json.h"

namespace falaj::config {
namespace {

Value one(std::string_view text) {
  const auto documents = parse_yaml(text);
  EXPECT_TRUE(documents.ok()) << (documents.ok() ? "" : documents.error().message);
  return documents.ok() && documents->size() == 1 ? documents->front() : Value("not one document");
}

Error error_of(std::string_view text) {
  const auto documents = parse_yaml(text);
  return documents.ok() ? Error(Code::kInternal, "accepted") : documents.error();
}

TEST(Yaml, types_scalars_as_json_would) {
  EXPECT_EQ(to_json(one("[true, false, null, ~, 5, -3, 1.5, 1e3, text]")),
            R"([true,false,null,null,5,-3,1.5,1000.0,"text"])");
  EXPECT_EQ(to_json(one("[yes, no, True, 0123, 1_000, 0x1F, +5, .5, 1., -, 2026-11-16, 1e999]")),
            R"(["yes","no","True","0123","1_000","0x1F","+5",".5","1.","-","2026-11-16","1e999"])");
  EXPECT_EQ(to_json(one("['5', \"true\", 'null', \"\", !  5]")), R"(["5","true","null","","5"])");
  EXPECT_EQ(one("a: 9223372036854775807").integer("a"), 9223372036854775807);
}

TEST(Yaml, reads_the_design_s_own_examples) {
  const auto documents = parse_yaml(
      "kind: Zone\nspec: {parent: ae, retention: 5y}\n---\n# a comment\nkind: FeatureView\n"
      "metadata: {name: activity, labels: {team: risk}}\nspec:\n  features:\n"
      "    - {name: amount, type: float64, expect: {min: 0, nulls_max: 0.1%}}\n"
      "    - {name: n, aggregate: {count: \"*\", window: 7d}}\n  online: true\n");
  ASSERT_TRUE(documents.ok()) << documents.error().message;
  ASSERT_EQ(documents->size(), 2u);
  EXPECT_EQ(to_json((*documents)[1]),
            R"({"kind":"FeatureView","metadata":{"labels":{"team":"risk"},"name":"activity"},)"
            R"("spec":{"features":[{"expect":{"min":0,"nulls_max":"0.1%"},"name":"amount",)"
            R"("type":"float64"},{"aggregate":{"count":"*","window":"7d"},"name":"n"}],)"
            R"("online":true}})");
}

TEST(Yaml, reads_block_texts_and_skips_empty_documents) {
  EXPECT_EQ(one("a: |\n  one\n  two\n").text("a"), "one\ntwo\n");
  EXPECT_EQ(one("a: >\n  one\n  two\n").text("a"), "one two\n");
  EXPECT_TRUE(parse_yaml("")->empty());
  EXPECT_TRUE(parse_yaml("# only a comment\n")->empty());
  EXPECT_EQ(parse_yaml("---\n---\na: 1\n---\n")->size(), 1u);
  EXPECT_EQ(parse_yaml("\xef\xbb\xbf"
                       "a: \xc3\xa9\r\n---\r\nb: 2\r\n--- {c: 3}\n...\n")
                ->size(),
            3u);
}

TEST(Yaml, refuses_anchors_aliases_and_tags) {
  for (const char* text : {"a: &x 1\nb: *x\n", "a: &x [1]\n", "&x a: 1\n", "a: *x\n", "a: &x 'q'\n",
                           "a: !!str 5\n", "a: !mine {b: 1}\n", "- !!binary aGk=\n", "a: &x\n"}) {
    EXPECT_EQ(error_of(text).id, ErrorId::kMalformedYaml) << text;
  }
  // What would unfold into a billion texts dies at its first anchor.
  EXPECT_NE(error_of("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n").message.find("line 1"),
            std::string::npos);
}

TEST(Yaml, refuses_duplicate_and_odd_keys) {
  const Error twice = error_of("a: 1\nb: 2\na: 3\n");
  EXPECT_EQ(twice.id, ErrorId::kDuplicateField);
  EXPECT_EQ(twice.message, "YAML line 3 column 1: the key 'a' stands twice: keep one");
  EXPECT_EQ(error_of("{a: 1, \"a\": 2}").id, ErrorId::kDuplicateField);
  for (const char* text : {"? [1, 2]\n: x\n", "? {a: 1}\n: x\n", "~: 1\n", ": 1\n"}) {
    EXPECT_EQ(error_of(text).id, ErrorId::kMalformedYaml) << text;
  }
}

TEST(Yaml, an_error_names_line_and_column) {
  const Error broken = error_of("a: 1\nb: [1, 2\n");
  EXPECT_EQ(broken.id, ErrorId::kMalformedYaml);
  EXPECT_EQ(broken.message.find("YAML line "), 0u) << broken.message;
  for (const char* text :
       {"a: b: c", "\"unclosed", "{a", "[1, 2", "\t- x", "a: 'x", "%YAML 9.9\n---\n", "- a\nb: c\n",
        "a: @x", "a: `x", ",", "--- ,  - -", "--- ]\n", "a: 1\n... b: 2\n"}) {
    EXPECT_EQ(error_of(text).id, ErrorId::kMalformedYaml) << text;
  }
}

TEST(Yaml, holds_its_limits) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_yaml(nested(64)).ok());
  EXPECT_EQ(error_of(nested(65)).id, ErrorId::kTooDeep);
  EXPECT_EQ(error_of(nested(100'000)).id, ErrorId::kTooDeep);
  // Never closed: the reader looks for the end before it says that anything began.
  EXPECT_FALSE(parse_yaml(std::string(100'000, '[')).ok());
  EXPECT_FALSE(parse_yaml(std::string(100'000, '{')).ok());
  std::string stairs;
  for (std::size_t i = 0; i < 100; ++i) stairs += std::string(i, ' ') + "a:\n";
  EXPECT_EQ(error_of(stairs).id, ErrorId::kTooDeep);
  EXPECT_EQ(parse_yaml("a: 1", {.bytes_max = 3}).error().id, ErrorId::kBodyTooLarge);
  EXPECT_EQ(error_of("a: \xff").id, ErrorId::kInvalidUtf8);
  EXPECT_EQ(error_of(std::string_view("a: \0b", 5)).id, ErrorId::kMalformedYaml);
}

TEST(Yaml, writes_for_people) {
  const Value value =
      parse_json(R"({"kind":"Model","spec":{"tags":["a","b"],"rows":[[1,2],[]],"o":{},"on":true,
                     "list":[{"k":1,"m":"x"},{"k":2}],"t":"yes","u":"user:dev","v":"a: b"}})")
          .value();
  EXPECT_EQ(to_yaml(value),
            "kind: Model\n"
            "spec:\n"
            "  list:\n"
            "    - k: 1\n"
            "      m: x\n"
            "    - k: 2\n"
            "  o: {}\n"
            "  \"on\": true\n"
            "  rows:\n"
            "    - - 1\n"
            "      - 2\n"
            "    - []\n"
            "  t: \"yes\"\n"
            "  tags:\n"
            "    - a\n"
            "    - b\n"
            "  u: user:dev\n"
            "  v: \"a: b\"\n");
  EXPECT_EQ(to_yaml(Value(std::nan(""))), "null\n");
}

Value random_value(std::mt19937_64& random, int depth) {
  static constexpr std::string_view kTexts[] = {"",           "a",         "true",
                                                "null",       "~",         "5",
                                                "-1.5",       "1e3",       "yes",
                                                " lead",      "trail ",    "a: b",
                                                "a #b",       "a:",        "- x",
                                                "two\nlines", "tab\there", "\"q\"",
                                                "'q'",        "\\",        "é",
                                                "\x7f",       "\x01",      "[x]",
                                                "{x}",        "*a",        "&a",
                                                "!t",         "%d",        "@x",
                                                "`x",         "|",         ">",
                                                "?",          "a  b",      "user:dev",
                                                "a:b: c",     "#x",        "---",
                                                "...",        "0123",      "\u2028x",
                                                "\u0085",     "😀",        "\r\n",
                                                "x,y",        "Inf",       "a\\nb",
                                                "<<",         "=",         "2026-11-16T08:30:00Z"};
  switch (random() % (depth > 4 ? 5 : 7)) {
    case 0:
      return {};
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return static_cast<double>(static_cast<std::int64_t>(random())) / 1024.0;
    case 4:
      return kTexts[random() % std::size(kTexts)];
    case 5: {
      Value out = Value::array();
      for (auto n = random() % 4; n > 0; --n) out.push(random_value(random, depth + 1));
      return out;
    }
    default: {
      Value out = Value::object();
      for (auto n = random() % 4; n > 0; --n) {
        out[kTexts[random() % std::size(kTexts)]] = random_value(random, depth + 1);
      }
      return out;
    }
  }
}

TEST(Yaml, keys_may_be_long) {
  for (const std::size_t size : {998u, 999u, 1000u, 1024u, 5000u}) {
    Value value = Value::object();
    value["first"] = 1;
    value[std::string(size, '.')] = "text";
    value["z" + std::string(size, '\x0b')]["inner"].push(5);
    ASSERT_EQ(one(to_yaml(value)), value) << size;
  }
}

TEST(Yaml, what_is_written_reads_back_the_same) {
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Value value = random_value(random, 0);
    const std::string text = to_yaml(value);
    const auto back = parse_yaml(text);
    ASSERT_TRUE(back.ok()) << back.error().message << "\n" << text;
    if (value.is_null()) {
      ASSERT_TRUE(back->empty());
      continue;
    }
    ASSERT_EQ(back->size(), 1u) << text;
    ASSERT_EQ(back->front(), value) << text;
  }
}

// JSON is YAML: whatever our writer of JSON gives, the reader of YAML takes.
TEST(Yaml, reads_json) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Value value = Value::object();
    value["v"] = random_value(random, 0);
    ASSERT_EQ(one(to_pretty_json(value)), value) << to_pretty_json(value);
  }
}

}  // namespace
}  // namespace falaj::config
