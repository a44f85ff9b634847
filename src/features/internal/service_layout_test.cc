#include "features/internal/service_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::features {
namespace {

using table::Type;
using testing::HasSubstr;

storage::Object object(std::string kind, std::string name, std::string_view spec) {
  storage::Object out;
  out.kind = std::move(kind);
  out.project = "pay";
  out.name = std::move(name);
  out.spec = parse_json(spec).value();
  return out;
}

// place → temperature, humidity, and heat = temperature * humidity; customer → amount.
class ServiceLayoutTest : public ::testing::Test {
 protected:
  Result<ServiceLayout> layout(const std::string& spec) {
    service_ = decode_feature_service(object("FeatureService", "svc", spec)).value();
    std::vector<ViewOfService> views;
    for (const ServiceView& each : service_.views) {
      if (each.view == "weather") views.push_back({weather_, place_});
      if (each.view == "activity") views.push_back({activity_, customer_});
    }
    return lay_out(service_, views);
  }
  std::vector<std::string> names(const std::string& spec) {
    const auto made = layout(spec);
    EXPECT_TRUE(made.ok()) << made.error().message;
    std::vector<std::string> out;
    if (!made.ok()) return out;
    for (const ServiceColumn& column : made->columns) out.push_back(column.field.name);
    return out;
  }
  Error refused(const std::string& spec) {
    const auto made = layout(spec);
    EXPECT_FALSE(made.ok());
    return made.ok() ? Error(ErrorId::kInternal, "") : made.error();
  }

