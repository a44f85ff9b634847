// Whatever an image's files hold: no crash, bounded, and names within their limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "jobs/oci/layout.h"
#include "jobs/oci/tar.h"

namespace {

using namespace falaj::jobs::oci;

void read_archive(std::string_view bytes) {
  std::size_t at = 0;
  // In odd pieces, as a decompressor gives them.
  TarReader reader([&](char* to, std::size_t count) -> falaj::Result<std::size_t> {
    const std::size_t part = std::min({count, bytes.size() - at, std::size_t{777}});
    at += bytes.copy(to, part, at);
    return part;
  });
  while (true) {
    const auto entry = reader.next();
    if (!entry.ok() || !*entry) return;
    FALAJ_CHECK((*entry)->name.size() <= TarReader::kNameMax);
    FALAJ_CHECK((*entry)->size >= 0);
    char content[1000];
    std::int64_t sum = 0;
    for (auto got = reader.read(content, sizeof content); got.ok() && *got > 0;
         got = reader.read(content, sizeof content)) {
      sum += static_cast<std::int64_t>(*got);
    }
    FALAJ_CHECK(sum <= (*entry)->size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_archive(bytes);
  const auto manifest = parse_manifest(bytes);
  if (manifest.ok()) {
    for (const Blob& layer : manifest->layers) FALAJ_CHECK(layer.digest.size() == 64);
  }
  const auto config = parse_image_config(bytes);
  if (config.ok()) FALAJ_CHECK(config->diff_ids.size() <= 128);
  return 0;
}
