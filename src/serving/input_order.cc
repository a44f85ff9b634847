#include "serving/input_order.h"

#include <algorithm>

namespace falaj::serving {
namespace {

Error mismatch(std::string text) { return Error(ErrorId::kTensorMismatch, std::move(text)); }

bool fits(const std::vector<std::int64_t>& expected, const std::vector<std::int64_t>& got) {
  return std::equal(expected.begin(), expected.end(), got.begin(), got.end(),
                    [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; });
}

}  // namespace

Status order_inputs(std::span<const registry::TensorSpec> specs, std::span<const Datatype> types,
                    std::span<const Tensor> inputs, std::vector<const Tensor*>& ordered) {
  ordered.assign(specs.size(), nullptr);
  for (const Tensor& tensor : inputs) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const registry::TensorSpec& s) {
      return s.name == tensor.name;
    });
    if (spec == specs.end()) {
      return mismatch("unexpected inference input '" + tensor.name + "'");
    }
    const auto index = static_cast<std::size_t>(spec - specs.begin());
    if (ordered[index] != nullptr) return mismatch("input '" + tensor.name + "' stands twice");
    if (tensor.datatype != spec->datatype) {
      return mismatch("input '" + tensor.name + "' is " + tensor.datatype + ", the model expects " +
                      spec->datatype);
    }
    const std::size_t count = FALAJ_TRY(element_count(tensor.shape));
    if (!fits(spec->shape, tensor.shape)) {
      return mismatch("unexpected shape for input '" + tensor.name + "'. Expected " +
                      shape_text(spec->shape) + ", got " + shape_text(tensor.shape));
    }
    const std::size_t bytes = count * element_bytes(types[index]);
    if (types[index] != Datatype::kBytes && bytes != tensor.bytes.size()) {
      return mismatch("input '" + tensor.name + "' has " + std::to_string(tensor.bytes.size()) +
                      " bytes, its shape needs " + std::to_string(bytes));
    }
    ordered[index] = &tensor;
  }
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (ordered[i] == nullptr) {
      return mismatch("input '" + specs[i].name + "' is missing");
    }
  }
  return {};
}

}  // namespace falaj::serving
