#include "serving/datatypes.h"

#include <array>

namespace falaj::serving {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<Row, 14> kRows{{{"BOOL", 1},
                                     {"UINT8", 1},
                                     {"UINT16", 2},
                                     {"UINT32", 4},
                                     {"UINT64", 8},
                                     {"INT8", 1},
                                     {"INT16", 2},
                                     {"INT32", 4},
                                     {"INT64", 8},
                                     {"FP16", 2},
                                     {"FP32", 4},
                                     {"FP64", 8},
                                     {"BF16", 2},
                                     {"BYTES", 0}}};
constexpr std::int64_t kElementsMax = std::int64_t{1} << 31;

}  // namespace

std::string_view datatype_name(Datatype type) { return kRows[static_cast<std::size_t>(type)].name; }

Result<Datatype> parse_datatype(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Datatype>(i);
  }
  return Error(ErrorId::kTensorMismatch,
               "'" + std::string(name.substr(0, 32)) + "' is no datatype; use FP32, INT64, …");
}

std::size_t element_bytes(Datatype type) { return kRows[static_cast<std::size_t>(type)].bytes; }

Result<std::size_t> element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0) {
      return Error(ErrorId::kTensorMismatch,
                   "shape " + shape_text(shape) + " has a negative dimension");
    }
    if (dim > kElementsMax || count * dim > kElementsMax) {
      return Error(ErrorId::kTensorMismatch,
                   "shape " + shape_text(shape) + " has over 2^31 elements");
    }
    count *= dim;
  }
  return static_cast<std::size_t>(count);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace falaj::serving
