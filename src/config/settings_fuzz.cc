// Any bytes as a settings file: refused with a message that names the file, or read; never worse.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "config/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::config;  // NOLINT: one function, one file.
  Sources sources;
  sources.file_name = "falaj.yaml";
  sources.file_text = std::string(reinterpret_cast<const char*>(data), size);
  const auto settings = Settings::load(sources);
  if (!settings.ok()) {
    FALAJ_CHECK(settings.error().message.find("falaj.yaml") != std::string::npos);
    return 0;
  }
  for (const Setting& setting : declared()) {
    FALAJ_CHECK(!settings.value().origin_text(setting.key).empty());
  }
  return 0;
}
