#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "expression/internal/kernels.h"

namespace falaj::expression {
namespace {

using Int = std::int64_t;
constexpr Int kLeast = std::numeric_limits<Int>::min();

bool add(Int a, Int b, Int& out) { return !__builtin_add_overflow(a, b, &out); }
bool subtract(Int a, Int b, Int& out) { return !__builtin_sub_overflow(a, b, &out); }
bool multiply(Int a, Int b, Int& out) { return !__builtin_mul_overflow(a, b, &out); }
double add_floats(double a, double b) { return a + b; }
double subtract_floats(double a, double b) { return a - b; }
double multiply_floats(double a, double b) { return a * b; }
bool divide(double a, double b, double& out) {
  if (b == 0) return false;
  out = a / b;
  return true;
}

// Towards minus infinity, so that a == b * (a // b) + a % b, and a % b has the sign of b.
bool floor_divide(Int a, Int b, Int& out) {
  if (b == 0 || (a == kLeast && b == -1)) return false;
  out = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return true;
}
bool modulo(Int a, Int b, Int& out) {
  if (b == 0) return false;
  if (b == -1) return true;  // 0; the processor stops at the least int64.
  const Int rest = a % b;
  out = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  return true;
}
bool modulo_floats(double a, double b, double& out) {
  if (b == 0) return false;
  const double rest = std::fmod(a, b);
  out = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  return true;
}
// Of the rest, not of the rounded quotient: 1.0 / 0.1 is 10, but ten times 0.1 is over 1.0.
bool floor_divide_floats(double a, double b, double& out) {
  double rest = 0;
  if (!modulo_floats(a, b, rest)) return false;
  const double quotient = a / b;
  // From 2^50 on a float64 cannot tell them apart.
  const bool exact = std::isfinite(b) && std::fabs(quotient) < 0x1p50;
  out = exact ? std::round(quotient - rest / b) : std::floor(quotient);
  return true;
}

bool negate(Int a, Int& out) { return subtract(0, a, out); }
double negate_float(double a) { return -a; }
bool absolute(Int a, Int& out) {
  if (a >= 0) {
    out = a;
    return true;
  }
  return negate(a, out);
}
double absolute_float(double a) { return std::fabs(a); }
Int sign(Int a) { return a > 0 ? 1 : (a < 0 ? -1 : 0); }
double sign_float(double a) {
  if (std::isnan(a)) return a;
  return a > 0 ? 1 : (a < 0 ? -1 : 0);
}

Int same(Int a) { return a; }
double floor_of(double a) { return std::floor(a); }
double ceil_of(double a) { return std::ceil(a); }
double round_of(double a) { return std::round(a); }
bool round_to(double a, Int digits, double& out) {
  if (digits < -15 || digits > 15) return false;
  double power = 1;
  for (Int i = 0; i < (digits < 0 ? -digits : digits); ++i) power *= 10;
  const double scaled = digits < 0 ? a / power : a * power;
  // Too large to have such digits: as it is.
  if (!std::isfinite(scaled) || (digits > 0 && std::fabs(scaled) >= 0x1p52)) {
    out = a;
  } else {
    out = digits < 0 ? std::round(scaled) * power : std::round(scaled) / power;
  }
  return true;
}

bool root(double a, double& out) {
  if (a < 0) return false;
  out = std::sqrt(a);
  return true;
}
double exponential(double a) { return std::exp(a); }
bool logarithm(double a, double& out) {
  if (a <= 0) return false;
  out = std::log(a);
  return true;
}
bool logarithm10(double a, double& out) {
  if (a <= 0) return false;
  out = std::log10(a);
  return true;
}
bool power(double a, double b, double& out) {
  // A root of a negative number, or a division by zero.
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) return false;
  if (a == 0 && b < 0) return false;
  out = std::pow(a, b);
  return true;
}
double sine(double a) { return std::sin(a); }
double cosine(double a) { return std::cos(a); }
bool is_nan(double a) { return std::isnan(a); }
bool is_finite(double a) { return std::isfinite(a); }

double widen(Int a) { return static_cast<double>(a); }
double widen_bool(std::uint8_t a) { return a; }
double same_float(double a) { return a; }
bool narrow(double a, Int& out) {
  const double whole = std::trunc(a);
  // 2^63 is a double, the greatest int64 is not.
  if (!(whole >= -0x1p63 && whole < 0x1p63)) return false;
  out = static_cast<Int>(whole);
  return true;
}
Int int_of_bool(std::uint8_t a) { return a; }
bool int_of_text(std::string_view text, Int& out) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}
bool float_of_text(std::string_view text, double& out) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(out);
}
std::uint8_t bool_of_int(Int a) { return a != 0 ? 1 : 0; }
std::uint8_t same_bool(std::uint8_t a) { return a; }

