#include "api/explanation.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::api {
namespace {

using serving::explain::Question;

TEST(ExplainParameters, are_taken_and_others_left_alone) {
  Question question;
  ASSERT_TRUE(parse_explain_parameters(
                  R"({"parameters":{"budget_ms":500,"background_rows":3,"samples":64,"seed":7,)"
                  R"("column":1,"mine":"x"}})",
                  question)
                  .ok());
  EXPECT_EQ(question.budget, Duration::milliseconds(500));
  EXPECT_EQ(question.background_rows, 3u);
  EXPECT_EQ(question.pairs_max, 64u);
  EXPECT_EQ(question.seed, 7u);
  EXPECT_EQ(question.column, 1u);
}

TEST(ExplainParameters, have_defaults) {
  for (const char* json : {"{}", R"({"parameters":{}})", R"({"parameters":5})"}) {
    Question question;
    EXPECT_TRUE(parse_explain_parameters(json, question).ok()) << json;
    EXPECT_EQ(question.budget, Duration::seconds(1));
    EXPECT_FALSE(question.column.has_value());
  }
}

TEST(ExplainParameters, have_bounds_and_kinds) {
  for (const char* wrong : {R"("budget_ms":0)", R"("budget_ms":10001)", R"("background_rows":1025)",
                            R"("samples":1)", R"("samples":10001)", R"("seed":-1)",
                            R"("column":1.5)", R"("samples":"8")", R"("samples":true)"}) {
    Question question;
    const Status read =
        parse_explain_parameters(R"({"parameters":{)" + std::string(wrong) + "}}", question);
    ASSERT_FALSE(read.ok()) << wrong;
    EXPECT_NE(read.error().message.find("whole number"), std::string::npos);
  }
  Question question;
  EXPECT_EQ(parse_explain_parameters("{", question).error().id, ErrorId::kMalformedJson);
}

TEST(ExplainParameters, of_no_bytes_at_all_are_refused) {
  Question question;
  const Status read = parse_explain_parameters({}, question);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().id, ErrorId::kMalformedJson);
}

TEST(ExplanationValue, leaves_out_the_errors_of_what_is_exact) {
  serving::explain::Explanation exact;
  exact.output = "p";
  exact.column = 1;
  exact.scale = "log_odds";
  exact.features = {"b", "a"};
  exact.rows = {{-1, 2, {2.5, 0.5}, {}, 0}};
  EXPECT_EQ(to_json(to_value(exact)),
            R"({"column":1,"explanations":[{"base_value":-1.0,"contributions":{"a":0.5,"b":2.5},)"
            R"("value":2.0}],"features":["b","a"],"method":"tree_shap","output":"p",)"
            R"("scale":"log_odds"})");
}

}  // namespace
}  // namespace falaj::api
