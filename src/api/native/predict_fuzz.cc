// Any bytes as a :predict body: refused or read, never worse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/native/predict_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  static_cast<void>(falaj::api::parse_predict(body).ok());
  return 0;
}
