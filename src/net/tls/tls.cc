#include "net/tls/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <vector>

#include "net/text.h"
#include "net/tls/socket_bio.h"

namespace falaj::net {
namespace {

using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

constexpr const char* kSuites = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
constexpr std::size_t kPemBytesMax = 1 << 20;
constexpr long kPeerChainBytesMax = 32 << 10;
constexpr int kPeerChainDepthMax = 4;
constexpr std::string_view kPinPrefix = "sha256:";
constexpr std::size_t kFingerprintBytes = 32;
using Fingerprint = std::array<unsigned char, kFingerprintBytes>;

// A place on every context for what its callbacks need; freed with the context, which sessions may
// hold longer than anybody else does.
template <typename T>
int slot_of() {
  static const int slot = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* held, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<T*>(held); });
  return slot;
}

template <typename T>
bool keep(SSL_CTX* context, T value) {
  auto held = std::make_unique<T>(std::move(value));
  if (SSL_CTX_set_ex_data(context, slot_of<T>(), held.get()) != 1) return false;
  held.release();  // NOLINT: the context's now.
  return true;
}

template <typename T>
const T* kept(const SSL_CTX* context) {
  return static_cast<const T*>(SSL_CTX_get_ex_data(context, slot_of<T>()));
}

Result<TlsContext> make_context(const SSL_METHOD* method) {
  TlsContext context(SSL_CTX_new(method));
  SSL_CTX* c = context.get();
  // Both ends of the range, and each answer looked at: the system's configuration may interfere.
  const bool good = c != nullptr && SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_get_min_proto_version(c) == TLS1_3_VERSION &&
                    SSL_CTX_get_max_proto_version(c) == TLS1_3_VERSION &&
                    SSL_CTX_set_ciphersuites(c, kSuites) == 1 &&
                    SSL_CTX_set1_groups_list(c, kGroups) == 1 &&
                    SSL_CTX_set_max_early_data(c, 0) == 1;
  if (!good) return Error(Code::kInternal, "TLS 1.3 is not available: " + last_tls_error());
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One system call takes a record's head and body, and whatever follows.
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, kPeerChainBytesMax);
  SSL_CTX_set_verify_depth(c, kPeerChainDepthMax);
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

int select_http2(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                 unsigned int in_size, void*) {
  static constexpr std::array<unsigned char, 3> kHttp2{2, 'h', '2'};
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kHttp2.data(), kHttp2.size(), in, in_size);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// ---- Secrets of the records ---------------------------------------------------------------------

// What OpenSSL says of a session's secrets while it shakes hands.
struct HeardSecrets {
  RecordStream::Secrets secrets;
  bool client = false;
  bool server = false;
};

int secrets_slot() {
  static const int slot = SSL_get_ex_new_index(
      0, nullptr, nullptr, nullptr, [](void*, void* held, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<HeardSecrets*>(held);
      });
  return slot;
}

// True when `text` is the secret in hexadecimal digits, no more and no less.
bool read_secret(std::string_view text, TrafficSecret& secret) {
  if (text.size() != 2 * secret.bytes.size()) return false;
  for (std::size_t i = 0; i < secret.bytes.size(); ++i) {
    const int high = hex_value(text[2 * i]);
    const int low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    secret.bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

// OpenSSL's only way to tell a secret: a line "LABEL random secret", meant for a log file. It goes
// into the session and nowhere else; OpenSSL wipes the line.
void hear_secret(const SSL* session, const char* line) {
  auto* heard = static_cast<HeardSecrets*>(SSL_get_ex_data(session, secrets_slot()));
  if (heard == nullptr) return;
  const std::string_view text = line;
  const std::string_view label = text.substr(0, text.find(' '));
  const std::string_view secret = text.substr(text.rfind(' ') + 1);
  if (label == "CLIENT_TRAFFIC_SECRET_0") heard->client = read_secret(secret, heard->secrets.read);
  if (label == "SERVER_TRAFFIC_SECRET_0") heard->server = read_secret(secret, heard->secrets.write);
}

// Our records are as large as they may be by default; this peer has less room, and was promised it.
bool has_small_records(const ssl_st& session) {
  const SSL_SESSION* agreed = SSL_get_session(&session);
  return agreed != nullptr && SSL_SESSION_get_max_fragment_length(agreed) != 0;
}

// ---- PEM --------------------------------------------------------------------------------------

BioPtr read_only(const std::string& text) {
  if (text.size() > kPemBytesMax) return BioPtr(nullptr, BIO_free_all);
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all);
}

// No prompt: an encrypted key is refused instead of waiting at a terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

// Every certificate of the text.
std::vector<X509Ptr> certificates_in(const std::string& pem) {
  std::vector<X509Ptr> found;
  const BioPtr bio = read_only(pem);
  while (bio != nullptr) {
    X509Ptr next(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr), X509_free);
    if (next == nullptr) break;
    found.push_back(std::move(next));
  }
  ERR_clear_error();  // The end of the text counts as one.
  return found;
}

