// jobs/oci/layout.h — an image in a folder, as the OCI image layout has it: blobs/sha256/<digest>.
// Only what an administrator named by its digest is used, and every file is checked against its
// own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::jobs::oci {

struct Blob {
  std::string media_type;
  std::string digest;  // 64 digits of a SHA-256.
  std::int64_t size = 0;
};

struct Manifest {
  std::vector<Blob> manifests;  // Of an index: one for each platform, ours alone.
  Blob config;                  // Of a manifest.
  std::vector<Blob> layers;     // Lowest first.
};

struct ImageConfig {
  std::vector<std::string> env;       // "NAME=value"
  std::vector<std::string> diff_ids;  // Of the layers, unpacked: 64 digits each.
};

struct Image {
  std::vector<Blob> layers;
  ImageConfig config;
};

// "sha256:" and 64 digits, as 64 digits. FJ-4040. Pure, as the two that follow.
Result<std::string> parse_digest(std::string_view text);
// A manifest or an index of manifests, by its media type or its members.
Result<Manifest> parse_manifest(std::string_view text);
Result<ImageConfig> parse_image_config(std::string_view text);

// The path of a blob in the folder.
std::string blob_path(const std::string& layout, const std::string& digest);
// Reads manifest and configuration. FJ-4040 for what is absent, not what its digest says, not for
// Linux on this processor, or out of bounds (at most 128 layers).
Result<Image> read_image(const std::string& layout, const std::string& digest);

}  // namespace falaj::jobs::oci
