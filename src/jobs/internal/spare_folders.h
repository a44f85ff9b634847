// jobs/internal/spare_folders.h — work folders that are used again. A file system takes longer to
// make a folder than to give one another name, and many short jobs leave theirs as they found it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace falaj::jobs::internal {

// Thread-safe.
class SpareFolders {
 public:
  // They are kept in `folder`, which is made when it is needed and lies on the same disk; what a
  // dead server left there is removed. `inner` is the one folder that each has in it.
  SpareFolders(std::string folder, std::string inner);

  // Gives a spare one this path, in which there is nothing; false when there is none.
  bool take(const std::string& path);
  // Takes a folder that nobody uses any more, if it is as it was made: its owner's alone, nothing
  // in it but the empty inner one, and nothing attached to either. False: remove it.
  bool keep(const std::string& path);

  static constexpr std::size_t kMost = 256;

 private:
  const std::string folder_;
  const std::string inner_;
  Mutex mutex_;
  std::vector<std::string> names_ FALAJ_GUARDED_BY(mutex_);
  std::uint64_t next_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace falaj::jobs::internal
