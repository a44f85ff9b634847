#include "crypto/x509.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/hash.h"
#include "crypto/internal/openssl_handles.h"

namespace falaj::crypto {
namespace {

using Certificate = OpensslHandle<X509, X509_free>;
using Request = OpensslHandle<X509_REQ, X509_REQ_free>;
using Names = OpensslHandle<GENERAL_NAMES, GENERAL_NAMES_free>;
using Extension = OpensslHandle<X509_EXTENSION, X509_EXTENSION_free>;

constexpr Duration kAuthorityLife = Duration::days(3650);
constexpr Duration kServerLifeMax = Duration::days(90);
constexpr Duration kClockDifference = Duration::minutes(5);
constexpr std::int64_t kNanos = 1'000'000'000;
constexpr std::size_t kPemBytesMax = 256 << 10;

Error openssl_error(std::string_view what) {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code != 0) ERR_error_string_n(code, text.data(), text.size());
  return Error(Code::kInternal, std::string(what) + (code == 0 ? "" : ": ") + text.data());
}

Bio read_only(std::string_view text) {
  if (text.size() > kPemBytesMax) return nullptr;
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(std::max(size, 0l)));
}

Result<Key> new_key() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return openssl_error("cannot make a P-256 key");
  return key;
}

Result<SecretBytes> pem_of(EVP_PKEY* key) {
  // Secure memory: OpenSSL wipes it when the buffer goes.
  const Bio bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("cannot write a private key");
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  SecretBytes pem{std::string_view(data, static_cast<std::size_t>(size))};
  wipe(data, static_cast<std::size_t>(size));
  return pem;
}

Result<std::string> pem_of(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return openssl_error("cannot write a certificate");
  }
  return text_of(bio.get());
}

Result<Certificate> certificate_of(std::string_view pem) {
  const Bio bio = read_only(pem);
  Certificate certificate(
      bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) {
    return Error(Code::kInvalidArgument, "the text holds no certificate in PEM form");
  }
  return certificate;
}

std::string der_of(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  if (size <= 0) return "";
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

Timestamp time_of(const ASN1_TIME* time) {
  struct tm parts {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return Timestamp{};
  return Timestamp::from_seconds(timegm(&parts));
}

bool set_time(ASN1_TIME* field, Timestamp time) {
  return ASN1_TIME_set(field, time.nanos / kNanos) != nullptr;
}

// ---- Names ------------------------------------------------------------------------------------

std::string text_of(const ASN1_IA5STRING* text) {
  const auto* data = reinterpret_cast<const char*>(ASN1_STRING_get0_data(text));
  return std::string(data, static_cast<std::size_t>(ASN1_STRING_length(text)));
}

std::string address_of(const ASN1_OCTET_STRING* octets) {
  const unsigned char* data = ASN1_STRING_get0_data(octets);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(octets) == 4 ? AF_INET : AF_INET6;
  if (ASN1_STRING_length(octets) != 4 && ASN1_STRING_length(octets) != 16) return "?";
  return inet_ntop(family, data, text.data(), text.size()) == nullptr ? "?" : text.data();
}

// False when the extension is there and cannot be read, or is there twice.
bool read_names(X509* certificate, CertificateInfo& info) {
  int state = 0;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, &state, nullptr)));
  ERR_clear_error();
  if (names == nullptr) return state == -1;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) info.uris.push_back(text_of(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) info.dns_names.push_back(text_of(name->d.dNSName));
    if (name->type == GEN_IPADD) info.addresses.push_back(address_of(name->d.iPAddress));
  }
  return true;
}

bool is_dns_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 && text.front() != '.' && text.back() != '.' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
         });
}

bool push_name(GENERAL_NAMES* names, int type, std::string_view text) {
  GENERAL_NAME* name =
      a2i_GENERAL_NAME(nullptr, nullptr, nullptr, type, std::string(text).c_str(), 0);
  if (name != nullptr && sk_GENERAL_NAME_push(names, name) > 0) return true;
  GENERAL_NAME_free(name);
  return false;
}

