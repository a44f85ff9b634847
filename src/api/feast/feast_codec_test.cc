#include "api/feast/feast_codec.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/json.h"

namespace falaj::api {
namespace {

using features::FeatureStatus;
using table::Type;

TEST(FeastCodec, reads_what_its_clients_send) {
  const auto read = parse_feast_read(
      R"({"entities":{"driver_id":[1001,1002],"city":["a","b"]},"full_feature_names":true,)"
      R"("include_feature_view_version_metadata":false,"features":["d:x","c:y","d:z","d:x"]})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->rows, 2u);
  EXPECT_EQ(read->names, features::NameStyle::kFull);
  const FeastViews views = views_of(*read);
  ASSERT_EQ(views.views.size(), 2u);
  EXPECT_EQ(views.views[0].features, (std::vector<std::string>{"x", "z"}));
  EXPECT_EQ(views.columns, (std::vector<std::size_t>{0, 2, 1, 0}));
  const auto service = parse_feast_read(R"({"feature_service":"s","entities":{"k":["1"]}})");
  ASSERT_TRUE(service.ok());
  EXPECT_EQ(service->service, "s");
}

TEST(FeastCodec, refuses_what_cannot_be_meant) {
  for (const char* body : {
           "",
           "[]",
           R"({"features":["a:b"]})",
           R"({"entities":{"k":[1]}})",
           R"({"entities":{"k":[1]},"features":["a"]})",
           R"({"entities":{"k":[1]},"features":["a:b"],"feature_service":"s"})",
           R"({"entities":{"k":[1.5]},"features":["a:b"]})",
           R"({"entities":{"k":[null]},"features":["a:b"]})",
           R"({"entities":{"k":[1],"j":[1,2]},"features":["a:b"]})",
           R"({"entities":{"k":1},"features":["a:b"]})",
       }) {
    EXPECT_FALSE(parse_feast_read(body).ok()) << body;
  }
}

TEST(FeastCodec, writes_a_result_for_each_column) {
  features::OnlinePlan plan;
  plan.keys = {{"driver_id", Type::kInt64}};
  plan.columns = {{"rate", Type::kFloat64}, {"seen", Type::kTimestamp}};
  plan.full_names = {"d__rate", "d__seen"};
  plan.views.resize(1);
  plan.sources = {0, 0};
  features::OnlineAnswer answer;
  answer.columns = 2;
  answer.views = 1;
  answer.statuses = {FeatureStatus::kPresent, FeatureStatus::kPresent, FeatureStatus::kNotFound,
                     FeatureStatus::kNotFound};
  answer.words = {std::bit_cast<std::uint64_t>(0.5), 7'000'000'000, 0, 0};
  answer.events = {Timestamp::from_millis(1'500), Timestamp::min()};
  const auto read = parse_feast_read(
      R"({"entities":{"other":[0,0],"driver_id":[1001,1002]},"features":["d:seen","d:rate"]})");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(write_feast_read(*read, plan, {1, 0}, answer),
            R"({"metadata":{"feature_names":["driver_id","seen","rate"]},"results":[)"
            R"({"values":[1001,1002],"statuses":["PRESENT","PRESENT"],)"
            R"("event_timestamps":["1970-01-01T00:00:00Z","1970-01-01T00:00:00Z"]},)"
            R"({"values":[7,null],"statuses":["PRESENT","NOT_FOUND"],)"
            R"("event_timestamps":["1970-01-01T00:00:01.500Z","1970-01-01T00:00:00Z"]},)"
            R"({"values":[0.5,null],"statuses":["PRESENT","NOT_FOUND"],)"
            R"("event_timestamps":["1970-01-01T00:00:01.500Z","1970-01-01T00:00:00Z"]}]})");
  const auto keys = feast_keys(*read, plan);
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(std::get<std::int64_t>((*keys)[1]), 1002);
}

}  // namespace
}  // namespace falaj::api