Status show(SSL_CTX* context, const TlsIdentity& identity) {
  const std::vector<X509Ptr> chain = certificates_in(identity.chain_pem);
  if (chain.empty() || SSL_CTX_use_certificate(context, chain.front().get()) != 1) {
    return Error(Code::kInvalidArgument,
                 "the TLS certificate chain cannot be used: it holds no certificate (PEM)");
  }
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return Error(Code::kInvalidArgument, "the TLS chain cannot be used: " + last_tls_error());
    }
  }
  const BioPtr bio = read_only(identity.key_pem);
  EVP_PKEY* key = bio == nullptr
                      ? nullptr
                      : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr);
  const bool used = key != nullptr && SSL_CTX_use_PrivateKey(context, key) == 1 &&
                    SSL_CTX_check_private_key(context) == 1;
  EVP_PKEY_free(key);
  if (used) return {};
  return Error(
      Code::kInvalidArgument,
      "the TLS key cannot be used (PEM, not encrypted, of the chain's first certificate): " +
          last_tls_error());
}

// ---- Whom a server believes ---------------------------------------------------------------------

std::string der_of(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  if (size <= 0) return "";
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

// After OpenSSL's own checks of one certificate of the chain: the leaf must have a name for us.
int check_peer(int good, X509_STORE_CTX* checking) {
  if (good != 1 || X509_STORE_CTX_get_error_depth(checking) != 0) return good;
  const auto* session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(checking, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* name = kept<PeerName>(SSL_get_SSL_CTX(session));
  if (name != nullptr && *name && (*name)(der_of(X509_STORE_CTX_get_current_cert(checking))).ok()) {
    return 1;
  }
  X509_STORE_CTX_set_error(checking, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

// `mode`: SSL_VERIFY_PEER, and SSL_VERIFY_FAIL_IF_NO_PEER_CERT where who shows nothing is refused.
Status ask_for_peers(SSL_CTX* context, const std::string& authorities_pem,
                     const PeerName& peer_name, int mode) {
  const std::vector<X509Ptr> authorities = certificates_in(authorities_pem);
  if (authorities.empty()) {
    return Error(Code::kInvalidArgument, "the authorities of client certificates hold none (PEM)");
  }
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const X509Ptr& authority : authorities) {
    // The names are sent, so that a browser does not offer what would be refused.
    if (X509_STORE_add_cert(store, authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return Error(Code::kInvalidArgument,
                   "an authority of client certificates cannot be used: " + last_tls_error());
    }
  }
  if (!keep(context, peer_name)) return Error(Code::kInternal, last_tls_error());
  SSL_CTX_set_verify(context, mode, check_peer);
  return {};
}

// ---- Whom a client believes ---------------------------------------------------------------------

Result<Fingerprint> fingerprint_of(std::string_view text) {
  Fingerprint bytes{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == ':') continue;  // AB:CD:… is how other tools print it.
    const int value = hex_value(c);
    if (value < 0 || digits == 2 * bytes.size()) {
      digits = 0;
      break;
    }
    unsigned char& byte = bytes[digits / 2];
    byte = static_cast<unsigned char>(byte << 4 | value);
    ++digits;
  }
  if (digits == 2 * bytes.size()) return bytes;
  return Error(Code::kInvalidArgument, "'sha256:" + std::string(text.substr(0, 100)) +
                                           "' is no fingerprint: 64 hexadecimal digits follow");
}

bool has_fingerprint(X509* certificate, const Fingerprint& wanted) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  return X509_digest(certificate, EVP_sha256(), digest.data(), &size) == 1 &&
         size == wanted.size() && CRYPTO_memcmp(digest.data(), wanted.data(), size) == 0;
}

// Believes the one certificate of the server's chain that has the fingerprint, then checks as ever.
int verify_pinned(X509_STORE_CTX* checking, void* pinned) {
  STACK_OF(X509)* sent = X509_STORE_CTX_get0_untrusted(checking);
  STACK_OF(X509)* trusted = sk_X509_new_null();
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* each = sk_X509_value(sent, i);
    if (has_fingerprint(each, *static_cast<const Fingerprint*>(pinned)))
      sk_X509_push(trusted, each);
  }
  X509_STORE_CTX_set0_trusted_stack(checking, trusted);
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(checking), X509_V_FLAG_PARTIAL_CHAIN);
  const int good = X509_verify_cert(checking);
  X509_STORE_CTX_set0_trusted_stack(checking, nullptr);
  sk_X509_free(trusted);
  return good;
}

