// Any bytes as a body of /get-online-features: refused or read, never worse.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/feast/feast_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto parsed = falaj::api::parse_feast_read(body);
  if (parsed.ok()) static_cast<void>(falaj::api::views_of(*parsed));
  return 0;
}
