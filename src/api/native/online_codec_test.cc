#include "api/native/online_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/json.h"

namespace falaj::api {
namespace {

using features::FeatureStatus;
using table::Type;

TEST(ReadCodec, reads_entities_features_and_the_age) {
  ReadRequest request;
  ASSERT_TRUE(parse_read(R"({"entities":[{"c":7,"m":"x"},{"c":-8,"m":""}],)"
                         R"("features":["b","a"],"max_age":"15m"})",
                         request)
                  .ok());
  ASSERT_EQ(request.entities.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(request.entities[1][0].second), -8);
  EXPECT_EQ(request.features, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(request.max_age, Duration::minutes(15));
  // The next one begins anew.
  ASSERT_TRUE(parse_read(R"({"entities":[{"c":1}]})", request).ok());
  EXPECT_EQ(request.entities.size(), 1u);
  EXPECT_TRUE(request.features.empty());
  EXPECT_EQ(request.max_age, Duration{});
}

TEST(ReadCodec, says_what_is_wrong_with_a_body) {
  ReadRequest request;
  const auto id = [&](std::string_view body) { return parse_read(body, request).error().id; };
  EXPECT_EQ(id(""), ErrorId::kMalformedJson);
  EXPECT_EQ(id("{"), ErrorId::kMalformedJson);
  EXPECT_EQ(id("{}"), ErrorId::kMalformedJson);
  EXPECT_EQ(id(R"({"entities":[{"c":1.5}]})"), ErrorId::kWrongType);
  EXPECT_EQ(id(R"({"entities":[{"c":null}]})"), ErrorId::kWrongType);
  EXPECT_EQ(id(R"({"entities":[{"c":1}],"features":"a"})"), ErrorId::kWrongType);
  EXPECT_EQ(id(R"({"entities":[{"c":1}],"max_age":3})"), ErrorId::kWrongType);
  EXPECT_EQ(id(R"({"entities":[{"c":1}],"max_age":"0s"})"), ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"entities":[{"c":1}],"entitys":[]})"), ErrorId::kUnknownField);
  std::string many = R"({"entities":[)";
  for (std::size_t i = 0; i <= ReadRequest::kEntitiesMax; ++i) {
    many.append(i > 0 ? "," : "").append(R"({"c":1})");
  }
  EXPECT_EQ(id(many + "]}"), ErrorId::kOutOfRange);
}

TEST(ReadCodec, writes_every_type_in_the_order_asked_for) {
  features::OnlinePlan plan;
  plan.keys = {{"c", Type::kInt64}};
  plan.columns = {{"n", Type::kInt64},
                  {"x", Type::kFloat64},
                  {"s", Type::kString},
                  {"b", Type::kBool},
                  {"t", Type::kTimestamp}};
  plan.views.resize(2);
  plan.sources = {0, 0, 0, 1, 1};
  features::OnlineAnswer answer;
  answer.commit = 9;
  answer.columns = 5;
  answer.views = 2;
  answer.texts = "say \"hi\"";
  answer.statuses.assign(5, FeatureStatus::kPresent);
  answer.words = {std::bit_cast<std::uint64_t>(std::int64_t{-9007199254740993}),
                  std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity()),
                  answer.texts.size(), 1, 0};
  answer.events = {Timestamp::from_seconds(60), Timestamp::min()};
  ReadRequest request;
  ASSERT_TRUE(
      parse_read(R"({"entities":[{"c":1}],"features":["t","b","s","x","n"]})", request).ok());
  const auto columns = wanted_columns(request, plan);
  ASSERT_TRUE(columns.ok());
  const std::string text = write_read(request, *columns, {plan, answer, Timestamp{}});
  EXPECT_EQ(text,
            R"({"commit":9,"at":"1970-01-01T00:00:00Z","features":["t","b","s","x","n"],)"
            R"("rows":[{"entity":{"c":1},"values":["1970-01-01T00:00:00Z",true,"say \"hi\"",null,)"
            R"(-9007199254740993],"statuses":["PRESENT","PRESENT","PRESENT","NULL_VALUE",)"
            R"("PRESENT"],"event_times":[null,null,"1970-01-01T00:01:00Z",)"
            R"("1970-01-01T00:01:00Z","1970-01-01T00:01:00Z"]}]})");
  EXPECT_TRUE(parse_json(text).ok());
  request.features = {"nn"};
  EXPECT_EQ(wanted_columns(request, plan).error().id, ErrorId::kReferenceMissing);
}

}  // namespace
}  // namespace falaj::api
