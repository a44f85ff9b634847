#include "training/lightgbm/params.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::training::lightgbm {
namespace {

Result<Params> read(std::string_view json) { return params_from_value(*parse_json(json)); }

TEST(LightGbmParams, reads_what_people_write) {
  const auto params = read(R"({"num_leaves": 63, "rounds": 400, "learning_rate": 0.08,
                               "early_stopping": 30, "seed": 7})");
  ASSERT_TRUE(params.ok()) << params.error().message;
  EXPECT_EQ(params->num_leaves, 63);
  EXPECT_EQ(params->rounds, 400);
  EXPECT_DOUBLE_EQ(params->learning_rate, 0.08);
  EXPECT_EQ(params->early_stopping, 30);
}

TEST(LightGbmParams, null_means_the_defaults) {
  const auto params = params_from_value(Value());
  ASSERT_TRUE(params.ok()) << params.error().message;
  EXPECT_EQ(params->rounds, 100);
}

TEST(LightGbmParams, names_the_nearest_parameter) {
  const auto params = read(R"({"num_leafs": 31})");
  ASSERT_FALSE(params.ok());
  EXPECT_EQ(params.error().id, ErrorId::kUnknownField);
  EXPECT_NE(params.error().message.find("num_leaves"), std::string::npos) << params.error().message;
}

TEST(LightGbmParams, refuses_values_out_of_bounds) {
  for (const char* json : {R"({"num_leaves": 1})", R"({"rounds": 0})", R"({"rounds": 100000})",
                           R"({"learning_rate": 0})", R"({"feature_fraction": 1.5})",
                           R"({"lambda_l2": -1})", R"({"seed": -1})"}) {
    const auto params = read(json);
    ASSERT_FALSE(params.ok()) << json;
    EXPECT_EQ(params.error().id, ErrorId::kOutOfRange) << json << params.error().message;
  }
}

TEST(LightGbmParams, refuses_what_onnx_cannot_follow) {
  const auto params = read(R"({"zero_as_missing": true})");
  ASSERT_FALSE(params.ok());
  EXPECT_EQ(params.error().id, ErrorId::kUnknownField);
  EXPECT_NE(params.error().message.find("zero_as_missing"), std::string::npos);
}

TEST(LightGbmParams, text_asks_for_determinism) {
  const std::string text = to_text(Params{}, Objective::kBinary, 2);
  EXPECT_NE(text.find("deterministic=true"), std::string::npos);
  EXPECT_NE(text.find("force_row_wise=true"), std::string::npos);
  EXPECT_NE(text.find("num_threads=2"), std::string::npos);
}

}  // namespace
}  // namespace falaj::training::lightgbm
