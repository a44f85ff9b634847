// Any bytes as a :predict body: refused or read, never worse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/native/predict_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  static falaj::api::PredictRequest request;  // As a server does: one after another.
  static_cast<void>(falaj::api::parse_predict(body, request).ok());
  return 0;
}
