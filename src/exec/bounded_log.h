// exec/bounded_log.h — what a process prints, in a file that cannot fill the disk.
//
// The first half of the permitted bytes goes to the file as it comes. What follows goes to two
// files beside it ("<path>.tail" and the older "<path>.tail.old"), of a quarter each, the oldest
// being dropped; finish() puts them behind the first half with a line between that says how much
// was left out. So the file is plain text at any time, and a log within its bound is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace falaj::exec {

// Not thread-safe; one writer for a path.
class BoundedLog {
 public:
  // Appends to the file if it is there (then its bytes count); otherwise it is made when something
  // is written. kUnavailable with errno's text when it cannot be. `bytes_max` below 4 KiB counts as
  // 4 KiB.
  static Result<BoundedLog> open(const std::string& path, std::int64_t bytes_max);

  // Never fails for the process's sake: bytes that the disk refuses count as left out.
  void write(std::string_view bytes);
  // Nothing may be written afterwards. How many bytes were left out.
  std::int64_t finish();
  std::int64_t bytes_cut() const;

 private:
  BoundedLog() = default;
  void write_tail(std::string_view bytes);

  std::string path_;
  Descriptor head_;
  Descriptor tail_;
  std::int64_t head_left_ = 0;
  std::int64_t tail_max_ = 0;
  std::int64_t tail_bytes_ = 0;
  std::int64_t old_bytes_ = 0;
  std::int64_t dropped_ = 0;
};

// Finishes the log of a writer that died. How much was left out is then not known; the line says
// so. Nothing is done when it was finished, or kept its bound.
void finish_abandoned_log(const std::string& path);

}  // namespace falaj::exec
