#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx/graph.h"
#include "onnx/internal/weights.h"

namespace falaj::onnx {
namespace {

void transpose(Matrix& matrix) {
  std::vector<float> turned(matrix.values.size());
  // As it stands: [outputs, inputs].
  for (std::size_t out = 0; out < matrix.outputs; ++out) {
    for (std::size_t in = 0; in < matrix.inputs; ++in) {
      turned[in * matrix.outputs + out] = matrix.values[out * matrix.inputs + in];
    }
  }
  matrix.values = std::move(turned);
}

}  // namespace

Result<std::variant<Matrix, std::string>> matrix_of(const ModelEdit& edit,
                                                    const ModelEdit::Node& node) {
  using Found = std::variant<Matrix, std::string>;
  const bool gemm = node.is("Gemm");
  if (node.inputs.size() < 2 || node.outputs.size() != 1) return Found("it has no two inputs");
  if (gemm && node.integer("transA", 0) != 0) return Found("its first matrix is transposed");
  auto tensor = FALAJ_TRY(edit.floats(node.inputs[1]));
  if (!tensor) return Found("its second matrix is no float constant of the file");
  if (tensor->shape.size() != 2 || tensor->values.empty()) {
    return Found("its second matrix has other than two dimensions");
  }
  const bool finite = std::all_of(tensor->values.begin(), tensor->values.end(),
                                  [](float value) { return std::isfinite(value); });
  if (!finite) return Found("a weight is not finite");
  Matrix matrix;
  matrix.inputs = static_cast<std::size_t>(tensor->shape[0]);
  matrix.outputs = static_cast<std::size_t>(tensor->shape[1]);
  matrix.values = std::move(tensor->values);
  if (!gemm) return Found(std::move(matrix));
  if (node.integer("transB", 0) != 0) {
    std::swap(matrix.inputs, matrix.outputs);
    transpose(matrix);
  }
  matrix.alpha = node.number("alpha", 1);
  matrix.beta = node.number("beta", 1);
  if (!std::isfinite(matrix.alpha) || !std::isfinite(matrix.beta)) {
    return Found("alpha or beta is not finite");
  }
  if (node.inputs.size() > 2 && matrix.beta != 0) matrix.bias = node.inputs[2];
  return Found(std::move(matrix));
}

Int8Columns int8_columns(const Matrix& matrix) {
  Int8Columns out;
  out.scales.assign(matrix.outputs, 0);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    float& most = out.scales[i % matrix.outputs];
    most = std::max(most, std::abs(matrix.values[i]));
  }
  for (float& scale : out.scales) {
    scale /= kInt8Most;
    // Zeros, or so small that a scale of it is nothing.
    if (scale < 1e-37F) scale = 1;
  }
  out.values.resize(matrix.values.size());
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    const float whole = std::nearbyint(matrix.values[i] / out.scales[i % matrix.outputs]);
    out.values[i] = static_cast<char>(std::clamp(whole, -kInt8Most, kInt8Most));
  }
  return out;
}

std::string raw_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Result<std::optional<std::string>> scaled_bias(ModelEdit& edit, const Matrix& matrix,
                                               const std::string& stem) {
  if (matrix.bias.empty() || matrix.beta == 1) {
    return std::optional(std::string(matrix.bias));
  }
  auto tensor = FALAJ_TRY(edit.floats(matrix.bias));
  if (!tensor) return std::optional<std::string>{};
  for (float& value : tensor->values) value *= matrix.beta;
  return std::optional(edit.add_constant(stem, kFloat, tensor->shape, raw_of(tensor->values)));
}

}  // namespace falaj::onnx
