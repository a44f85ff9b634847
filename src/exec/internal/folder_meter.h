// exec/internal/folder_meter.h — how much disk some folders take, found out a little at a time, so
// that one thread can watch many.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace falaj::exec::internal {

// Counts the blocks of every file below the folders, none of which lies in another (each name at
// least 4 KiB, a file with several names once in all when all of them are below it). Follows no
// link. Folders that cannot be opened, or that lie deeper than 128, count as too much: what cannot
// be measured is not granted. Not seen: what has no name any more (a deleted file that is still
// open). Not thread-safe.
class FolderMeter {
 public:
  FolderMeter(std::vector<std::string> folders, std::int64_t bytes_max)
      : folders_(std::move(folders)), bytes_max_(bytes_max) {}

  enum class Found : std::uint8_t { kNotYet, kWithin, kTooMuch };
  // Looks at most at `names` more; the answer as soon as it is certain. After kWithin the next call
  // begins anew.
  Found look(int names);
  std::int64_t bytes() const { return bytes_; }  // Of the last count, as far as it went.

 private:
  struct Close {
    void operator()(DIR* listing) const { ::closedir(listing); }
  };
  using Listing = std::unique_ptr<DIR, Close>;

  bool enter(int parent, const char* name);
  bool take(const char* name);
  bool is_too_much() const { return unmeasured_ || bytes_ > bytes_max_; }

  const std::vector<std::string> folders_;
  const std::int64_t bytes_max_;
  std::size_t next_ = 0;       // Of folders_, which is to be opened.
  std::vector<Listing> open_;  // From the folder down to where it is.
  std::int64_t bytes_ = 0;
  bool unmeasured_ = false;
};

}  // namespace falaj::exec::internal
