#include "jobs/internal/spare_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "base/descriptor.h"

namespace falaj::jobs::internal {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// What is in a folder that is its owner's alone and has nothing attached; false otherwise.
bool plain_contents(int folder, mode_t mode, std::vector<std::string>& names) {
  struct stat about {};
  if (::fstat(folder, &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != ::geteuid() ||
      (about.st_mode & 07777) != mode || ::flistxattr(folder, nullptr, 0) > 0) {
    return false;
  }
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> listing(copy < 0 ? nullptr : ::fdopendir(copy));
  if (!listing) return false;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.emplace_back(name);
    if (names.size() > 1) return false;
  }
  return true;
}

}  // namespace

SpareFolders::SpareFolders(std::string folder, std::string inner)
    : folder_(std::move(folder)), inner_(std::move(inner)) {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool SpareFolders::take(const std::string& path) {
  std::string name;
  {
    MutexLock lock(mutex_);
    if (names_.empty()) return false;
    name = std::move(names_.back());
    names_.pop_back();
  }
  return ::rename((folder_ + "/" + name).c_str(), path.c_str()) == 0;
}

bool SpareFolders::keep(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  std::vector<std::string> names;
  if (!folder.valid() || !plain_contents(folder.get(), 0700, names)) return false;
  if (names != std::vector<std::string>{inner_}) return false;
  const Descriptor inner(
      ::openat(folder.get(), inner_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  std::vector<std::string> inside;
  if (!inner.valid() || !plain_contents(inner.get(), 0700, inside) || !inside.empty()) {
    return false;
  }
  MutexLock lock(mutex_);
  if (names_.size() >= kMost) return false;
  std::string name = std::to_string(next_++);
  const std::string aside = folder_ + "/" + name;
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    if (::mkdir(folder_.c_str(), 0700) != 0) return false;
    if (::rename(path.c_str(), aside.c_str()) != 0) return false;
  }
  names_.push_back(std::move(name));
  return true;
}

}  // namespace falaj::jobs::internal
