// onnx/internal/weights.h — the constant matrix of a MatMul or Gemm, as its rewriters need it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "onnx/optimize/edit.h"

namespace falaj::onnx {

// Row-major [inputs, outputs]: Y = X · values, times `alpha`, plus `beta` · bias.
struct Matrix {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  std::vector<float> values;
  float alpha = 1;
  float beta = 1;
  std::string_view bias;  // "": none.
};

// The matrix of a MatMul or Gemm, or why the node is left alone.
Result<std::variant<Matrix, std::string>> matrix_of(const ModelEdit& edit,
                                                    const ModelEdit::Node& node);

// Symmetric whole numbers of ±kInt8Most with one scale a column; a column of zeros has scale 1.
inline constexpr float kInt8Most = 63;
struct Int8Columns {
  std::string values;  // [inputs, outputs], int8.
  std::vector<float> scales;
};
Int8Columns int8_columns(const Matrix& matrix);

// The bytes of floats, as TensorProto.raw_data takes them.
std::string raw_of(const std::vector<float>& values);

// The bias as a constant or value to add, times beta: "" for none, nullopt when it cannot be had.
Result<std::optional<std::string>> scaled_bias(ModelEdit& edit, const Matrix& matrix,
                                               const std::string& stem);

}  // namespace falaj::onnx
