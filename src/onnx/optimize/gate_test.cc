#include "onnx/optimize/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace falaj::onnx {
namespace {

Evidence good() {
  Evidence evidence;
  evidence.changes = 1;
  evidence.difference = {100, 1, 0.001, 0.01};
  evidence.speed = {1000, 2000, 15, 15};
  evidence.bytes_before = 1000;
  evidence.bytes_after = 300;
  return evidence;
}

std::string refusal(const Evidence& evidence, Goal goal = Goal::kFaster) {
  const Verdict verdict = judge(evidence, {}, goal);
  EXPECT_FALSE(verdict.keep);
  EXPECT_EQ(verdict.reasons.size(), 1u);
  return verdict.reasons.empty() ? "" : verdict.reasons.front();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Gate, keeps_what_is_faster_and_answers_alike) {
  const Verdict verdict = judge(good(), {}, Goal::kFaster);
  EXPECT_TRUE(verdict.keep);
  EXPECT_EQ(verdict.reasons, std::vector<std::string>{
                                 "2 times as fast, 300 of 1000 bytes, within the allowed loss"});
}

TEST(Gate, refuses_by_the_one_number_that_is_wrong) {
  Evidence evidence = good();
  evidence.changes = 0;
  EXPECT_TRUE(has(refusal(evidence), "nothing in the model could be changed"));
  evidence = good();
  evidence.difference.values = 0;
  EXPECT_TRUE(has(refusal(evidence), "no answer was compared"));
  evidence = good();
  evidence.difference.mean = 0.03;
  EXPECT_TRUE(has(refusal(evidence), "0.03 standard deviations on average, 0.02 is allowed"));
  evidence = good();
  evidence.difference.worst = 0.6;
  EXPECT_TRUE(has(refusal(evidence), "differs by 0.6 standard deviations, 0.5 is allowed"));
  evidence = good();
  evidence.quality = Quality{Quality::Metric::kAuc, 0.9, 0.89};
  EXPECT_TRUE(has(refusal(evidence), "auc goes from 0.9 to 0.89, a loss of 0.01; 0.002"));
  evidence.quality = Quality{Quality::Metric::kRmse, 2, 2.1};
  EXPECT_TRUE(has(refusal(evidence), "rmse goes from 2 to 2.1, a loss of 0.05"));
  evidence = good();
  evidence.speed.after = 1040;
  EXPECT_TRUE(has(refusal(evidence), "not faster: 1.04 times as fast, at least 1.05"));
  evidence = good();
  evidence.speed.won = 7;
  EXPECT_TRUE(has(refusal(evidence), "faster in only 7 of 15 rounds"));
}

TEST(Gate, refuses_what_is_no_number) {
  Evidence evidence = good();
  evidence.difference.mean = std::nan("");
  EXPECT_FALSE(judge(evidence, {}, Goal::kFaster).keep);
  evidence = good();
  evidence.difference.worst = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(judge(evidence, {}, Goal::kFaster).keep);
  evidence = good();
  evidence.quality = Quality{Quality::Metric::kAuc, 0.9, std::nan("")};
  EXPECT_FALSE(judge(evidence, {}, Goal::kFaster).keep);
  evidence = good();
  evidence.speed = {};
  EXPECT_FALSE(judge(evidence, {}, Goal::kFaster).keep);
}

TEST(Gate, keeps_what_is_smaller_only_when_that_was_asked_for) {
  Evidence evidence = good();
  evidence.speed.after = 990;
  EXPECT_TRUE(judge(evidence, {}, Goal::kSmaller).keep);
  EXPECT_TRUE(has(refusal(evidence), "not faster"));
  evidence.speed.after = 900;
  EXPECT_TRUE(has(refusal(evidence, Goal::kSmaller), "it is slower: 0.9"));
  evidence = good();
  evidence.bytes_after = 1000;
  EXPECT_TRUE(has(refusal(evidence, Goal::kSmaller), "not smaller"));
}

TEST(Gate, measures_differences_in_standard_deviations_of_the_original) {
  const std::vector<float> before{0, 2, 0, 2};  // One standard deviation is 1.
  const Difference one = difference(before, std::vector<float>{0, 2, 0, 2.5F});
  EXPECT_DOUBLE_EQ(one.spread, 1);
  EXPECT_DOUBLE_EQ(one.mean, 0.125);
  EXPECT_DOUBLE_EQ(one.worst, 0.5);
  std::vector<float> large;
  for (const float value : before) large.push_back(value * 1000 + 7);
  const Difference scaled = difference(large, std::vector<float>{7, 2007, 7, 2507});
  EXPECT_NEAR(scaled.worst, 0.5, 1e-9);
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(difference(std::vector<float>{nan, inf, 1}, std::vector<float>{nan, inf, 1}).worst, 0);
  EXPECT_TRUE(std::isinf(difference(std::vector<float>{1, 2}, std::vector<float>{1, nan}).worst));
  EXPECT_TRUE(std::isinf(difference(std::vector<float>{1}, std::vector<float>{1, 2}).worst));
  EXPECT_DOUBLE_EQ(difference(std::vector<float>{3, 3}, std::vector<float>{3, 3.5F}).worst, 0.5);
  const Difference both = worse_of({1, 1, 0.1, 0.9}, {2, 3, 0.2, 0.8});
  EXPECT_EQ(both.values, 3u);
  EXPECT_DOUBLE_EQ(both.mean, 0.2);
  EXPECT_DOUBLE_EQ(both.worst, 0.9);
}

TEST(Gate, takes_the_middle_of_measurements) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
}

}  // namespace
}  // namespace falaj::onnx
