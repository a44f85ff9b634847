// The handshake that a server makes with itself before it listens.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string_view>

#include "net/tls/tls.h"

namespace falaj::net {
namespace {

constexpr int kTurnsMax = 16;
constexpr std::array<std::string_view, 2> kOurSuites{"TLS_AES_256_GCM_SHA384",
                                                     "TLS_CHACHA20_POLY1305_SHA256"};

// A client of exactly one version, over two buffers in memory. True when both sides agree.
struct Rehearsal {
  TlsContext client_context;
  TlsSession client;
  TlsSession server;

  bool prepare(ssl_ctx_st& of_server, int version) {
    client_context.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* c = client_context.get();
    if (c == nullptr || SSL_CTX_set_min_proto_version(c, version) != 1 ||
        SSL_CTX_set_max_proto_version(c, version) != 1) {
      return false;
    }
    SSL_CTX_set_security_level(c, 0);  // As weak a client as there may be.
    client.reset(SSL_new(c));
    server.reset(SSL_new(&of_server));
    BIO* near = nullptr;
    BIO* far = nullptr;
    if (client == nullptr || server == nullptr || BIO_new_bio_pair(&near, 0, &far, 0) != 1) {
      return false;
    }
    SSL_set_bio(client.get(), near, near);
    SSL_set_bio(server.get(), far, far);
    SSL_set_connect_state(client.get());
    SSL_set_accept_state(server.get());
    return true;
  }

  bool agree() {
    bool client_done = false;
    bool server_done = false;
    for (int turn = 0; turn < kTurnsMax && !(client_done && server_done); ++turn) {
      client_done = client_done || SSL_do_handshake(client.get()) == 1;
      server_done = server_done || SSL_do_handshake(server.get()) == 1;
    }
    ERR_clear_error();
    return client_done && server_done;
  }
};

}  // namespace

Status prove_version(ssl_ctx_st& server) {
  Rehearsal old;
  if (!old.prepare(server, TLS1_2_VERSION)) {
    return Error(Code::kInternal, "cannot rehearse a TLS 1.2 hello: " + last_tls_error());
  }
  if (old.agree()) {
    return Error(Code::kInternal,
                 "this TLS library accepted a 1.2 hello although told to refuse it");
  }
  Rehearsal modern;
  if (!modern.prepare(server, TLS1_3_VERSION) || !modern.agree()) {
    return Error(Code::kInternal,
                 "TLS 1.3 with this certificate does not work: " + last_tls_error());
  }
  const std::string_view suite = SSL_get_cipher_name(modern.server.get());
  for (const std::string_view ours : kOurSuites) {
    if (suite == ours) return {};
  }
  return Error(Code::kInternal, "TLS agreed on the suite " + std::string(suite) + ", not on ours");
}

}  // namespace falaj::net
