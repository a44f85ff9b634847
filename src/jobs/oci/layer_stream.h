// jobs/oci/layer_stream.h — the bytes of a layer, uncompressed, hashed on the way (hides zlib).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "jobs/oci/layout.h"

namespace falaj::jobs::oci {

// Not thread-safe. Every error is FJ-4040.
class LayerStream {
 public:
  // By its first bytes gzip, or as it is. zstd is refused.
  static Result<std::unique_ptr<LayerStream>> open(const std::string& path);
  virtual ~LayerStream() = default;
  // At most `count` bytes; 0 at the end.
  virtual Result<std::size_t> read(char* to, std::size_t count) = 0;
  // Reads what is left and compares: the file with `blob`, its content with `diff_id`.
  virtual Status finish(const Blob& blob, const std::string& diff_id) = 0;
};

}  // namespace falaj::jobs::oci