void add_arithmetic(std::vector<Overload>& out) {
  const std::vector<Type> ints{Type::kInt64, Type::kInt64};
  const std::vector<Type> floats{Type::kFloat64, Type::kFloat64};
  using Float = double;
  out.push_back({"+", ints, Type::kInt64, partial<add, Int, Int, Int>});
  out.push_back({"-", ints, Type::kInt64, partial<subtract, Int, Int, Int>});
  out.push_back({"*", ints, Type::kInt64, partial<multiply, Int, Int, Int>});
  out.push_back({"//", ints, Type::kInt64, partial<floor_divide, Int, Int, Int>});
  out.push_back({"%", ints, Type::kInt64, partial<modulo, Int, Int, Int>});
  out.push_back({"+", floats, Type::kFloat64, total<add_floats, Float, Float, Float>});
  out.push_back({"-", floats, Type::kFloat64, total<subtract_floats, Float, Float, Float>});
  out.push_back({"*", floats, Type::kFloat64, total<multiply_floats, Float, Float, Float>});
  out.push_back({"/", floats, Type::kFloat64, partial<divide, Float, Float, Float>});
  out.push_back({"//", floats, Type::kFloat64, partial<floor_divide_floats, Float, Float, Float>});
  out.push_back({"%", floats, Type::kFloat64, partial<modulo_floats, Float, Float, Float>});
  out.push_back({"negate", {Type::kInt64}, Type::kInt64, partial<negate, Int, Int>});
  out.push_back({"negate", {Type::kFloat64}, Type::kFloat64, total<negate_float, Float, Float>});
}

void add_conversions(std::vector<Overload>& out) {
  using Float = double;
  using Flag = std::uint8_t;
  using Text = std::string_view;
  out.push_back({"float64", {Type::kInt64}, Type::kFloat64, total<widen, Float, Int>});
  out.push_back({"float64", {Type::kFloat64}, Type::kFloat64, total<same_float, Float, Float>});
  out.push_back({"float64", {Type::kBool}, Type::kFloat64, total<widen_bool, Float, Flag>});
  out.push_back({"float64", {Type::kString}, Type::kFloat64, partial<float_of_text, Float, Text>});
  out.push_back({"int64", {Type::kInt64}, Type::kInt64, total<same, Int, Int>});
  out.push_back({"int64", {Type::kFloat64}, Type::kInt64, partial<narrow, Int, Float>});
  out.push_back({"int64", {Type::kBool}, Type::kInt64, total<int_of_bool, Int, Flag>});
  out.push_back({"int64", {Type::kString}, Type::kInt64, partial<int_of_text, Int, Text>});
  out.push_back({"bool", {Type::kInt64}, Type::kBool, total<bool_of_int, Flag, Int>});
  out.push_back({"bool", {Type::kBool}, Type::kBool, total<same_bool, Flag, Flag>});
}

}  // namespace

std::vector<Overload> number_functions() {
  std::vector<Overload> out;
  add_arithmetic(out);
  add_conversions(out);
  using Float = double;
  using Flag = std::uint8_t;
  const std::vector<Type> whole{Type::kInt64};
  const std::vector<Type> real{Type::kFloat64};
  out.push_back({"abs", whole, Type::kInt64, partial<absolute, Int, Int>});
  out.push_back({"abs", real, Type::kFloat64, total<absolute_float, Float, Float>});
  out.push_back({"sign", whole, Type::kInt64, total<sign, Int, Int>});
  out.push_back({"sign", real, Type::kFloat64, total<sign_float, Float, Float>});
  for (const std::string_view name : {"floor", "ceil", "round"}) {
    out.push_back({name, whole, Type::kInt64, total<same, Int, Int>});
  }
  out.push_back({"floor", real, Type::kFloat64, total<floor_of, Float, Float>});
  out.push_back({"ceil", real, Type::kFloat64, total<ceil_of, Float, Float>});
  out.push_back({"round", real, Type::kFloat64, total<round_of, Float, Float>});
  out.push_back({"round",
                 {Type::kFloat64, Type::kInt64},
                 Type::kFloat64,
                 partial<round_to, Float, Float, Int>});
  out.push_back({"sqrt", real, Type::kFloat64, partial<root, Float, Float>});
  out.push_back({"exp", real, Type::kFloat64, total<exponential, Float, Float>});
  out.push_back({"ln", real, Type::kFloat64, partial<logarithm, Float, Float>});
  out.push_back({"log10", real, Type::kFloat64, partial<logarithm10, Float, Float>});
  out.push_back({"sin", real, Type::kFloat64, total<sine, Float, Float>});
  out.push_back({"cos", real, Type::kFloat64, total<cosine, Float, Float>});
  out.push_back({"pow",
                 {Type::kFloat64, Type::kFloat64},
                 Type::kFloat64,
                 partial<power, Float, Float, Float>});
  out.push_back({"is_nan", real, Type::kBool, total<is_nan, Flag, Float>});
  out.push_back({"is_finite", real, Type::kBool, total<is_finite, Flag, Float>});
  return out;
}

}  // namespace falaj::expression
