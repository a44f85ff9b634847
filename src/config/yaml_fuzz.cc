// Whatever the bytes: no crash, and what is accepted survives a round trip through the writer.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "config/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = falaj::config::parse_yaml(text);
  if (!parsed.ok()) return 0;
  for (const falaj::Value& document : *parsed) {
    const std::string written = falaj::config::to_yaml(document);
    const auto again = falaj::config::parse_yaml(written);
    FALAJ_CHECK(again.ok() && again->size() == 1 && again->front() == document);
  }
  return 0;
}
