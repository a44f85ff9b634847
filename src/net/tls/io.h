// net/tls/io.h — how a call on a socket that nobody waits for came out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace falaj::net {

enum class IoOutcome : std::uint8_t {
  kDone,       // `bytes` were moved.
  kWantRead,   // Try again when the socket is readable.
  kWantWrite,  // Try again when the socket is writable.
  kClosed,     // The peer has ended its side, in order.
  kFailed,     // Reset, or a TLS fault; error_text() of whose call it was says which.
};

struct IoResult {
  IoOutcome outcome = IoOutcome::kDone;
  std::size_t bytes = 0;
};

}  // namespace falaj::net
