#include "serving/trees/probe_rows.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace falaj::serving {

std::vector<float> probe_rows(const onnx::Trees& trees, std::size_t rows, std::uint64_t seed) {
  using Limits = std::numeric_limits<float>;
  constexpr float kInfinity = Limits::infinity();
  constexpr std::array<float, 11> kSpecial{Limits::quiet_NaN(),
                                           0.0f,
                                           -0.0f,
                                           kInfinity,
                                           -kInfinity,
                                           Limits::max(),
                                           Limits::lowest(),
                                           Limits::denorm_min(),
                                           -Limits::denorm_min(),
                                           1e-35f,
                                           1.0f};
  std::vector<std::vector<float>> thresholds(trees.features);
  for (std::size_t i = 0; i < trees.modes.size(); ++i) {
    const auto feature = static_cast<std::size_t>(trees.featureids[i]);
    if (trees.modes[i] == onnx::Mode::kLeaf || feature >= thresholds.size()) continue;
    thresholds[feature].push_back(trees.values[i]);
  }
  std::mt19937_64 random(seed);
  std::vector<float> out;
  out.reserve(rows * trees.features);
  for (std::size_t row = 0; row < rows; ++row) {
    for (const std::vector<float>& known : thresholds) {
      const std::uint64_t draw = random();
      if (known.empty() || draw % 8 == 0) {
        out.push_back(kSpecial[(draw >> 8) % kSpecial.size()]);
        continue;
      }
      const float threshold = known[(draw >> 8) % known.size()];
      const std::uint64_t side = (draw >> 4) % 4;
      if (side == 0) out.push_back(std::nextafter(threshold, kInfinity));
      if (side == 1) out.push_back(std::nextafter(threshold, -kInfinity));
      if (side >= 2) out.push_back(threshold);
    }
  }
  return out;
}

}  // namespace falaj::serving