// ---- Issuing ----------------------------------------------------------------------------------

struct Content {
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;
  std::string uri;
  Timestamp not_before;
  Timestamp not_after;
  bool for_server_only = false;
};

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] &= 0x7f;  // A positive number.
  bytes[0] |= 0x40;
  BIGNUM* number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool set_subject(X509* certificate, const std::string& text) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>("Falaj"), -1, -1,
                                    0) == 1 &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, bytes,
                                    static_cast<int>(std::min<std::size_t>(text.size(), 64)), -1,
                                    0) == 1;
}

bool add_names(X509* certificate, const Content& content) {
  const Names names(sk_GENERAL_NAME_new_null());
  bool good = names != nullptr && push_name(names.get(), GEN_URI, content.uri);
  for (const auto& name : content.dns_names) {
    good = good && push_name(names.get(), GEN_DNS, name);
  }
  for (const auto& name : content.addresses) {
    good = good && push_name(names.get(), GEN_IPADD, name);
  }
  return good && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0,
                                   X509V3_ADD_DEFAULT) == 1;
}

Result<Certificate> new_certificate(Timestamp from, Timestamp until, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  if (x == nullptr || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x) ||
      !set_time(X509_getm_notBefore(x), from) || !set_time(X509_getm_notAfter(x), until) ||
      X509_set_pubkey(x, key) != 1) {
    return openssl_error("cannot begin a certificate");
  }
  return certificate;
}

}  // namespace

struct CertificateAuthority::State {
  Key key;
  Certificate certificate;
  std::string certificate_pem;
  std::string trust_domain;

  // The chain: the new certificate, then the authority's.
  Result<std::string> issue(EVP_PKEY* subject, const Content& content) const;
  Result<Credential> issue_with_key(const Content& content) const;
  Result<std::string> id_of(std::string_view path) const;
};

