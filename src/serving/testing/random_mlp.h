// serving/testing/random_mlp.h — small networks of every form that is rewritten, made from a seed.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "serving/testing/tiny_onnx.h"

namespace falaj::serving::testing {

inline std::vector<float> gaussians(std::size_t count, std::uint64_t seed, float scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = scale * normal(random);
  return values;
}

// An attribute that is one float.
inline Proto float_attribute(std::string_view name, float value) {
  std::string raw(sizeof value, '\0');
  std::memcpy(raw.data(), &value, sizeof value);
  // Field 2 as fixed 32: key (2 << 3) | 5.
  const std::string fixed = std::string(1, '\x15') + raw;
  const Proto rest = Proto().integer(20, 1);
  return Proto::raw(Proto().bytes(1, name).str() + fixed + rest.str());
}

struct MlpShape {
  std::size_t columns = 24;
  std::size_t hidden = 48;
  std::size_t layers = 3;  // The last one has `outputs` columns.
  std::size_t outputs = 2;
  std::string features = {};
};

// Layer by layer a Gemm (with or without transB, alpha, beta and bias) or a MatMul (with or without
// Add), then Relu, Tanh or Sigmoid; "input" [N, columns] → "score" [N, outputs].
inline std::string random_mlp(const MlpShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Proto graph;
  std::string value = "input";
  std::size_t width = shape.columns;
  for (std::size_t layer = 0; layer < shape.layers; ++layer) {
    const bool last = layer + 1 == shape.layers;
    const std::size_t next = last ? shape.outputs : shape.hidden;
    const std::string at = std::to_string(layer);
    const auto rows = static_cast<std::int64_t>(width);
    const auto columns = static_cast<std::int64_t>(next);
    const float scale = 1.0F / std::sqrt(static_cast<float>(width));
    const std::vector<float> weights = gaussians(width * next, random(), scale);
    const std::string raw = "raw" + at;
    const std::string out = last ? "score" : "act" + at;
    const std::string target = last ? out : raw;
    if (random() % 2 == 0) {
      const bool turned = random() % 2 == 0;
      Proto gemm = node("Gemm", {value, "w" + at, "b" + at}, {target});
      if (turned) gemm.message(5, Proto().bytes(1, "transB").integer(3, 1).integer(20, 2));
      if (random() % 2 == 0) gemm.message(5, float_attribute("alpha", 1.5F));
      if (random() % 2 == 0) gemm.message(5, float_attribute("beta", -0.5F));
      graph.message(1, gemm);
      graph.message(5, turned ? float_tensor("w" + at, {columns, rows}, weights)
                              : float_tensor("w" + at, {rows, columns}, weights));
      graph.message(5, float_tensor("b" + at, {columns}, gaussians(next, random(), 0.3F)));
    } else {
      graph.message(1, node("MatMul", {value, "w" + at}, {target}));
      graph.message(5, float_tensor("w" + at, {rows, columns}, weights));
    }
    if (!last) {
      const char* const kinds[] = {"Relu", "Tanh", "Sigmoid"};
      graph.message(1, node(kinds[random() % 3], {raw}, {out}));
    }
    value = out;
    width = next;
  }
  graph.bytes(2, "mlp");
  graph.message(11,
                value_info("input", kOnnxFloat, {-1, static_cast<std::int64_t>(shape.columns)}));
  graph.message(12,
                value_info("score", kOnnxFloat, {-1, static_cast<std::int64_t>(shape.outputs)}));
  return model_bytes(graph, shape.features);
}

}  // namespace falaj::serving::testing
