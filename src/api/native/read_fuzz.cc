// Any bytes as a :read body: refused or read, never worse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/native/online_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  static falaj::api::ReadRequest request;  // As a server does: one after another.
  static_cast<void>(falaj::api::parse_read(body, request).ok());
  return 0;
}
