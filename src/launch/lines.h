// launch/lines.h — what workers print, cut into lines, and the last of them kept.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace falaj::launch {

// Cuts bytes into lines. A line that grows past 16 KiB is handed on in pieces, so that a progress
// bar without newlines neither waits for ever nor fills the memory. Not thread-safe.
class LineCutter {
 public:
  using OnLine = std::function<void(std::string_view line)>;
  void feed(std::string_view bytes, const OnLine& on_line);
  // What came after the last newline.
  void finish(const OnLine& on_line);

 private:
  std::string partial_;
};

// The last lines of a worker, each cut to 512 bytes. Not thread-safe.
class Tail {
 public:
  static constexpr std::size_t kLines = 20;
  void add(std::string_view line);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace falaj::launch
