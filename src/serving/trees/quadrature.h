// serving/trees/quadrature.h — integrals of polynomials over [0, 1] as weighted sums, without
// error.
#pragma once

#include <cstddef>
#include <vector>

namespace falaj::serving {

// Points inside (0, 1), ascending, and their weights, which are positive and add up to 1.
struct Quadrature {
  std::vector<double> at;
  std::vector<double> weights;
};

// Gauss and Legendre's rule: exact for polynomials up to degree 2 · points − 1. At least one point.
Quadrature gauss_legendre(std::size_t points);

}  // namespace falaj::serving
