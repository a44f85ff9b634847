#include "base/file_hash.h"

#include <filesystem>
#include <fstream>

#include "base/hash.h"

namespace falaj {

std::optional<std::string> file_sha256(const std::string& path) {
  constexpr std::size_t kReadBytes = 64 * 1024;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  Sha256Hasher hasher;
  std::string bytes(kReadBytes, '\0');
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    hasher.update(std::string_view(bytes.data(), static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) return std::nullopt;
  return hasher.finish().hex();
}

}  // namespace falaj
