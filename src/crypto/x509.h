// crypto/x509.h — the certificates of one deployment: a local authority, what it issues, and how
// the name in a peer's certificate is read.
//
// Every process is named by a SPIFFE id, spiffe://TRUST-DOMAIN/PATH, which stands as the only URI
// in its certificate. The common name is never looked at. Keys are P-256: what every TLS peer
// speaks. OpenSSL stays behind this header. Values are immutable once made and may be shared by
// threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "crypto/secret.h"

namespace falaj::crypto {

struct SpiffeId {
  std::string trust_domain;  // "falaj.local"
  std::string path;          // "/service/loop": at least one segment.

  std::string text() const;  // "spiffe://falaj.local/service/loop"
  bool operator==(const SpiffeId&) const = default;
};

// Strict: lower-case trust domain, no port, user, query, fragment, escape, empty or dot segment, no
// slash at the end, at most 2048 bytes. FJ-7018 naming what is wrong.
Result<SpiffeId> parse_spiffe_id(std::string_view text);
// True for 1–255 of a–z 0–9 . - _
bool is_trust_domain(std::string_view text);

// The id in a peer's certificate (DER), whose chain, times and signature TLS has checked already.
// FJ-7018 unless the certificate is a leaf, holds exactly one URI, and that URI is a SPIFFE id of
// exactly `trust_domain`. The message names no key material. Cost: one parse, some microseconds.
Result<SpiffeId> peer_spiffe_id(std::string_view certificate_der, std::string_view trust_domain);

// A chain (leaf first) and the leaf's key, in PEM: what TLS needs to say who it is.
struct Credential {
  std::string chain_pem;
  SecretBytes key_pem;  // PKCS#8.
  Timestamp not_after;
};

struct CertificateInfo {
  std::string fingerprint;  // SHA-256 of the DER, 64 lower-case digits.
  Timestamp not_before;
  Timestamp not_after;
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;
  std::vector<std::string> uris;
  bool is_authority = false;
};

// The first certificate of a PEM text. kInvalidArgument when there is none.
Result<CertificateInfo> read_certificate(std::string_view pem);

// A fresh key and a request for its certificate; the key never leaves whoever made it. The request
// proves possession of the key and claims no name: the authority decides it.
struct CertificateRequest {
  std::string request_pem;
  SecretBytes key_pem;
};
Result<CertificateRequest> make_certificate_request();

// The longest life of a process's certificate.
inline constexpr Duration kProcessLifeMax = Duration::hours(1);

class CertificateAuthority {
 public:
  // A new key and a self-signed certificate for ten years, for one trust domain.
  static Result<CertificateAuthority> create(std::string_view trust_domain, Timestamp now);
  // What create() made, read back. kInvalidArgument when the two do not belong together.
  static Result<CertificateAuthority> load(std::string_view certificate_pem,
                                           std::string_view key_pem, std::string_view trust_domain);
  ~CertificateAuthority();
  CertificateAuthority(CertificateAuthority&&) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) noexcept;

  const std::string& certificate_pem() const;
  const std::string& trust_domain() const;
  std::string fingerprint() const;
  // PKCS#8, to be sealed.
  Result<SecretBytes> key_pem() const;

  // For a process that is client and server: `path` as in SpiffeId, no other name. Valid from
  // five minutes before `now` (clocks differ) for `life`, at most kProcessLifeMax from `now`.
  Result<Credential> issue_process(std::string_view path, Timestamp now, Duration life) const;
  // The same for a key that stays with its owner: the chain in PEM. kInvalidArgument when the
  // request's signature does not hold or its key is not P-256 or Ed25519.
  Result<std::string> sign_request(std::string_view request_pem, std::string_view path,
                                   Timestamp now, Duration life) const;
  // For a listening server: the names and addresses that clients type, and its SPIFFE path.
  struct ServerNames {
    std::vector<std::string> dns_names;
    std::vector<std::string> addresses;
    std::string path;
  };
  Result<Credential> issue_server(const ServerNames& names, Timestamp now, Duration life) const;

 private:
  struct State;
  explicit CertificateAuthority(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace falaj::crypto
