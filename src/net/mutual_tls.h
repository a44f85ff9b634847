// net/mutual_tls.h — TLS 1.3 over a connected socket between two processes of one deployment: each
// shows a certificate, and neither speaks to one that it does not believe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "net/tls_options.h"

namespace falaj::net {

struct MutualTls {
  TlsIdentity identity;       // What this side shows; never empty.
  std::string authority_pem;  // Whose certificates count.
  PeerName peer_name;         // Names the other side or refuses it; never empty. Names and
                              // addresses of hosts are not looked at.
};

enum class TlsSide : std::uint8_t { kAccepts, kConnects };

// One thread reads and another writes at the same time. `deadline` is monotonic nanoseconds; past
// it kDeadlineExceeded.
class MutualStream {
 public:
  virtual ~MutualStream() = default;  // Closes.

  // At least one byte, or 0 when the other side ended the connection. FJ-7018 when it says that it
  // refuses this side, kUnavailable when the connection broke.
  virtual Result<std::size_t> read(std::span<char> into, std::int64_t deadline) = 0;
  // All of it, however long the other side does not read. kUnavailable when the connection broke.
  virtual Status write(std::string_view bytes) = 0;
  // Thread-safe: read() and write() return.
  virtual void close() = 0;
  virtual int socket() const = 0;
  // As MutualTls::peer_name called it.
  virtual const std::string& peer() const = 0;
};

// What one side shows and believes, made ready once for any number of connections. Thread-safe; a
// stream may outlive it.
class MutualContext {
 public:
  // kInvalidArgument when the identity or the authority cannot be read.
  static Result<std::shared_ptr<const MutualContext>> make(const MutualTls& options, TlsSide side);
  virtual ~MutualContext() = default;

  // Makes the socket non-blocking and shakes hands. FJ-7018 when the other side shows no
  // certificate, one that is not believed (the message says whose it is, or says it is), does not
  // believe ours, or speaks something else than TLS 1.3. A side that connects may learn from its
  // first read only that its own certificate was refused: so 1.3 shakes hands.
  virtual Result<std::unique_ptr<MutualStream>> open(Descriptor socket,
                                                     std::int64_t deadline) const = 0;
};

}  // namespace falaj::net
