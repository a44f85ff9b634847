// serving/testing/tiny_onnx.h — small ONNX files, written byte by byte, for tests of what loads
// them.
//
// A test needs models whose answers it can work out by hand; the trainer's exporter lives above.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace falaj::serving::testing {

// The protobuf wire format, as far as ONNX needs it.
class Proto {
 public:
  // A message whose bytes are there already.
  static Proto raw(std::string bytes) {
    Proto made;
    made.out_ = std::move(bytes);
    return made;
  }
  Proto& integer(unsigned field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
    return *this;
  }
  Proto& bytes(unsigned field, std::string_view value) {
    varint((std::uint64_t{field} << 3) | 2);
    varint(value.size());
    out_.append(value);
    return *this;
  }
  Proto& message(unsigned field, const Proto& value) { return bytes(field, value.out_); }
  const std::string& str() const { return out_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>((value & 0x7F) | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  std::string out_;
};

inline constexpr std::uint64_t kOnnxFloat = 1;
inline constexpr std::uint64_t kOnnxInt64 = 7;
inline constexpr std::uint64_t kOnnxString = 8;
inline constexpr std::uint64_t kOnnxBool = 9;
inline constexpr std::uint64_t kOnnxHalf = 10;
inline constexpr std::uint64_t kOnnxBfloat = 16;

// A tensor input or output; -1 stands for the batch.
inline Proto value_info(std::string_view name, std::uint64_t type,
                        const std::vector<std::int64_t>& shape) {
  Proto dims;
  for (const std::int64_t dim : shape) {
    Proto one;
    if (dim < 0) {
      one.bytes(2, "N");
    } else {
      one.integer(1, static_cast<std::uint64_t>(dim));
    }
    dims.message(1, one);
  }
  const Proto tensor = Proto().integer(1, type).message(2, dims);
  return Proto().bytes(1, name).message(2, Proto().message(1, tensor));
}

inline Proto float_tensor(std::string_view name, const std::vector<std::int64_t>& shape,
                          const std::vector<float>& values) {
  Proto tensor;
  for (const std::int64_t dim : shape) tensor.integer(1, static_cast<std::uint64_t>(dim));
  tensor.integer(2, kOnnxFloat).bytes(8, name);
  std::string raw(values.size() * sizeof(float), '\0');
  if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  tensor.bytes(9, raw);
  return tensor;
}

inline Proto node(std::string_view op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs,
                  const std::vector<std::pair<std::string, std::int64_t>>& integers = {}) {
  Proto made;
  for (const std::string& input : inputs) made.bytes(1, input);
  for (const std::string& output : outputs) made.bytes(2, output);
  made.bytes(4, op);
  for (const auto& [name, value] : integers) {
    made.message(
        5, Proto().bytes(1, name).integer(3, static_cast<std::uint64_t>(value)).integer(20, 2));
  }
  return made;
}

inline std::string model_bytes(const Proto& graph, std::string_view features) {
  Proto model;
  model.integer(1, 8).bytes(2, "falaj-test").message(7, graph);
  model.message(8, Proto().bytes(1, "").integer(2, 13));
  if (!features.empty()) {
    model.message(14, Proto().bytes(1, "features").bytes(2, features));
  }
  return model.str();
}

// input [N, weights] → "score" [N, 1] = x · weights + bias. `features`: a JSON list of names, or
// "".
inline std::string linear_onnx(const std::vector<float>& weights, float bias,
                               std::string_view features = "") {
  const auto columns = static_cast<std::int64_t>(weights.size());
  Proto graph;
  graph.message(1, node("Gemm", {"input", "weights", "bias"}, {"score"})).bytes(2, "linear");
  graph.message(5, float_tensor("weights", {columns, 1}, weights));
  graph.message(5, float_tensor("bias", {1}, {bias}));
  graph.message(11, value_info("input", kOnnxFloat, {-1, columns}));
  graph.message(12, value_info("score", kOnnxFloat, {-1, 1}));
  return model_bytes(graph, features);
}

// "x" → "y", the same, of any type and shape.
inline std::string identity_onnx(std::uint64_t type, const std::vector<std::int64_t>& shape) {
  Proto graph;
  graph.message(1, node("Identity", {"x"}, {"y"})).bytes(2, "identity");
  graph.message(11, value_info("x", type, shape));
  graph.message(12, value_info("y", type, shape));
  return model_bytes(graph, "");
}

// The shape of a classifier: "label" INT64 [N] and "probabilities" [N, 2] = (1 − p, p), where p is
// the logistic of x · weights + bias.
inline std::string classifier_onnx(const std::vector<float>& weights, float bias) {
  const auto columns = static_cast<std::int64_t>(weights.size());
  Proto graph;
  graph.message(1, node("Gemm", {"input", "weights", "bias"}, {"raw"}));
  graph.message(1, node("Sigmoid", {"raw"}, {"p"}));
  graph.message(1, node("Sub", {"one", "p"}, {"q"}));
  graph.message(1, node("Concat", {"q", "p"}, {"probabilities"}, {{"axis", 1}}));
  graph.message(1, node("ArgMax", {"probabilities"}, {"label"}, {{"axis", 1}, {"keepdims", 0}}));
  graph.bytes(2, "classifier");
  graph.message(5, float_tensor("weights", {columns, 1}, weights));
  graph.message(5, float_tensor("bias", {1}, {bias}));
  graph.message(5, float_tensor("one", {1, 1}, {1.0F}));
  graph.message(11, value_info("input", kOnnxFloat, {-1, columns}));
  graph.message(12, value_info("label", kOnnxInt64, {-1}));
  graph.message(12, value_info("probabilities", kOnnxFloat, {-1, 2}));
  return model_bytes(graph, "");
}

}  // namespace falaj::serving::testing
