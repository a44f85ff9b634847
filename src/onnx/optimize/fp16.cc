#include "onnx/optimize/fp16.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "onnx/graph.h"
#include "onnx/optimize/edit.h"

namespace falaj::onnx {
namespace {

constexpr float kHalfMost = 65504;

}  // namespace

std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float size = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (size >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00U);  // Rounds to infinity.
  // Below the least normal one the steps are even; nearbyint rounds ties to even. The carry of a
  // mantissa into the exponent is what addition does.
  if (size < 0x1p-14F) {
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24F)));
  }
  const std::uint32_t whole = bits & 0x7FFFFFFFU;
  const std::uint32_t odd = (whole >> 13) & 1U;
  const std::uint32_t rounded = whole + 0xFFFU + odd;
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

float float_of(std::uint16_t half) {
  const float sign = (half & 0x8000U) != 0 ? -1.0F : 1.0F;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-24F;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * std::bit_cast<float>(((exponent + 112U) << 23) | (mantissa << 13));
}

Result<Optimized> half_weights(std::string_view model, const HalfOptions& options) {
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized out;
  for (const std::string& name : edit.float_constants()) {
    const auto tensor = FALAJ_TRY(edit.floats(name));
    if (!tensor || tensor->values.size() < options.values_min || edit.uses(name) == 0) continue;
    const auto leave = [&](const char* why) { out.left.push_back({name, "constant", why}); };
    if (edit.is_output(name)) {
      leave("it is an output");
      continue;
    }
    if (!std::all_of(tensor->values.begin(), tensor->values.end(),
                     [](float value) { return std::abs(value) <= kHalfMost; })) {
      leave("a value is over 65504 or not finite");
      continue;
    }
    std::string raw;
    raw.reserve(tensor->values.size() * 2);
    for (const float value : tensor->values) {
      const std::uint16_t half = half_of(value);
      raw.push_back(static_cast<char>(half & 0xFFU));
      raw.push_back(static_cast<char>(half >> 8));
    }
    edit.drop_constant(name);
    const std::string kept = edit.add_constant(name + "_half", kHalf, tensor->shape, raw);
    edit.put_first({"Cast", {kept}, {name}, {{"to", kFloat}}});
    out.changed.push_back({name, "constant", "float16", tensor->values.size() * sizeof(float),
                           tensor->values.size() * sizeof(half_of(0))});
  }
  out.bytes = out.changed.empty() ? std::string(model) : edit.finish();
  return out;
}

}  // namespace falaj::onnx
