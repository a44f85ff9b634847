#include "launch/lines.h"

#include <algorithm>

#include "base/json.h"

namespace falaj::launch {
namespace {

constexpr std::size_t kLineBytesMax = 16 * 1024;
constexpr std::size_t kTailBytesMax = 512;

}  // namespace

void LineCutter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t room = kLineBytesMax - partial_.size();
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, std::min(end, room));
    partial_.append(part);
    bytes.remove_prefix(part.size());
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (!ended && partial_.size() < kLineBytesMax) return;
    on_line(partial_);
    partial_.clear();
  }
}

void LineCutter::finish(const OnLine& on_line) {
  if (!partial_.empty()) on_line(partial_);
  partial_.clear();
}

void Tail::add(std::string_view line) {
  if (lines_.size() == kLines) lines_.pop_front();
  std::string kept(line.substr(0, kTailBytesMax));
  // It goes into JSON, which bytes that are no text would spoil.
  std::replace(kept.begin(), kept.end(), '\0', '?');
  if (!is_valid_utf8(kept)) {
    std::replace_if(
        kept.begin(), kept.end(), [](char c) { return static_cast<unsigned char>(c) > 126; }, '?');
  }
  lines_.push_back(std::move(kept));
}

}  // namespace falaj::launch
