#include "storage/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "storage/internal/posix_file.h"

namespace falaj::storage {

Result<SmallFile> read_small_file(const std::string& path, std::size_t bytes_max) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    if (errno == ENOENT) return Error{Code::kNotFound, path + " does not exist"};
    return Error{ErrorId::kFileUnreadable, path + ": " + std::strerror(errno)};
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error{ErrorId::kFileUnreadable, path + " is not a regular file"};
  }
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max) {
    return Error{ErrorId::kFileUnreadable, path + " has " + std::to_string(info.st_size) +
                                               " bytes; at most " + std::to_string(bytes_max) +
                                               " are read"};
  }
  SmallFile read;
  read.content = FALAJ_TRY(read_all(file.get(), path));
  read.readable_by = (info.st_mode & 077) == 0 ? ReadableBy::kOwner : ReadableBy::kOthers;
  return read;
}

Status write_small_file(const std::string& path, std::string_view content) {
  return replace_file(path, content, Durability::kSync);
}

}  // namespace falaj::storage
