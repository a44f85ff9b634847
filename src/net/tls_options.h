// net/tls_options.h — what a server or client needs to speak TLS 1.3, as PEM texts.
//
// Nothing older than 1.3 is spoken in either direction; there is no early data and no resumption:
// every connection proves itself anew, so a refused certificate stays refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::net {

// Who this side is. Empty: it shows nothing.
struct TlsIdentity {
  std::string chain_pem;  // Leaf first.
  std::string key_pem;    // Of the leaf; not encrypted.
};

// Names the owner of a certificate (DER) whose chain and times TLS has checked, or refuses it; e.g.
// "spiffe://falaj.local/service/loop". Called during the handshake on an event-loop thread: it is
// pure and quick.
using PeerName = std::function<Result<std::string>(std::string_view certificate_der)>;

struct ServerTls {
  TlsIdentity identity;  // Empty chain: plain HTTP.
  // Authorities whose client certificates are taken (PEM). Empty: none is asked for. A client may
  // come without one (a browser has a session instead); one that it shows must be good.
  std::string client_authorities_pem;
  // Set with client_authorities_pem; its answer becomes Request::tls_peer.
  PeerName peer_name;
  // What is agreed on with a client that asks (ALPN): kHttp2 refuses one that does not speak it.
  enum class Protocol : std::uint8_t { kHttp11, kHttp2 };
  Protocol protocol = Protocol::kHttp11;
};

struct ClientTls {
  // Whom to believe: a PEM file, or "sha256:…", the fingerprint (64 hexadecimal digits) of the one
  // authority, which the server then has to send along. Empty: the system's store. The server's
  // name is checked in every case.
  std::string authority;
  TlsIdentity identity;  // Shown to a server that asks.
};

}  // namespace falaj::net
