// jobs/checkpoint/manifest.h — what a persisted checkpoint consists of, as it stands on disk.
//
// The manifest is written last, so a checkpoint is there exactly when its manifest is. It carries a
// hash of itself: a flipped bit in it is noticed as surely as one in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"

namespace falaj::jobs::checkpoint {

inline constexpr std::size_t kFilesMax = 10'000;
inline constexpr std::size_t kPathBytesMax = 512;
inline constexpr std::size_t kDepthMax = 16;
inline constexpr std::size_t kManifestBytesMax = 8u << 20;

struct FileEntry {
  std::string path;  // Below the checkpoint's folder, "weights/rank0.bin".
  std::int64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileEntry&) const = default;
};

enum class Form : std::uint8_t { kFolder, kFile };

struct Manifest {
  std::int64_t number = 0;  // Grows with every save of one archive, also over restarts.
  std::string name;         // As the worker called it.
  Form form = Form::kFolder;
  Timestamp saved_at{};
  std::optional<double> metric;
  std::vector<FileEntry> files;  // By path.

  std::int64_t bytes() const;
  bool operator==(const Manifest&) const = default;
};

// {number, name, form, saved_at, metric, bytes, files: [{path, bytes, sha256}]}
Value to_value(const Manifest& manifest);

std::string encode_manifest(const Manifest& manifest);
// kDataLoss, saying what is wrong, for anything that encode_manifest() has not written: foreign
// fields, paths that leave the folder, a hash that does not fit.
Result<Manifest> decode_manifest(std::string_view text);

// 1–128 of [A-Za-z0-9._=+-], not beginning with a dot, not ending in ".tmp". kInvalidArgument.
Status check_checkpoint_name(std::string_view name);
// Relative, valid UTF-8, no empty part, "." or "..", within the limits above. kInvalidArgument.
Status check_path(std::string_view path);

// "00000012-epoch3": the folder of a checkpoint; its manifest is the same with ".json".
std::string folder_name(std::int64_t number, std::string_view name);
// The number in front, or nothing when the text is no such name.
std::optional<std::int64_t> number_of(std::string_view folder);

}  // namespace falaj::jobs::checkpoint
