// net/internal/dial.h — a connection to a server, with a time limit on every step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "net/client.h"
#include "net/internal/url.h"
#include "net/tls/transport.h"

namespace falaj::net {

// Blocking, not thread-safe. `deadline` is monotonic nanoseconds; 0 waits for ever.
class Dialled {
 public:
  // FJ-8008 naming the address when nobody answers; kUnauthenticated when its certificate is not
  // believed; kDeadlineExceeded past `limit`. `tls` is nullptr for plain HTTP.
  // kPermissionDenied when every address of the host is outside `reach`.
  static Result<std::unique_ptr<Dialled>> open(const Url& url, ssl_ctx_st* tls, Duration limit,
                                               Reach reach);
  ~Dialled();
  Dialled(const Dialled&) = delete;
  Dialled& operator=(const Dialled&) = delete;

  // Writes all of it.
  Status write(std::string_view first, std::string_view second, std::int64_t deadline);
  // At least one byte, or 0 when the server ended the connection.
  Result<std::size_t> read(std::span<char> into, std::int64_t deadline);
  // True when the server has closed (or said something unasked): not to be used again.
  bool is_stale() const;

 private:
  Dialled(const Url& url, int socket) : url_(url), socket_(socket), transport_(socket) {}
  Status wait(short events, std::int64_t deadline) const;
  Status wait_for(IoOutcome outcome, std::int64_t deadline) const;
  Status shake_hands(ssl_ctx_st& tls, std::int64_t deadline);
  Error unreachable(std::string_view reason) const;

  const Url url_;
  int socket_;
  Transport transport_;
};

}  // namespace falaj::net
