// net/tls/transport.h — bytes over a non-blocking socket, plain or TLS, without waiting.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/tls/io.h"
#include "net/tls/record_stream.h"
#include "net/tls/tls.h"

namespace falaj::net {

// A server's session is OpenSSL's for the handshake and, where it can be (see take_secrets), ours
// from then on. Does not own the socket. One thread at a time.
class Transport {
 public:
  explicit Transport(int socket) : socket_(socket) {}
  Transport(int socket, TlsSession session) : socket_(socket), session_(std::move(session)) {}

  bool is_tls() const { return session_ != nullptr || records_ != nullptr; }
  // kDone when the handshake is complete; at once for a plain socket.
  IoResult handshake();
  IoResult read(std::span<char> into);
  // Writes from the beginning of `first`, then of `second`; may write less than asked.
  IoResult write(std::string_view first, std::string_view second = {});
  // Says that nothing more will be written.
  void finish_writing();
  // True when the last read(), which moved `bytes` of at most `asked`, left nothing in the socket.
  bool has_drained(std::size_t bytes, std::size_t asked) const;
  // Gives buffers back (OpenSSL's have 32 KiB) until the next byte: for a connection that rests.
  void rest();
  // After a failed handshake: the peer spoke plain HTTP. Then drop_tls() lets it be told so.
  bool heard_plain_http() const { return plain_http_; }
  // After a failed handshake: this side did not believe the other's certificate.
  bool certificate_refused() const { return certificate_refused_; }
  void drop_tls() { session_.reset(); }
  // After the handshake: who the peer's certificate says it is.
  TlsPeer peer() const { return session_ != nullptr ? peer_of(*session_) : peer_; }
  // Why the last call gave kFailed; after kClosed the peer's complaint, "" when it had none.
  const std::string& error_text() const {
    return records_ != nullptr ? records_->error_text() : error_text_;
  }

 private:
  IoResult tls_result(int returned);
  IoResult tls_end(int returned);
  IoResult failed(std::string text);
  void take_over();

  int socket_;
  TlsSession session_;                     // Gone once records_ is there.
  std::unique_ptr<RecordStream> records_;  // After the handshake.
  TlsPeer peer_;                           // With records_.
  bool plain_http_ = false;
  bool certificate_refused_ = false;
  std::string error_text_;
};

}  // namespace falaj::net
