#include "cli/optimize.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::cli {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(OptimizeWords, become_terms) {
  OptimizeChoice choice;
  choice.file = "m.onnx";
  choice.rows = "rows.csv";
  choice.prune = 0.25;
  choice.keep_if = "smaller";
  const OptimizeTerms terms = optimize_terms(choice).value();
  EXPECT_EQ(terms.method, OptimizeMethod::kPruneUnits);
  EXPECT_DOUBLE_EQ(terms.share, 0.25);
  EXPECT_TRUE(terms.smaller);
  choice.prune = 0;
  choice.trim = true;
  EXPECT_EQ(optimize_terms(choice)->method, OptimizeMethod::kTrim);
  choice.enlist = true;
  EXPECT_EQ(optimize_terms(choice).error().id, ErrorId::kUsage);
}

TEST(OptimizeText, tells_what_was_changed_what_was_left_and_the_verdict) {
  const Value report = parse_json(R"({
      "verdict": "refuse", "reasons": ["it is not faster"], "rows": 300,
      "changed": [{"node": "fc\u001b[2J", "op": "Gemm", "what": "int8, 8 channels",
                   "bytes_before": 4096, "bytes_after": 1056}],
      "left": [{"node": "out", "op": "Gemm", "why": "it has few weights"}],
      "bytes": {"before": 5000, "after": 1900},
      "speed": {"before": 1000, "after": 900, "ratio": 0.9, "batch": 64, "rounds": 15, "won": 1},
      "difference": {"mean": 0.01, "worst": 0.1, "spread": 1},
      "quality": {"metric": "auc", "before": 0.9, "after": 0.89, "loss": 0.01},
      "allowed": {"mean": 0.02, "worst": 0.5, "loss": 0.002}})")
                           .value();
  const std::string text = optimize_text(report);
  for (const char* part : {"int8, 8 channels", "left: it has few weights", "0.9 times as fast",
                           "faster in 1 of 15 rounds", "loss 0.01, 0.002 allowed", "refuse",
                           "it is not faster", "over 300 rows"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  }
  EXPECT_TRUE(contains(text, "fc?[2J")) << "a name must not steer the terminal";
  EXPECT_FALSE(contains(text, "\x1b[2J"));
}

TEST(OptimizeText, does_without_what_was_not_measured) {
  const Value report = parse_json(R"({"verdict": "refuse", "changed": [], "left": [],
      "reasons": ["nothing in the model could be changed"], "bytes": {"before": 1, "after": 1}})")
                           .value();
  const std::string text = optimize_text(report);
  EXPECT_TRUE(contains(text, "nothing in the model could be changed"));
  EXPECT_FALSE(contains(text, "rows/s"));
}

}  // namespace
}  // namespace falaj::cli
