// jobs/oci/unpack.h — the layers of an image, one over the other, as a folder.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/oci/layout.h"
#include "jobs/oci/tar.h"

namespace falaj::jobs::oci {

struct UnpackLimits {
  std::int64_t bytes_max = std::int64_t{64} << 30;  // Of all files together.
  std::int64_t entries_max = 2'000'000;
};

// What was unpacked so far, of all layers.
struct Unpacked {
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
};

// Puts one layer into `folder`, which exists. Whiteouts take away what lower layers put there. A
// name never leads out of the folder: ".." is refused, links are followed inside it only. Devices
// and pipes are refused; owners are left out (everything is the caller's), as are the bits that
// give a program another user. FJ-4040.
Status unpack_layer(TarReader& layer, const std::string& folder, const UnpackLimits& limits,
                    Unpacked& sum);

// The whole image into `folder`, which is empty, layers as they are or by gzip; compressed and
// unpacked each layer is checked by its hash. Half of it stays there after an error.
Result<Unpacked> unpack_image(const std::string& layout, const Image& image,
                              const std::string& folder, const UnpackLimits& limits = {});

}  // namespace falaj::jobs::oci