Result<std::string> CertificateAuthority::State::issue(EVP_PKEY* subject,
                                                       const Content& content) const {
  const Certificate leaf =
      FALAJ_TRY(new_certificate(content.not_before, content.not_after, subject));
  X509* x = leaf.get();
  const char* usage = content.for_server_only ? "serverAuth" : "clientAuth,serverAuth";
  const bool good =
      set_subject(x, content.dns_names.empty() ? "process" : content.dns_names.front()) &&
      X509_set_issuer_name(x, X509_get_subject_name(certificate.get())) == 1 &&
      add_extension(x, certificate.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(x, certificate.get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(x, certificate.get(), NID_ext_key_usage, usage) &&
      add_extension(x, certificate.get(), NID_subject_key_identifier, "hash") &&
      add_extension(x, certificate.get(), NID_authority_key_identifier, "keyid:always") &&
      add_names(x, content) && X509_sign(x, key.get(), EVP_sha256()) > 0;
  if (!good) return openssl_error("cannot issue a certificate for " + content.uri);
  return FALAJ_TRY(pem_of(x)) + certificate_pem;
}

Result<Credential> CertificateAuthority::State::issue_with_key(const Content& content) const {
  const Key subject = FALAJ_TRY(new_key());
  Credential made;
  made.chain_pem = FALAJ_TRY(issue(subject.get(), content));
  made.key_pem = FALAJ_TRY(pem_of(subject.get()));
  made.not_after = Timestamp::from_seconds(content.not_after.nanos / kNanos);
  return made;
}

Result<std::string> CertificateAuthority::State::id_of(std::string_view path) const {
  const SpiffeId id{trust_domain, std::string(path)};
  FALAJ_TRY(parse_spiffe_id(id.text()));
  return id.text();
}

CertificateAuthority::CertificateAuthority(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
CertificateAuthority::~CertificateAuthority() = default;
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept = default;
CertificateAuthority& CertificateAuthority::operator=(CertificateAuthority&&) noexcept = default;

Result<CertificateAuthority> CertificateAuthority::create(std::string_view trust_domain,
                                                          Timestamp now) {
  if (!is_trust_domain(trust_domain)) {
    return Error(Code::kInvalidArgument, "'" + std::string(trust_domain.substr(0, 100)) +
                                             "' is no trust domain: use a-z 0-9 . - _");
  }
  auto state = std::make_unique<State>();
  state->trust_domain = trust_domain;
  state->key = FALAJ_TRY(new_key());
  state->certificate =
      FALAJ_TRY(new_certificate(now - kClockDifference, now + kAuthorityLife, state->key.get()));
  X509* x = state->certificate.get();
  const bool good = set_subject(x, "Falaj authority of " + state->trust_domain) &&
                    X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
                    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    add_extension(x, x, NID_subject_key_identifier, "hash") &&
                    X509_sign(x, state->key.get(), EVP_sha256()) > 0;
  if (!good) return openssl_error("cannot make the local certificate authority");
  state->certificate_pem = FALAJ_TRY(pem_of(x));
  return CertificateAuthority(std::move(state));
}

Result<CertificateAuthority> CertificateAuthority::load(std::string_view certificate_pem,
                                                        std::string_view key_pem,
                                                        std::string_view trust_domain) {
  auto state = std::make_unique<State>();
  state->trust_domain = trust_domain;
  state->certificate = FALAJ_TRY(certificate_of(certificate_pem));
  const Bio bio = read_only(key_pem);
  if (bio != nullptr) {
    state->key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  }
  const bool belong = state->key != nullptr &&
                      X509_check_private_key(state->certificate.get(), state->key.get()) == 1 &&
                      X509_check_ca(state->certificate.get()) == 1;
  ERR_clear_error();
  if (!belong) {
    return Error(Code::kInvalidArgument,
                 "the authority's certificate and key cannot be used together: restore both from "
                 "one backup, or remove both to make a new authority");
  }
  state->certificate_pem = FALAJ_TRY(pem_of(state->certificate.get()));
  return CertificateAuthority(std::move(state));
}

const std::string& CertificateAuthority::certificate_pem() const { return state_->certificate_pem; }
const std::string& CertificateAuthority::trust_domain() const { return state_->trust_domain; }
std::string CertificateAuthority::fingerprint() const {
  return sha256_hex(der_of(state_->certificate.get()));
}
Result<SecretBytes> CertificateAuthority::key_pem() const { return pem_of(state_->key.get()); }

namespace {

Status check_life(Duration life, Duration most) {
  if (life.nanos > 0 && life <= most) return {};
  return Error(Code::kInvalidArgument,
               "a certificate's life of " + std::to_string(life.nanos / kNanos) +
                   " s is not between 1 s and " + std::to_string(most.nanos / kNanos) + " s");
}

}  // namespace

Result<Credential> CertificateAuthority::issue_process(std::string_view path, Timestamp now,
                                                       Duration life) const {
  FALAJ_TRY(check_life(life, kProcessLifeMax));
  Content content;
  content.uri = FALAJ_TRY(state_->id_of(path));
  content.not_before = now - kClockDifference;
  content.not_after = now + life;
  return state_->issue_with_key(content);
}

Result<std::string> CertificateAuthority::sign_request(std::string_view request_pem,
                                                       std::string_view path, Timestamp now,
                                                       Duration life) const {
  FALAJ_TRY(check_life(life, kProcessLifeMax));
  const Bio bio = read_only(request_pem);
  const Request request(
      bio == nullptr ? nullptr : PEM_read_bio_X509_REQ(bio.get(), nullptr, no_passphrase, nullptr));
  EVP_PKEY* key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  const bool holds = key != nullptr && X509_REQ_verify(request.get(), key) == 1;
  ERR_clear_error();
  if (!holds) {
    return Error(Code::kInvalidArgument,
                 "the text is no certificate request (PEM) signed by its own key");
  }
  std::array<char, 32> group{};
  const bool is_p256 = EVP_PKEY_is_a(key, "EC") == 1 &&
                       EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
                       std::string_view(group.data()) == "prime256v1";
  if (!is_p256 && EVP_PKEY_is_a(key, "ED25519") != 1) {
    return Error(Code::kInvalidArgument, "the request's key is neither P-256 nor Ed25519");
  }
  Content content;
  content.uri = FALAJ_TRY(state_->id_of(path));
  content.not_before = now - kClockDifference;
  content.not_after = now + life;
  return state_->issue(key, content);
}

Result<Credential> CertificateAuthority::issue_server(const ServerNames& names, Timestamp now,
                                                      Duration life) const {
  FALAJ_TRY(check_life(life, kServerLifeMax));
  for (const std::string& name : names.dns_names) {
    if (!is_dns_name(name)) {
      return Error(Code::kInvalidArgument, "'" + name.substr(0, 100) + "' is no host name");
    }
  }
  Content content;
  content.dns_names = names.dns_names;
  content.addresses = names.addresses;
  content.uri = FALAJ_TRY(state_->id_of(names.path));
  content.not_before = now - kClockDifference;
  content.not_after = now + life;
  content.for_server_only = true;
  return state_->issue_with_key(content);
}

Result<CertificateRequest> make_certificate_request() {
  const Key key = FALAJ_TRY(new_key());
  const Request request(X509_REQ_new());
  const Bio bio(BIO_new(BIO_s_mem()));
  const bool good = request != nullptr && bio != nullptr &&
                    X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
                    X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                    X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0 &&
                    PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1;
  if (!good) return openssl_error("cannot make a certificate request");
  CertificateRequest made;
  made.request_pem = text_of(bio.get());
  made.key_pem = FALAJ_TRY(pem_of(key.get()));
  return made;
}

Result<CertificateInfo> read_certificate(std::string_view pem) {
  const Certificate certificate = FALAJ_TRY(certificate_of(pem));
  CertificateInfo info;
  if (!read_names(certificate.get(), info)) {
    return Error(Code::kInvalidArgument, "the certificate's names cannot be read");
  }
  info.fingerprint = sha256_hex(der_of(certificate.get()));
  info.not_before = time_of(X509_get0_notBefore(certificate.get()));
  info.not_after = time_of(X509_get0_notAfter(certificate.get()));
  info.is_authority = X509_check_ca(certificate.get()) != 0;
  return info;
}

Result<SpiffeId> peer_spiffe_id(std::string_view certificate_der, std::string_view trust_domain) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(certificate_der.data());
  const Certificate certificate(
      d2i_X509(nullptr, &bytes, static_cast<long>(certificate_der.size())));
  ERR_clear_error();
  if (certificate == nullptr) {
    return Error(ErrorId::kPeerRefused, "the peer's certificate cannot be read");
  }
  CertificateInfo info;
  if (!read_names(certificate.get(), info) || info.uris.size() != 1) {
    return Error(ErrorId::kPeerRefused, "the peer's certificate names " +
                                            std::to_string(info.uris.size()) +
                                            " URIs; exactly one SPIFFE id is wanted");
  }
  const std::uint32_t usage = X509_get_key_usage(certificate.get());
  // The constraint itself, not X509_check_ca(): that one also wants the usage to fit.
  const bool is_authority = (X509_get_extension_flags(certificate.get()) & EXFLAG_CA) != 0;
  if (is_authority || (usage & KU_DIGITAL_SIGNATURE) == 0 ||
      (usage != UINT32_MAX && (usage & (KU_KEY_CERT_SIGN | KU_CRL_SIGN)) != 0)) {
    return Error(ErrorId::kPeerRefused,
                 "the peer's certificate is an authority's, not that of a process");
  }
  SpiffeId id = FALAJ_TRY(parse_spiffe_id(info.uris.front()));
  if (id.trust_domain != trust_domain) {
    return Error(ErrorId::kPeerRefused, "the peer is of trust domain '" + id.trust_domain +
                                            "'; this deployment is '" + std::string(trust_domain) +
                                            "'");
  }
  return id;
}

}  // namespace falaj::crypto
