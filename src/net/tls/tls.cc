#include "net/tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <csignal>
#include <mutex>

namespace falaj::net {
namespace {

std::string last_tls_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

// OpenSSL writes with write(2): a peer that has gone would end the process by SIGPIPE.
void ignore_sigpipe() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction current {};
    if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
      std::signal(SIGPIPE, SIG_IGN);
    }
  });
}

Result<TlsContext> make_context(const SSL_METHOD* method) {
  ignore_sigpipe();
  TlsContext context(SSL_CTX_new(method));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return Error(Code::kInternal, "TLS 1.3 is not available: " + last_tls_error());
  }
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  return context;
}

int select_http11(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                  unsigned int in_size, void*) {
  static constexpr std::array<unsigned char, 9> kHttp11{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kHttp11.data(), kHttp11.size(), in, in_size);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<TlsSession> make_session(ssl_ctx_st& context, int socket) {
  TlsSession session(SSL_new(&context));
  if (session == nullptr || SSL_set_fd(session.get(), socket) != 1) {
    return Error(Code::kInternal, "cannot begin a TLS session: " + last_tls_error());
  }
  return session;
}

}  // namespace

void FreeTlsContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void FreeTlsSession::operator()(ssl_st* session) const { SSL_free(session); }

Result<TlsContext> make_server_tls(const std::string& certificate_file,
                                   const std::string& key_file) {
  TlsContext context = FALAJ_TRY(make_context(TLS_server_method()));
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate_file.c_str()) != 1) {
    return Error(Code::kInvalidArgument, "cannot read the TLS certificate chain '" +
                                             certificate_file + "' (PEM): " + last_tls_error());
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Error(Code::kInvalidArgument, "cannot use the TLS key '" + key_file +
                                             "' (PEM, of the first certificate in '" +
                                             certificate_file + "'): " + last_tls_error());
  }
  SSL_CTX_set_alpn_select_cb(context.get(), select_http11, nullptr);
  return context;
}

Result<TlsContext> make_client_tls(const std::string& ca_file) {
  TlsContext context = FALAJ_TRY(make_context(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const int loaded = ca_file.empty()
                         ? SSL_CTX_set_default_verify_paths(context.get())
                         : SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr);
  if (loaded != 1) {
    return Error(Code::kInvalidArgument, "cannot read the certificate authorities '" +
                                             (ca_file.empty() ? "system store" : ca_file) +
                                             "': " + last_tls_error());
  }
  return context;
}

Result<TlsSession> accept_session(ssl_ctx_st& context, int socket) {
  TlsSession session = FALAJ_TRY(make_session(context, socket));
  SSL_set_accept_state(session.get());
  return session;
}

Result<TlsSession> connect_session(ssl_ctx_st& context, int socket, const std::string& host) {
  TlsSession session = FALAJ_TRY(make_session(context, socket));
  SSL_set_connect_state(session.get());
  X509_VERIFY_PARAM* checks = SSL_get0_param(session.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(checks, host.c_str()) != 1) {
    ERR_clear_error();  // Not an address: a name.
    if (SSL_set1_host(session.get(), host.c_str()) != 1 ||
        SSL_set_tlsext_host_name(session.get(), host.c_str()) != 1) {
      return Error(Code::kInvalidArgument, "'" + host + "' is no host name that TLS can check");
    }
  }
  return session;
}

}  // namespace falaj::net
