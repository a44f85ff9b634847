#include "exec/internal/folder_meter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace falaj::exec::internal {
namespace {

constexpr std::size_t kDepthMax = 128;
constexpr std::int64_t kNameBytes = 4096;  // A name and its inode are not free.

}  // namespace

// False when what is there cannot be measured; what is not there any more needs no measure.
bool FolderMeter::enter(int parent, const char* name) {
  if (open_.size() >= kDepthMax) return false;
  const int file = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return errno == ENOENT || errno == ENOTDIR;
  DIR* listing = ::fdopendir(file);
  if (listing == nullptr) {
    ::close(file);
    return false;
  }
  open_.emplace_back(listing);
  return true;
}

bool FolderMeter::take(const char* name) {
  const int here = ::dirfd(open_.back().get());
  struct stat info {};
  if (::fstatat(here, name, &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) return true;
  const bool folder = S_ISDIR(info.st_mode);
  const std::int64_t names = folder ? 1 : std::max<std::int64_t>(1, std::int64_t(info.st_nlink));
  bytes_ += std::max<std::int64_t>(std::int64_t{info.st_blocks} * 512 / names, kNameBytes);
  return !folder || enter(here, name);
}

FolderMeter::Found FolderMeter::look(int names) {
  if (open_.empty() && next_ == 0) {
    bytes_ = 0;
    unmeasured_ = false;
  }
  while (!is_too_much() && !(open_.empty() && next_ == folders_.size())) {
    if (open_.empty()) {
      unmeasured_ = !enter(AT_FDCWD, folders_[next_++].c_str());
      continue;
    }
    if (names-- <= 0) return Found::kNotYet;
    const dirent* entry = ::readdir(open_.back().get());
    if (entry == nullptr) {
      open_.pop_back();
      continue;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    unmeasured_ = !take(entry->d_name);
  }
  const Found found = is_too_much() ? Found::kTooMuch : Found::kWithin;
  open_.clear();
  next_ = 0;
  return found;
}

}  // namespace falaj::exec::internal
