// Whatever the bytes: no crash, and what is accepted survives a round trip through the writer.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const falaj::Result<falaj::Value> parsed = falaj::parse_json(text);
  if (!parsed.ok()) return 0;
  FALAJ_CHECK(falaj::is_valid_utf8(text));
  const std::string written = falaj::to_json(*parsed);
  const falaj::Result<falaj::Value> again = falaj::parse_json(written);
  FALAJ_CHECK(again.ok() && *again == *parsed);
  FALAJ_CHECK(falaj::to_json(*again) == written);
  FALAJ_CHECK(falaj::parse_json(falaj::to_pretty_json(*parsed)).value() == *parsed);
  return 0;
}
