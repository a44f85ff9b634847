#include "net/tls/transport.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "net/tls/socket_bio.h"

namespace falaj::net {

IoResult Transport::failed(std::string text) {
  error_text_ = std::move(text);
  return {IoOutcome::kFailed, 0};
}

// Call right after the OpenSSL function. What the session itself says comes first: asking the error
// queue needs it cleared before every call, which costs more than the call's own bookkeeping.
IoResult Transport::tls_result(int returned) {
  if (returned > 0) return {IoOutcome::kDone, static_cast<std::size_t>(returned)};
  const int want = SSL_want(session_.get());
  if (want == SSL_READING && BIO_should_read(SSL_get_rbio(session_.get()))) {
    return {IoOutcome::kWantRead, 0};
  }
  if (want == SSL_WRITING && BIO_should_write(SSL_get_wbio(session_.get()))) {
    return {IoOutcome::kWantWrite, 0};
  }
  return tls_end(returned);
}

// The end of the session, or of an attempt. The queue may hold what others on this thread left.
IoResult Transport::tls_end(int returned) {
  if ((SSL_get_shutdown(session_.get()) & SSL_RECEIVED_SHUTDOWN) != 0) {
    const bool alert = ERR_GET_REASON(ERR_peek_error()) > SSL_AD_REASON_OFFSET;
    error_text_ = alert ? last_tls_error() : "";
    ERR_clear_error();
    return {IoOutcome::kClosed, 0};
  }
  switch (SSL_get_error(session_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {IoOutcome::kWantRead, 0};
    case SSL_ERROR_WANT_WRITE:
      return {IoOutcome::kWantWrite, 0};
    case SSL_ERROR_SYSCALL: {
      const int code = errno;
      return failed(code == 0 ? "the peer closed without ending TLS" : std::strerror(code));
    }
    default:
      break;
  }
  if (SSL_get_verify_result(session_.get()) != X509_V_OK) {
    certificate_refused_ = true;
    ERR_clear_error();
    return failed("certificate refused: " + refusal_of(*session_));
  }
  plain_http_ = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST;
  return failed(last_tls_error());
}

bool Transport::has_drained(std::size_t bytes, std::size_t asked) const {
  if (records_ != nullptr) return records_->has_drained();
  return is_tls() ? is_drained(*session_) : bytes < asked;
}

void Transport::rest() {
  if (records_ != nullptr) return records_->rest();
  if (is_tls()) SSL_free_buffers(session_.get());  // Does nothing while they hold something.
}

IoResult Transport::handshake() {
  if (session_ == nullptr) return {};
  ERR_clear_error();
  const IoResult result = tls_result(SSL_do_handshake(session_.get()));
  if (result.outcome == IoOutcome::kDone) take_over();
  return result;
}

// OpenSSL's session goes: two that count records under one key would use a number twice.
void Transport::take_over() {
  const auto secrets = take_secrets(*session_);
  if (secrets == nullptr) return;
  peer_ = peer_of(*session_);
  records_ = std::make_unique<RecordStream>(socket_, *secrets);
  session_.reset();
}

IoResult Transport::read(std::span<char> into) {
  if (records_ != nullptr) return records_->read(into);
  if (is_tls()) {
    const std::size_t most = std::min<std::size_t>(into.size(), std::numeric_limits<int>::max());
    return tls_result(SSL_read(session_.get(), into.data(), static_cast<int>(most)));
  }
  while (true) {
    const ssize_t count = ::recv(socket_, into.data(), into.size(), 0);
    if (count > 0) return {IoOutcome::kDone, static_cast<std::size_t>(count)};
    if (count == 0) return {IoOutcome::kClosed, 0};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoOutcome::kWantRead, 0};
    if (errno != EINTR) return failed(std::strerror(errno));
  }
}

IoResult Transport::write(std::string_view first, std::string_view second) {
  if (records_ != nullptr) return records_->write(first, second);
  if (is_tls()) {
    const std::string_view bytes = first.empty() ? second : first;
    if (bytes.empty()) return {};
    const std::size_t most = std::min<std::size_t>(bytes.size(), std::numeric_limits<int>::max());
    return tls_result(SSL_write(session_.get(), bytes.data(), static_cast<int>(most)));
  }
  std::array<iovec, 2> parts{{{const_cast<char*>(first.data()), first.size()},
                              {const_cast<char*>(second.data()), second.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  while (true) {
    const ssize_t count = second.empty() ? ::send(socket_, first.data(), first.size(), MSG_NOSIGNAL)
                                         : ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    if (count >= 0) return {IoOutcome::kDone, static_cast<std::size_t>(count)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoOutcome::kWantWrite, 0};
    if (errno != EINTR) return failed(std::strerror(errno));
  }
}

void Transport::finish_writing() {
  if (records_ != nullptr) {
    records_->finish();
  } else if (is_tls()) {
    ERR_clear_error();
    SSL_shutdown(session_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_, SHUT_WR);
}

}  // namespace falaj::net
