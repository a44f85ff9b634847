// onnx/optimize/gate.h — is the optimised model to be kept? Pure: the same numbers, the same word.
//
// A variant is kept when it was measured to be faster (or is smaller, where that was asked for) and
// answers as the original does, within what is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace falaj::onnx {

// How far answers lie apart, in standard deviations of the original's answers: 0.02 says the same
// of a probability and of an amount of money.
struct Difference {
  std::size_t values = 0;
  double spread = 0;  // The standard deviation; 1 is taken instead where all answers are equal.
  double mean = 0;    // Of the absolute differences.
  double worst = 0;   // Infinite where only one of both is a number.
};
// Of one output, `before` and `after` of equal length.
Difference difference(std::span<const float> before, std::span<const float> after);
// The greater of each.
Difference worse_of(const Difference& a, const Difference& b);

// Against known labels.
struct Quality {
  enum class Metric : std::uint8_t { kAuc, kRmse };
  Metric metric = Metric::kAuc;
  double before = 0;
  double after = 0;
  // How much was lost: of auc its fall, of rmse its rise as a share. Negative: it got better.
  double loss() const;
};
const char* to_string(Quality::Metric metric);

// Rows a second, medians over rounds in which both took turns.
struct Speed {
  double before = 0;
  double after = 0;
  std::size_t rounds = 0;
  std::size_t won = 0;  // Rounds in which the variant was the faster one.
  double ratio() const { return before > 0 ? after / before : 0; }
};

struct Allowed {
  double mean = 0.02;
  double worst = 0.5;
  double loss = 0.002;  // Of the metric, where labels are known.
};

enum class Goal : std::uint8_t { kFaster, kSmaller };
// Faster than what two runs of one model differ by; "not slower" leaves the same room.
inline constexpr double kFasterMin = 1.05;
inline constexpr double kNotSlower = 0.95;

struct Evidence {
  std::size_t changes = 0;
  Difference difference;
  std::optional<Quality> quality;
  Speed speed;
  std::size_t bytes_before = 0;
  std::size_t bytes_after = 0;
};

struct Verdict {
  bool keep = false;
  std::vector<std::string> reasons;  // Why not, each with its numbers; or the one why.
};
// kFaster: at least kFasterMin times as fast, and in most rounds. kSmaller: fewer bytes, and at
// least kNotSlower times as fast.
Verdict judge(const Evidence& evidence, const Allowed& allowed, Goal goal);

// 0 for none.
double median(std::vector<double> values);

}  // namespace falaj::onnx
