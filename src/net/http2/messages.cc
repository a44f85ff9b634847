#include "net/http2/messages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "net/grpc_server.h"

namespace falaj::net {
namespace {

constexpr std::size_t kFrameBytes = 5;
constexpr std::size_t kKeptBytes = 64 << 10;
constexpr std::size_t kTextMax = 4096;

std::size_t length_in(std::string_view frame) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < kFrameBytes; ++i) {
    length = length << 8 | static_cast<std::uint8_t>(frame[i]);
  }
  return length;
}

}  // namespace

Result<std::string> unpack(FramedMessage message, Coding coding, std::size_t message_bytes_max) {
  if (!message.packed) return std::move(message.bytes);
  return inflate(message.bytes, coding, inflated_max(message.bytes.size(), message_bytes_max));
}

Result<std::optional<FramedMessage>> MessageReader::next(Coding coding) {
  if (bytes_.size() < kFrameBytes) return std::optional<FramedMessage>();
  const auto flag = static_cast<std::uint8_t>(bytes_[0]);
  const std::size_t length = length_in(bytes_);
  if (flag > 1) return Error(Code::kInvalidArgument, "a message has an unknown flag");
  if (flag == 1 && coding == Coding::kIdentity) {
    return Error(Code::kInvalidArgument, "a message is compressed, and no grpc-encoding says how");
  }
  if (length > max_) {
    return Error(Code::kResourceExhausted, "Received message larger than max (" +
                                               std::to_string(length) + " vs. " +
                                               std::to_string(max_) + ")");
  }
  if (bytes_.size() < kFrameBytes + length) return std::optional<FramedMessage>();
  FramedMessage message{bytes_.substr(kFrameBytes, length), flag == 1};
  bytes_.erase(0, kFrameBytes + length);
  if (bytes_.empty() && bytes_.capacity() > kKeptBytes) std::string().swap(bytes_);
  return std::optional<FramedMessage>(std::move(message));
}

void append_message(std::string& out, std::string_view message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  out.reserve(out.size() + kFrameBytes + message.size());
  out.push_back('\0');
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift));
  out.append(message);
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text.substr(0, kTextMax)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '%') {
      out.push_back(c);
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

int grpc_status(Code code) {
  switch (code) {
    case Code::kCancelled:
      return 1;
    case Code::kInvalidArgument:
      return 3;
    case Code::kDeadlineExceeded:
      return 4;
    case Code::kNotFound:
      return 5;
    case Code::kConflict:
      return 6;
    case Code::kPermissionDenied:
      return 7;
    case Code::kResourceExhausted:
      return 8;
    case Code::kFailedPrecondition:
      return 9;
    case Code::kUnimplemented:
      return 12;
    case Code::kInternal:
      return 13;
    case Code::kUnavailable:
      return 14;
    case Code::kDataLoss:
      return 15;
    case Code::kUnauthenticated:
      return 16;
  }
  return 2;
}

std::optional<Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  std::int64_t count = 0;
  const char* const unit = text.data() + text.size() - 1;
  const auto [end, failure] = std::from_chars(text.data(), unit, count);
  if (failure != std::errc() || end != unit || count < 0) return std::nullopt;
  switch (*unit) {
    case 'H':
      return Duration::hours(std::min<std::int64_t>(count, 24 * 365));
    case 'M':
      return Duration::minutes(std::min<std::int64_t>(count, 60 * 24 * 365));
    case 'S':
      return Duration::seconds(count);
    case 'm':
      return Duration::milliseconds(count);
    case 'u':
      return Duration{count * 1000};
    case 'n':
      return Duration{count};
    default:
      return std::nullopt;
  }
}

}  // namespace falaj::net
