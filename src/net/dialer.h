// net/dialer.h — a stream of bytes to a server that speaks no HTTP, plain or TLS 1.3.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/tls_options.h"

namespace falaj::net {

struct DialerOptions {
  std::string host;  // A name or an address, without brackets.
  std::uint16_t port = 0;
  std::optional<ClientTls> tls;  // nullopt: plain.
  Duration connect_timeout = Duration::seconds(5);
};

// Blocking; one thread at a time. `deadline` is monotonic nanoseconds; past it kDeadlineExceeded.
class ByteConnection {
 public:
  virtual ~ByteConnection() = default;
  // Writes all of it. FJ-8008 when the connection broke.
  virtual Status write(std::string_view bytes, std::int64_t deadline) = 0;
  // At least one byte, or 0 when the server ended the connection.
  virtual Result<std::size_t> read(std::span<char> into, std::int64_t deadline) = 0;
  // True when the server has closed: not to be used again.
  virtual bool is_stale() const = 0;
};

// Knows where to; reads what TLS needs once. Thread-safe.
class Dialer {
 public:
  // kInvalidArgument when the authority, chain or key cannot be read.
  static Result<std::unique_ptr<Dialer>> create(const DialerOptions& options);
  virtual ~Dialer() = default;
  // FJ-8008 naming the address when nobody answers; FJ-7018 when its certificate is not believed;
  // kDeadlineExceeded past the limit. Looks the name up each time.
  virtual Result<std::unique_ptr<ByteConnection>> dial() const = 0;
};

}  // namespace falaj::net
