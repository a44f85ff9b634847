// Any bytes as a model from elsewhere: refused with a reason or found fit, never worse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "onnx/foreign.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto model = falaj::onnx::check_foreign(bytes);
  if (!model.ok()) {
    FALAJ_CHECK(model.error().id == falaj::ErrorId::kModelFormatRefused);
    return 0;
  }
  FALAJ_CHECK(model->nodes <= size && model->tensors <= size);
  return 0;
}
