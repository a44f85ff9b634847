#include "onnx/optimize/gate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace falaj::onnx {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

double apart(float before, float after) {
  if (before == after || (std::isnan(before) && std::isnan(after))) return 0;
  if (!std::isfinite(before) || !std::isfinite(after)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::abs(static_cast<double>(after) - static_cast<double>(before));
}

double deviation(std::span<const float> values) {
  double sum = 0;
  double squares = 0;
  std::size_t count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    ++count;
    const double step = value - sum;
    sum += step / static_cast<double>(count);
    squares += step * (value - sum);
  }
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

void judge_speed(const Evidence& evidence, Goal goal, std::vector<std::string>& against) {
  const Speed& speed = evidence.speed;
  if (goal == Goal::kSmaller) {
    if (evidence.bytes_after >= evidence.bytes_before) {
      against.push_back("it is not smaller: " + std::to_string(evidence.bytes_after) +
                        " bytes, the original has " + std::to_string(evidence.bytes_before));
    }
    if (!(speed.ratio() >= kNotSlower)) {
      against.push_back("it is slower: " + number(speed.ratio()) + " times as fast, at least " +
                        number(kNotSlower) + " is wanted");
    }
    return;
  }
  if (!(speed.ratio() >= kFasterMin)) {
    against.push_back("it is not faster: " + number(speed.ratio()) + " times as fast, at least " +
                      number(kFasterMin) + " is wanted");
  } else if (speed.won * 2 <= speed.rounds) {
    against.push_back("it was faster in only " + std::to_string(speed.won) + " of " +
                      std::to_string(speed.rounds) + " rounds");
  }
}

}  // namespace

Difference difference(std::span<const float> before, std::span<const float> after) {
  Difference out;
  out.values = before.size();
  if (before.size() != after.size()) {
    out.mean = out.worst = std::numeric_limits<double>::infinity();
    return out;
  }
  out.spread = deviation(before);
  const double unit = out.spread > 0 ? out.spread : 1;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double gap = apart(before[i], after[i]) / unit;
    out.mean += gap / static_cast<double>(before.size());
    out.worst = std::max(out.worst, gap);
  }
  return out;
}

Difference worse_of(const Difference& a, const Difference& b) {
  return {a.values + b.values, std::max(a.spread, b.spread), std::max(a.mean, b.mean),
          std::max(a.worst, b.worst)};
}

double Quality::loss() const {
  if (metric == Metric::kAuc) return before - after;
  if (before > 0) return (after - before) / before;
  return after > 0 ? std::numeric_limits<double>::infinity() : 0;
}

const char* to_string(Quality::Metric metric) {
  return metric == Quality::Metric::kAuc ? "auc" : "rmse";
}

Verdict judge(const Evidence& evidence, const Allowed& allowed, Goal goal) {
  Verdict verdict;
  if (evidence.changes == 0) {
    verdict.reasons.push_back("nothing in the model could be changed");
    return verdict;
  }
  std::vector<std::string>& against = verdict.reasons;
  // Written so that what is no number is refused.
  if (evidence.difference.values == 0) against.push_back("no answer was compared");
  if (!(evidence.difference.mean <= allowed.mean)) {
    against.push_back("answers differ by " + number(evidence.difference.mean) +
                      " standard deviations on average, " + number(allowed.mean) + " is allowed");
  }
  if (!(evidence.difference.worst <= allowed.worst)) {
    against.push_back("an answer differs by " + number(evidence.difference.worst) +
                      " standard deviations, " + number(allowed.worst) + " is allowed");
  }
  if (evidence.quality && !(evidence.quality->loss() <= allowed.loss)) {
    against.push_back(std::string(to_string(evidence.quality->metric)) + " goes from " +
                      number(evidence.quality->before) + " to " + number(evidence.quality->after) +
                      ", a loss of " + number(evidence.quality->loss()) + "; " +
                      number(allowed.loss) + " is allowed");
  }
  judge_speed(evidence, goal, against);
  verdict.keep = against.empty();
  if (verdict.keep) {
    against.push_back(number(evidence.speed.ratio()) + " times as fast, " +
                      std::to_string(evidence.bytes_after) + " of " +
                      std::to_string(evidence.bytes_before) + " bytes, within the allowed loss");
  }
  return verdict;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double upper = *middle;
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace falaj::onnx