Status believe(SSL_CTX* context, const std::string& authority) {
  if (authority.starts_with(kPinPrefix)) {
    const Fingerprint pin =
        FALAJ_TRY(fingerprint_of(std::string_view(authority).substr(kPinPrefix.size())));
    if (!keep(context, pin)) return Error(Code::kInternal, last_tls_error());
    SSL_CTX_set_cert_verify_callback(context, verify_pinned,
                                     const_cast<Fingerprint*>(kept<Fingerprint>(context)));
    return {};
  }
  const int loaded = authority.empty()
                         ? SSL_CTX_set_default_verify_paths(context)
                         : SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr);
  if (loaded == 1) return {};
  return Error(Code::kInvalidArgument, "cannot read the certificate authorities '" +
                                           (authority.empty() ? "system store" : authority) +
                                           "' (PEM): " + last_tls_error());
}

// A session would outlive the certificate, or the right, that it began with.
Status forbid_resumption(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_RENEGOTIATION);
  if (SSL_CTX_set_num_tickets(context, 0) != 1) return Error(Code::kInternal, last_tls_error());
  return {};
}

Result<TlsSession> make_session(ssl_ctx_st& context, int socket) {
  TlsSession session(SSL_new(&context));
  if (session == nullptr) {
    return Error(Code::kInternal, "cannot begin a TLS session: " + last_tls_error());
  }
  FALAJ_TRY(attach_socket(*session, socket));
  return session;
}

}  // namespace

std::string last_tls_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

void FreeTlsContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void FreeTlsSession::operator()(ssl_st* session) const { SSL_free(session); }

Result<TlsContext> make_server_tls(const ServerTls& options) {
  TlsContext context = FALAJ_TRY(make_context(TLS_server_method()));
  SSL_CTX* c = context.get();
  FALAJ_TRY(show(c, options.identity));
  FALAJ_TRY(forbid_resumption(c));
  const bool http2 = options.protocol == ServerTls::Protocol::kHttp2;
  SSL_CTX_set_alpn_select_cb(c, http2 ? select_http2 : select_http11, nullptr);
  if (!options.client_authorities_pem.empty()) {
    FALAJ_TRY(ask_for_peers(c, options.client_authorities_pem, options.peer_name, SSL_VERIFY_PEER));
  }
  // Record by record while hands are shaken, so that what follows is left for who takes over.
  SSL_CTX_set_read_ahead(c, 0);
  SSL_CTX_set_keylog_callback(c, hear_secret);
  FALAJ_TRY(prove_version(*c));
  return context;
}

