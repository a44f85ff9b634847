#include "features/internal/file_errors.h"

namespace falaj::features {

Error without_path(Error error, std::string_view path) {
  constexpr std::string_view kInstead = "the file";
  if (path.empty()) return error;
  std::size_t at = error.message.find(path);
  while (at != std::string::npos) {
    error.message.replace(at, path.size(), kInstead);
    at = error.message.find(path, at + kInstead.size());
  }
  return error;
}

}  // namespace falaj::features
