// net/tls/tls.h — TLS 1.3 contexts over OpenSSL; nothing older is spoken in either direction.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

// OpenSSL's own names, so that its headers stay out of this one.
struct ssl_ctx_st;
struct ssl_st;

namespace falaj::net {

struct FreeTlsContext {
  void operator()(ssl_ctx_st* context) const;
};
struct FreeTlsSession {
  void operator()(ssl_st* session) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, FreeTlsContext>;
using TlsSession = std::unique_ptr<ssl_st, FreeTlsSession>;

// For a server. kInvalidArgument naming the file when the chain or key cannot be read or do not
// belong together.
Result<TlsContext> make_server_tls(const std::string& certificate_file,
                                   const std::string& key_file);

// For a client that checks the server's chain; `ca_file` empty: the system's store.
Result<TlsContext> make_client_tls(const std::string& ca_file);

// A session over a connected, non-blocking socket, which the caller keeps open and closes.
Result<TlsSession> accept_session(ssl_ctx_st& context, int socket);
// Also sends the name (SNI) and demands that the certificate is for `host`.
Result<TlsSession> connect_session(ssl_ctx_st& context, int socket, const std::string& host);

}  // namespace falaj::net
