// base/file_hash.h — the content hash of a file.
#pragma once

#include <optional>
#include <string>

namespace falaj {

// SHA-256 of the file's bytes, 64 lower-case digits; links are followed. Nothing when it is no
// plain file or cannot be read to its end. Reads the whole file.
std::optional<std::string> file_sha256(const std::string& path);

}  // namespace falaj
