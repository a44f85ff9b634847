// net/http2/messages.h — gRPC's frame around a message: a flag, four bytes of length, the bytes.
// Pure; fuzzed by grpc_messages_fuzz.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/compression.h"

namespace falaj::net {

// A message as it came.
struct FramedMessage {
  std::string bytes;
  bool packed = false;  // By the call's coding.
};
// Its plain bytes, at most `message_bytes_max`. FJ-1009 and kInvalidArgument as of inflate(); takes
// time by their number: nothing for an event loop.
Result<std::string> unpack(FramedMessage message, Coding coding, std::size_t message_bytes_max);

// Puts parts of a call's bytes together into messages. Not thread-safe.
class MessageReader {
 public:
  explicit MessageReader(std::size_t message_bytes_max) : max_(message_bytes_max) {}

  void add(std::string_view bytes) { bytes_.append(bytes); }
  // The next whole message; nullopt: more must come. kResourceExhausted for one that is too long,
  // kInvalidArgument for one whose frame is damaged, or that is packed when `coding` says how none
  // is: nothing can be read after either.
  Result<std::optional<FramedMessage>> next(Coding coding);
  std::size_t pending() const { return bytes_.size(); }

 private:
  std::size_t max_;
  std::string bytes_;
};

// Appends a message with its frame, not packed.
void append_message(std::string& out, std::string_view message);

// The text of grpc-message: printable ASCII, everything else and '%' as %XX, at most 4 KiB.
std::string percent_encode(std::string_view text);

}  // namespace falaj::net