Result<TlsContext> make_mutual_tls(const MutualTls& options, TlsSide side) {
  const bool accepts = side == TlsSide::kAccepts;
  TlsContext context = FALAJ_TRY(make_context(accepts ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* c = context.get();
  FALAJ_TRY(show(c, options.identity));
  if (accepts) {
    FALAJ_TRY(forbid_resumption(c));
    FALAJ_TRY(prove_version(*c));  // While it still takes who shows nothing, as the rehearsal does.
  }
  FALAJ_TRY(ask_for_peers(c, options.authority_pem, options.peer_name,
                          SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT));
  return context;
}

Result<TlsContext> make_client_tls(const ClientTls& options) {
  TlsContext context = FALAJ_TRY(make_context(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  FALAJ_TRY(believe(context.get(), options.authority));
  if (!options.identity.chain_pem.empty()) FALAJ_TRY(show(context.get(), options.identity));
  return context;
}

Result<TlsSession> accept_session(ssl_ctx_st& context, int socket) {
  TlsSession session = FALAJ_TRY(make_session(context, socket));
  SSL_set_accept_state(session.get());
  auto heard = std::make_unique<HeardSecrets>();
  if (SSL_set_ex_data(session.get(), secrets_slot(), heard.get()) != 1) {
    return Error(Code::kInternal, "cannot begin a TLS session: " + last_tls_error());
  }
  heard.release();  // NOLINT: the session's now.
  return session;
}

std::unique_ptr<RecordStream::Secrets> take_secrets(ssl_st& session) {
  const auto* heard = static_cast<HeardSecrets*>(SSL_get_ex_data(&session, secrets_slot()));
  if (heard == nullptr) return nullptr;
  const SSL_CIPHER* suite = SSL_get_current_cipher(&session);
  const bool ours = SSL_version(&session) == TLS1_3_VERSION && suite != nullptr &&
                    SSL_CIPHER_get_id(suite) == TLS1_3_CK_AES_256_GCM_SHA384 && heard->client &&
                    heard->server && SSL_has_pending(&session) == 0 && !has_small_records(session);
  if (!ours) {
    SSL_set_read_ahead(&session, 1);  // It stays with OpenSSL: one call takes what has come.
    return nullptr;
  }
  return std::make_unique<RecordStream::Secrets>(heard->secrets);
}

Result<TlsSession> mutual_session(ssl_ctx_st& context, int socket, TlsSide side) {
  TlsSession session = FALAJ_TRY(make_session(context, socket));
  if (side == TlsSide::kAccepts) {
    SSL_set_accept_state(session.get());
  } else {
    SSL_set_connect_state(session.get());
  }
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

TlsPeer peer_of(const ssl_st& session) {
  X509* certificate = SSL_get0_peer_certificate(&session);
  const auto* name = kept<PeerName>(SSL_get_SSL_CTX(&session));
  if (certificate == nullptr || name == nullptr || !*name) return {};
  Result<std::string> text = (*name)(der_of(certificate));
  struct tm parts {};
  if (!text.ok() || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1) return {};
  return {std::move(text).value(), Timestamp::from_seconds(timegm(&parts))};
}

std::string refusal_of(const ssl_st& session) {
  const long verified = SSL_get_verify_result(&session);
  const char* why = X509_verify_cert_error_string(verified);
  // As far as it was built; the leaf is there whatever was wrong.
  const STACK_OF(X509)* chain = SSL_get0_verified_chain(&session);
  const auto* name = kept<PeerName>(SSL_get_SSL_CTX(&session));
  if (sk_X509_num(chain) < 1 || name == nullptr || !*name) return why;
  const Result<std::string> shown = (*name)(der_of(sk_X509_value(chain, 0)));
  const std::string& whose = shown.ok() ? *shown : shown.error().message;
  if (verified == X509_V_ERR_APPLICATION_VERIFICATION) return whose;
  return std::string(why) + "; it says, unproven: " + whose;
}

}  // namespace falaj::net
