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

// Puts parts of a call's bytes together into messages. Not thread-safe.
class MessageReader {
 public:
  explicit MessageReader(std::size_t message_bytes_max) : max_(message_bytes_max) {}

  void add(std::string_view bytes) { bytes_.append(bytes); }
  // The next whole message, unpacked by `coding` if its flag says so; nullopt: more must come.
  // kResourceExhausted for one that is too long, kInvalidArgument for one that is damaged: nothing
  // can be read after either.
  Result<std::optional<std::string>> next(Coding coding);
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
