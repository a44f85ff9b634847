#include "net/internal/sse.h"

namespace falaj::net {

EventReader::Outcome EventReader::feed(std::string_view bytes,
                                       const std::function<bool(std::string_view)>& on_data) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > event_bytes_max_) return Outcome::kTooLarge;
    if (end == std::string_view::npos) break;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!take_line(line_, on_data)) return Outcome::kStopped;
    line_.clear();
  }
  return Outcome::kMore;
}

// False: the reader has had enough.
bool EventReader::take_line(std::string_view line,
                            const std::function<bool(std::string_view)>& on_data) {
  if (line.empty()) {
    const bool more = !has_data_ || on_data(data_);
    data_.clear();
    has_data_ = false;
    return more;
  }
  const std::size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return true;
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
  return true;
}

}  // namespace falaj::net
