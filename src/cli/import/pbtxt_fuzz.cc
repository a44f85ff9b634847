// Whatever the bytes: no crash, and a config is read or refused.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "cli/import/pbtxt.h"
#include "cli/import/triton_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = falaj::cli::parse_pbtxt(text);
  const auto config = falaj::cli::read_triton_config(text);
  FALAJ_CHECK(parsed.ok() || !config.ok());
  static_cast<void>(falaj::cli::read_labels(text));
  return 0;
}
