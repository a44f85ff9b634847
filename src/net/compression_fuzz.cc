// Unpacking under libFuzzer: any bytes are answered, within the limit, and what was unpacked comes
// back after being packed again.
#include <cstdint>
#include <cstdlib>

#include "net/compression.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::net;
  if (size == 0) return 0;
  constexpr std::size_t kMax = 1 << 20;
  const Coding coding = (data[0] & 1) != 0 ? Coding::kGzip : Coding::kDeflate;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static_cast<void>(accepted_coding(bytes));
  const auto plain = inflate(bytes, coding, kMax);
  if (!plain.ok()) return 0;
  if (plain->size() > kMax) std::abort();
  const auto again = deflate(*plain, coding);
  if (!again.ok() || inflate(*again, coding, kMax).value() != *plain) std::abort();
  return 0;
}
