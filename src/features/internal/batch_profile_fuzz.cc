// Any bytes as a profile: an error or a profile that can be shown, merged and stored again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "features/internal/batch_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;            // NOLINT: one function, one file.
  using namespace falaj::features;  // NOLINT
  auto profile = decode_profile({reinterpret_cast<const char*>(data), size});
  if (!profile.ok()) return 0;
  static_cast<void>(to_value(*profile));
  const std::string bytes = encode(*profile);
  const auto again = decode_profile(bytes);
  FALAJ_CHECK(again.ok() && encode(*again) == bytes);
  profile->merge(*again);
  static_cast<void>(to_value(*profile));
  return 0;
}