  Entity place_ =
      decode_entity(object("Entity", "place", R"({"keys":[{"name":"place_id","type":"int64"}]})"))
          .value();
  Entity customer_ = decode_entity(object("Entity", "customer",
                                          R"({"keys":[{"name":"customer_id","type":"int64"}]})"))
                         .value();
  FeatureView weather_ =
      decode_feature_view(
          object("FeatureView", "weather",
                 R"({"entity":"place","source":"s","features":[)"
                 R"({"name":"temperature","type":"float64"},{"name":"humidity","type":"float64"},)"
                 R"({"name":"heat","type":"float64","expr":"temperature * humidity"}]})"))
          .value();
  FeatureView activity_ =
      decode_feature_view(object("FeatureView", "activity",
                                 R"({"entity":"customer","source":"s","features":[)"
                                 R"({"name":"amount","type":"float64"},)"
                                 R"({"name":"temperature","type":"int64"}]})"))
          .value();
  FeatureService service_;
};

TEST_F(ServiceLayoutTest, expressions_are_bounded_together) {
  const auto with = [&](int count) {
    std::string features = R"({"features":["weather"],"on_demand":[)";
    for (int i = 0; i < count; ++i) {
      features += std::string(i == 0 ? "" : ",") + R"({"name":"f)" + std::to_string(i) +
                  R"(","type":"float64","expr":"heat)" + std::string(4'000, ' ') + R"(+ 1"})";
    }
    return features + "]}";
  };
  EXPECT_EQ(names(with(65)).size(), 68u);
  const Error error = refused(with(66));
  EXPECT_EQ(error.id, ErrorId::kOutOfRange);
  EXPECT_THAT(error.message, HasSubstr("over 262144 together"));
}

TEST_F(ServiceLayoutTest, expressions_of_a_view_count_where_they_are_taken) {
  for (int i = 0; i < 70; ++i) {
    const std::string name = "g" + std::to_string(i);
    weather_.computed.push_back({name, Type::kFloat64, "humidity" + std::string(4'000, ' ')});
  }
  EXPECT_EQ(refused(R"({"features":["weather"]})").id, ErrorId::kOutOfRange);
  EXPECT_EQ(names(R"({"features":[{"weather":["heat","g1"]}]})").size(), 2u);
}

TEST_F(ServiceLayoutTest, takes_all_of_a_view_what_is_computed_last) {
  EXPECT_EQ(names(R"({"features":["weather"]})"),
            (std::vector<std::string>{"temperature", "humidity", "heat"}));
}

TEST_F(ServiceLayoutTest, reads_what_a_computed_feature_needs_without_handing_it_out) {
  const auto made = layout(R"({"features":[{"weather":["heat","humidity"]}]})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->columns.size(), 2u);
  EXPECT_TRUE(made->is_computed(made->columns[0]));
  EXPECT_FALSE(made->is_computed(made->columns[1]));
  EXPECT_EQ(made->reads, (std::vector<table::Field>{{"weather__humidity", Type::kFloat64},
                                                    {"weather__temperature", Type::kFloat64}}));
  EXPECT_EQ(made->columns[1].slot, 0u);
  EXPECT_EQ(made->computed[0].inputs, (std::vector<std::size_t>{1, 0}));
}

TEST_F(ServiceLayoutTest, one_view_serves_two_roles_by_alias_and_key_map) {
  const auto made = layout(R"({"full_names":true,"features":[
      {"weather":{"as":"origin","keys":{"place_id":"origin_id"},"features":["temperature"]}},
      {"weather":{"as":"target","keys":{"place_id":"target_id"},"features":["heat"]}}],
      "on_demand":[{"name":"warmer","type":"bool",
                    "expr":"origin__temperature > target__heat and origin_id != target_id"}]})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->keys,
            (std::vector<table::Field>{{"origin_id", Type::kInt64}, {"target_id", Type::kInt64}}));
  EXPECT_EQ(made->parts[1].key_columns, std::vector<std::string>{"target_id"});
  ASSERT_EQ(made->columns.size(), 3u);
  EXPECT_EQ(made->columns[0].field.name, "origin__temperature");
  EXPECT_EQ(made->columns[1].field.name, "target__heat");
  EXPECT_EQ(made->columns[2].field, (table::Field{"warmer", Type::kBool}));
  // Reads 0…2, keys 3 and 4, the time 5, heat 6, warmer 7.
  EXPECT_EQ(made->computed[1].inputs, (std::vector<std::size_t>{0, 6, 3, 4}));
}

TEST_F(ServiceLayoutTest, renames_and_computes_from_the_new_names_in_order) {
  EXPECT_EQ(
      names(R"j({"features":["weather",{"activity":["amount",{"temperature":"fever"}]}],
      "on_demand":[{"name":"a","type":"float64","expr":"fever + temperature"},
                   {"name":"b","type":"float64",
                    "expr":"a / days_between(row_time(), row_time())"}]})j"),
      (std::vector<std::string>{"temperature", "humidity", "heat", "amount", "fever", "a", "b"}));
}

TEST_F(ServiceLayoutTest, refuses_two_columns_of_one_name) {
  const Error twice = refused(R"({"features":["weather","activity"]})");
  EXPECT_EQ(twice.id, ErrorId::kFeatureNameCollision);
  EXPECT_THAT(twice.message, HasSubstr("\"temperature\""));
  EXPECT_EQ(refused(R"({"features":["weather",{"weather":{"as":"again"}}]})").id,
            ErrorId::kFeatureNameCollision);
  EXPECT_EQ(refused(R"({"features":[{"activity":[{"amount":"customer_id"}]}]})").id,
            ErrorId::kFeatureNameCollision);
  EXPECT_EQ(refused(R"({"features":["activity"],
                       "on_demand":[{"name":"amount","type":"int64","expr":"1"}]})")
                .id,
            ErrorId::kFeatureNameCollision);
}

TEST_F(ServiceLayoutTest, says_what_does_not_fit) {
  EXPECT_EQ(refused(R"({"features":[{"weather":["rain"]}]})").id, ErrorId::kReferenceMissing);
  EXPECT_EQ(refused(R"({"features":[{"weather":{"keys":{"plaice_id":"x"}}}]})").id,
            ErrorId::kReferenceMissing);
  const Error type =
      refused(R"({"features":["activity"],)"
              R"("on_demand":[{"name":"x","type":"float64","expr":"temperature"}]})");
  EXPECT_EQ(type.id, ErrorId::kExpressionInvalid);
  EXPECT_THAT(type.message, HasSubstr("is declared as float64, but temperature is int64"));
  const Error unknown =
      refused(R"({"features":["activity"],)"
              R"("on_demand":[{"name":"x","type":"float64","expr":"2 * amont"}]})");
  EXPECT_THAT(unknown.message, HasSubstr("did you mean \"amount\"?\n  2 * amont\n      ^"));
  // Features that the service does not take are not there.
  EXPECT_EQ(refused(R"({"features":[{"activity":["temperature"]}],
                        "on_demand":[{"name":"x","type":"float64","expr":"amount"}]})")
                .id,
            ErrorId::kExpressionInvalid);
}

}  // namespace
}  // namespace falaj::features
