// Whatever a manifest says, with a hash that fits or without: refused, or read and written back to
// the very same manifest, with no path that leaves the folder.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "jobs/checkpoint/manifest.h"

namespace {

using namespace falaj;
using namespace falaj::jobs::checkpoint;

void look_at(std::string_view text) {
  const auto read = decode_manifest(text);
  if (!read.ok()) return;
  for (const FileEntry& file : read->files) FALAJ_CHECK(check_path(file.path).ok());
  const auto again = decode_manifest(encode_manifest(*read));
  FALAJ_CHECK(again.ok() && *again == *read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  look_at(text);
  const auto body = parse_json(text);
  if (!body.ok()) return 0;
  Value whole = Value::object();
  whole["format"] = "falaj-checkpoint/1";
  whole["checkpoint"] = *body;
  whole["sha256"] = sha256_hex(to_json(*body));
  look_at(to_json(whole));
  return 0;
}
