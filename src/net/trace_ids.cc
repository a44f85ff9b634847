#include "net/internal/trace_ids.h"

#include <array>
#include <string_view>

namespace falaj::net {
namespace {

void append_hex(std::string& out, std::uint64_t number) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, 16> text;
  for (std::size_t i = text.size(); i-- > 0; number >>= 4) text[i] = kDigits[number & 15u];
  out.append(text.data(), text.size());
}

}  // namespace

std::uint64_t TraceIds::next() {  // splitmix64: every seed gives a full period.
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) | 1u;  // Never zero, which the trace context forbids.
}

void TraceIds::new_request_id(std::string& out) {
  out.clear();
  append_hex(out, next());
}

void TraceIds::new_traceparent(std::string& out) {
  out.assign("00-");
  append_hex(out, next());
  append_hex(out, next());
  out += '-';
  append_hex(out, next());
  out += "-01";
}

}  // namespace falaj::net
