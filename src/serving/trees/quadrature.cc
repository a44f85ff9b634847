#include "serving/trees/quadrature.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace falaj::serving {
namespace {

constexpr int kStepsMax = 100;  // Newton needs about five.
constexpr double kCloseEnough = 1e-15;

// The Legendre polynomial of degree n ≥ 1 and its slope, inside (-1, 1).
struct Legendre {
  double value = 0;
  double slope = 0;
};

Legendre legendre(std::size_t n, double x) {
  double before = 1;
  double now = x;
  for (std::size_t k = 2; k <= n; ++k) {
    const auto order = static_cast<double>(k);
    const double next = ((2 * order - 1) * x * now - (order - 1) * before) / order;
    before = now;
    now = next;
  }
  return {now, static_cast<double>(n) * (x * now - before) / (x * x - 1)};
}

}  // namespace

Quadrature gauss_legendre(std::size_t points) {
  points = std::max<std::size_t>(1, points);
  Quadrature rule;
  for (std::size_t i = 0; i < points; ++i) {
    // Chebyshev's points are near enough for Newton to find each root, largest first.
    double x = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) /
                        (static_cast<double>(points) + 0.5));
    Legendre at = legendre(points, x);
    for (int step = 0; step < kStepsMax && std::abs(at.value / at.slope) > kCloseEnough; ++step) {
      x -= at.value / at.slope;
      at = legendre(points, x);
    }
    rule.at.push_back((1 - x) / 2);
    rule.weights.push_back(1 / ((1 - x * x) * at.slope * at.slope));
  }
  return rule;
}

}  // namespace falaj::serving
