// net/tls/tls.h — TLS 1.3 contexts over OpenSSL; nothing older is spoken in either direction.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "net/mutual_tls.h"
#include "net/tls/record_stream.h"
#include "net/tls_options.h"

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

// For a server. kInvalidArgument when the chain or key cannot be read or do not belong together;
// kInternal when the library does not do as it was told (see prove_version). The context owns what
// its sessions need, which hold it by themselves.
Result<TlsContext> make_server_tls(const ServerTls& options);

// For a client that checks the server's chain and name.
Result<TlsContext> make_client_tls(const ClientTls& options);

// For one of two processes that both show a certificate; a peer without one is refused.
Result<TlsContext> make_mutual_tls(const MutualTls& options, TlsSide side);

// A session over a connected, non-blocking socket, which the caller keeps open and closes.
Result<TlsSession> accept_session(ssl_ctx_st& context, int socket);
// Also sends the name (SNI) and demands that the certificate is for `host`.
Result<TlsSession> connect_session(ssl_ctx_st& context, int socket, const std::string& host);

// For make_mutual_tls(): no name of a host is sent or demanded.
Result<TlsSession> mutual_session(ssl_ctx_st& context, int socket, TlsSide side);

// After the handshake of a session of accept_session(): what its records are sealed with, for who
// takes them over; the session must not be used for reading or writing any more. Null when it must
// stay with OpenSSL: another suite was agreed on than TLS_AES_256_GCM_SHA384, or OpenSSL has
// received more than the handshake. Wiped in the end; never written anywhere.
std::unique_ptr<RecordStream::Secrets> take_secrets(ssl_st& session);

// Who is at the other end of a completed handshake, by its certificate.
struct TlsPeer {
  std::string name;     // From PeerName; "" when no certificate was shown.
  Timestamp not_after;  // Of that certificate.
};
TlsPeer peer_of(const ssl_st& session);
// After a handshake that failed because of the peer's certificate: why, and whose it is, or says it
// is where that is not proven.
std::string refusal_of(const ssl_st& session);

// Shakes hands with a server's context in memory, as a client of TLS 1.2 and as one of 1.3. Ok when
// the first fails and the second agrees on one of our suites; kInternal, saying which, otherwise.
Status prove_version(ssl_ctx_st& server);

// The message of OpenSSL's oldest waiting error; forgets the others.
std::string last_tls_error();

}  // namespace falaj::net
