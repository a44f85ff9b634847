// net/internal/sse.h — takes server-sent events apart, however the bytes were cut.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace falaj::net {

// Not thread-safe. Only the data of events counts; names, ids and comments are skipped.
class EventReader {
 public:
  explicit EventReader(std::size_t event_bytes_max) : event_bytes_max_(event_bytes_max) {}

  enum class Outcome { kMore, kStopped, kTooLarge };
  // kStopped once `on_data` returned false.
  Outcome feed(std::string_view bytes, const std::function<bool(std::string_view)>& on_data);

 private:
  bool take_line(std::string_view line, const std::function<bool(std::string_view)>& on_data);

  const std::size_t event_bytes_max_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // The last byte was CR: an LF belongs to it.
};

}  // namespace falaj::net
