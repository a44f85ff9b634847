#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "expression/internal/kernels.h"

namespace falaj::expression {
namespace {

template <class T>
constexpr bool equal(T a, T b) {
  return a == b;
}
template <class T>
constexpr bool differ(T a, T b) {
  return a != b;
}
template <class T>
constexpr bool less(T a, T b) {
  return a < b;
}
template <class T>
constexpr bool at_most(T a, T b) {
  return a <= b;
}
template <class T>
constexpr bool greater(T a, T b) {
  return a > b;
}
template <class T>
constexpr bool at_least(T a, T b) {
  return a >= b;
}

// NaN wins: it must not disappear because of where it stands.
template <class T>
T least(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;  // -0 is below 0, in either order.
  }
  return b < a ? b : a;
}
template <class T>
T most(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class T>
bool unless_equal(T a, T b, T& out) {
  out = a;
  return a != b;
}

template <class T>
void is_null(const Operand* operands, std::size_t rows, const Answer& answer) {
  for (std::size_t i = 0; i < rows; ++i) {
    answer.valid[i] = 1;
    answer.as<std::uint8_t>()[i] = operands[0].valid[i] ^ 1;
  }
}

template <class T>
void first_known(const Operand* operands, std::size_t rows, const Answer& answer) {
  for (std::size_t i = 0; i < rows; ++i) {
    const Operand& from = operands[operands[0].valid[i] != 0 ? 0 : 1];
    answer.as<T>()[i] = from.as<T>()[i];
    answer.valid[i] = from.valid[i];
  }
}

// A null condition is not met. Null of a chosen branch stays null.
template <class T>
void choose(const Operand* operands, std::size_t rows, const Answer& answer) {
  const std::uint8_t* met = operands[0].as<std::uint8_t>();
  for (std::size_t i = 0; i < rows; ++i) {
    const Operand& from = operands[(operands[0].valid[i] & met[i]) != 0 ? 1 : 2];
    answer.as<T>()[i] = from.as<T>()[i];
    answer.valid[i] = from.valid[i];
  }
}

std::int64_t hash_of(std::string_view bytes, std::uint64_t seed) {
  return static_cast<std::int64_t>(hash64(bytes, seed) >> 1);
}
std::int64_t hash_of_word(std::uint64_t word, std::uint64_t seed) {
  std::array<char, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(word >> (8 * i) & 0xFF);
  return hash_of({bytes.data(), bytes.size()}, seed);
}
std::int64_t hash_text(std::string_view text) { return hash_of(text, 1); }
std::int64_t hash_int(std::int64_t value) {
  return hash_of_word(static_cast<std::uint64_t>(value), 2);
}
std::int64_t hash_bool(std::uint8_t value) { return hash_of_word(value, 3); }
// Equal numbers hash alike: -0 as 0; and one NaN is like another.
std::int64_t hash_float(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return hash_of_word(std::bit_cast<std::uint64_t>(value + 0.0), 4);
}
std::int64_t hash_both(std::int64_t a, std::int64_t b) {
  return hash_of_word(
      static_cast<std::uint64_t>(a) * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(b), 5);
}
bool bucket_of(std::int64_t hash, std::int64_t count, std::int64_t& out) {
  if (count <= 0) return false;
  out = hash % count;
  return true;
}

// Three-valued logic: what is decided by one side is known whatever the other is.
void both(const Operand* operands, std::size_t rows, const Answer& answer) {
  const auto* a = operands[0].as<std::uint8_t>();
  const auto* b = operands[1].as<std::uint8_t>();
  for (std::size_t i = 0; i < rows; ++i) {
    const bool no_a = operands[0].valid[i] != 0 && a[i] == 0;
    const bool no_b = operands[1].valid[i] != 0 && b[i] == 0;
    const bool known = (operands[0].valid[i] & operands[1].valid[i]) != 0;
    answer.valid[i] = no_a || no_b || known ? 1 : 0;
    answer.as<std::uint8_t>()[i] = no_a || no_b ? 0 : 1;
  }
}
void either(const Operand* operands, std::size_t rows, const Answer& answer) {
  const auto* a = operands[0].as<std::uint8_t>();
  const auto* b = operands[1].as<std::uint8_t>();
  for (std::size_t i = 0; i < rows; ++i) {
    const bool yes_a = (operands[0].valid[i] & a[i]) != 0;
    const bool yes_b = (operands[1].valid[i] & b[i]) != 0;
    const bool known = (operands[0].valid[i] & operands[1].valid[i]) != 0;
    answer.valid[i] = yes_a || yes_b || known ? 1 : 0;
    answer.as<std::uint8_t>()[i] = yes_a || yes_b ? 1 : 0;
  }
}
std::uint8_t negated(std::uint8_t a) { return a ^ 1; }

template <class T>
void add_for(Type type, std::vector<Overload>& out) {
  const std::vector<Type> pair{type, type};
  using Flag = std::uint8_t;
  out.push_back({"==", pair, Type::kBool, total<equal<T>, Flag, T, T>});
  out.push_back({"!=", pair, Type::kBool, total<differ<T>, Flag, T, T>});
  out.push_back({"<", pair, Type::kBool, total<less<T>, Flag, T, T>});
  out.push_back({"<=", pair, Type::kBool, total<at_most<T>, Flag, T, T>});
  out.push_back({">", pair, Type::kBool, total<greater<T>, Flag, T, T>});
  out.push_back({">=", pair, Type::kBool, total<at_least<T>, Flag, T, T>});
  out.push_back({"min", pair, type, total<least<T>, T, T, T>});
  out.push_back({"max", pair, type, total<most<T>, T, T, T>});
  out.push_back({"nullif", pair, type, partial<unless_equal<T>, T, T, T>});
  out.push_back({"is_null", {type}, Type::kBool, is_null<T>});
  out.push_back({"coalesce", pair, type, first_known<T>});
  out.push_back({"if", {Type::kBool, type, type}, type, choose<T>});
}

}  // namespace

std::vector<Overload> value_functions() {
  std::vector<Overload> out;
  add_for<std::uint8_t>(Type::kBool, out);
  add_for<std::int64_t>(Type::kInt64, out);
  add_for<double>(Type::kFloat64, out);
  add_for<std::string_view>(Type::kString, out);
  add_for<std::int64_t>(Type::kTimestamp, out);
  using Int = std::int64_t;
  out.push_back({"hash", {Type::kString}, Type::kInt64, total<hash_text, Int, std::string_view>});
  out.push_back({"hash", {Type::kInt64}, Type::kInt64, total<hash_int, Int, Int>});
  out.push_back({"hash", {Type::kTimestamp}, Type::kInt64, total<hash_int, Int, Int>});
  out.push_back({"hash", {Type::kBool}, Type::kInt64, total<hash_bool, Int, std::uint8_t>});
  out.push_back({"hash", {Type::kFloat64}, Type::kInt64, total<hash_float, Int, double>});
  out.push_back(
      {"hash both", {Type::kInt64, Type::kInt64}, Type::kInt64, total<hash_both, Int, Int, Int>});
  out.push_back(
      {"bucket of", {Type::kInt64, Type::kInt64}, Type::kInt64, partial<bucket_of, Int, Int, Int>});
  out.push_back({"and", {Type::kBool, Type::kBool}, Type::kBool, both});
  out.push_back({"or", {Type::kBool, Type::kBool}, Type::kBool, either});
  out.push_back({"not", {Type::kBool}, Type::kBool, total<negated, std::uint8_t, std::uint8_t>});
  return out;
}

const std::vector<Overload>& overloads() {
  static const std::vector<Overload> all = [] {
    std::vector<Overload> out = value_functions();
    for (const auto& part : {number_functions(), text_functions(), time_functions()}) {
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }();
  return all;
}

}  // namespace falaj::expression
