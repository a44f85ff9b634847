// Whatever the bytes: no crash, and an entry that is accepted has these bytes and no others.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "security/audit/entry.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto entry = falaj::security::parse_entry(text);
  if (!entry.ok()) return 0;
  const auto again = falaj::security::canonical_entry(*entry);
  // What could be parsed could be too deep to be written today.
  FALAJ_CHECK(!again.ok() || *again == text);
  return 0;
}
