#include "features/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "features/definitions.h"
#include "features/internal/beside.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using testing::HasSubstr;

// A hundred orders; every tenth has no note, two cities, one of them with a quote.
std::string orders() {
  std::string out = "customer_id,at,amount,share,delta,city,note\n";
  for (int i = 0; i < 100; ++i) {
    out += std::to_string(i % 7) + ",2026-01-01," + std::to_string(i) + "," +
           std::to_string(i / 200.0) + "," + std::to_string(i - 50) + "," +
           (i % 2 == 0 ? "Dubai" : "Ra's") + "," + (i % 10 == 0 ? "" : "n" + std::to_string(i)) +
           "\n";
  }
  return out;
}

Result<std::vector<Value>> infer(const std::string& csv, InferOptions options = {}) {
  if (options.name.empty()) options.name = "orders";
  options.format = "csv";
  options.path = "orders.csv";
  const Result<table::Batch> sample = table::read_all(TextReader(csv), table::Format::kCsv);
  EXPECT_TRUE(sample.ok()) << sample.error().message;
  return infer_objects(*sample, options);
}

TEST(Infer, declares_what_a_file_shows_and_takes_the_file_in) {
  const auto objects = infer(orders());
  ASSERT_TRUE(objects.ok()) << objects.error().message;
  ASSERT_EQ(objects->size(), 3u);
  FeatureWorld world;
  for (const Value& object : *objects) {
    world.apply(object.text("kind"), object["metadata"].text("name"), to_json(object["spec"]));
  }
  const auto report = world.append("orders", orders());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 100u);
  EXPECT_TRUE(report->warnings.empty()) << report->warnings[0].expectation;
  // A row that the sample did not have warns.
  const auto other = world.append("orders",
                                  "customer_id,at,amount,share,delta,city,note\n"
                                  "1,2026-01-02,-5,0.5,1,Doha,x\n");
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->rows_accepted, 1u);
  ASSERT_EQ(other->warnings.size(), 2u);
  EXPECT_EQ(other->warnings[1].expectation, "known city");
}

TEST(Infer, expects_no_more_than_the_sample_shows) {
  const auto objects = infer(orders());
  ASSERT_TRUE(objects.ok());
  const Value& spec = (*objects)[2]["spec"];
  EXPECT_EQ(spec.text("entity"), "customer");
  std::map<std::string, Value> features;
  for (const Value& each : spec["features"].as_array()) features[each.text("name")] = each;
  EXPECT_EQ(features["amount"]["expect"]["min"].as_int(), 0);
  EXPECT_FALSE(features["amount"]["expect"].has("max"));
  EXPECT_EQ(features["share"]["expect"]["max"].as_int(), 1);
  EXPECT_FALSE(features["delta"]["expect"].has("min"));
  EXPECT_EQ(features["amount"]["expect"].text("nulls_max"), "3.0%");
  EXPECT_EQ(features["note"]["expect"].text("nulls_max"), "22.0%");
  ASSERT_EQ(spec["expect"].as_array().size(), 1u) << "notes are no domain";
  EXPECT_EQ(spec["expect"].as_array()[0].text("expr"), "city in ('Dubai', 'Ra''s')");
}

TEST(Infer, asks_where_a_file_leaves_a_choice) {
  const auto keys = infer("a_id,b_id,at,x\n1,2,2026-01-01,3\n");
  ASSERT_FALSE(keys.ok());
  EXPECT_THAT(keys.error().message, HasSubstr("name one or more of a_id, b_id with --key"));
  InferOptions both;
  both.keys = {"a_id", "b_id"};
  EXPECT_TRUE(infer("a_id,b_id,at,x\n1,2,2026-01-01,3\n", both).ok());
  EXPECT_THAT(infer("a_id,at,till,x\n1,2026-01-01,2026-01-01,3\n").error().message,
              HasSubstr("name one of at, till with --event-time"));
  EXPECT_THAT(infer("a_id,at\n1,2026-01-01\n").error().message, HasSubstr("no column that could"));
  EXPECT_THAT(infer("a_id,x\n1,2\n").error().message, HasSubstr("no column holds times"));
  InferOptions missing;
  missing.keys = {"c_id"};
  EXPECT_THAT(infer("a_id,at,x\n1,2026-01-01,2\n", missing).error().message,
              HasSubstr("no column \"c_id\"; it has a_id, at, x"));
}

}  // namespace
}  // namespace falaj::features
