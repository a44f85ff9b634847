// security/certificates/certificates.h — this deployment's own certificates: its authority on disk,
// what the server shows, what processes are given, and when each is renewed.
//
// The authority is made on first use: authority.pem (for clients to believe) and authority.key,
// sealed under a key of the key tree, in one folder. Nothing that it issues is stored: a server's
// certificate lives in memory for a day, a process's for at most an hour; both are renewed when two
// thirds of their life have passed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/time.h"
#include "crypto/secret.h"
#include "crypto/x509.h"
#include "security/audit.h"
#include "security/context.h"

namespace falaj::security {

struct CertificatesOptions {
  std::string folder;  // Made with mode 0700 if missing.
  std::string trust_domain = "falaj.local";
  crypto::CertificateAuthority::ServerNames names;  // Of the server.
  Duration server_life = Duration::hours(24);
  Duration process_life = crypto::kProcessLifeMax;
};

// When a certificate of that life is replaced: two thirds after it was issued. Pure.
Timestamp renewal_time(Timestamp issued, Duration life);

struct IssuedCertificate {
  std::string id;  // spiffe://…
  std::string chain_pem;
  std::string fingerprint;  // Of the leaf.
  Timestamp not_after{};
};

// Thread-safe.
class Certificates {
 public:
  // Reads the authority, or makes one where the folder has none. `sealing_key`: 32 bytes; whoever
  // has it and the folder can speak for the deployment. FJ-7043 when the key file was sealed under
  // another, kDataLoss when one of the two files is missing, kUnavailable when one cannot be
  // written. `audit` and `clock` outlive it.
  static Result<std::unique_ptr<Certificates>> open(const CertificatesOptions& options,
                                                    const crypto::SecretBytes& sealing_key,
                                                    Audit& audit, const Clock& clock);

  const std::string& authority_pem() const { return authority_.certificate_pem(); }
  // For clients: `--ca FILE`, or `--ca sha256:…`.
  std::string authority_file() const;
  std::string fingerprint() const { return authority_.fingerprint(); }
  const std::string& trust_domain() const { return authority_.trust_domain(); }

  // What the server shows now.
  crypto::Credential server() const;
  // What this process shows to another one, as spiffe://…/server; made or renewed when needed.
  Result<crypto::Credential> own();
  enum class Tick : std::uint8_t { kNothing, kRenewed };
  // Renews the server's certificate if it is time; kRenewed: take server() again.
  Result<Tick> tick();

  // "spiffe://DOMAIN/service/NAME": who shows a certificate for `service` is.
  std::string id_of(std::string_view service) const;
  // A certificate for the process `service` (spiffe://…/service/NAME), whose key stays where the
  // request was made. Audited, and refused when it cannot be. kInvalidArgument for a name that is
  // not a path segment or a request that does not hold.
  Result<IssuedCertificate> issue(const RequestContext& context, std::string_view service,
                                  std::string_view request_pem);

 private:
  Certificates(CertificatesOptions options, crypto::CertificateAuthority authority, Audit& audit,
               const Clock& clock);
  Status renew_server(Timestamp now);

  const CertificatesOptions options_;
  const crypto::CertificateAuthority authority_;
  Audit& audit_;
  const Clock& clock_;
  mutable Mutex mutex_;
  crypto::Credential server_ FALAJ_GUARDED_BY(mutex_);
  Timestamp server_renewal_ FALAJ_GUARDED_BY(mutex_);
  crypto::Credential own_ FALAJ_GUARDED_BY(mutex_);
  Timestamp own_renewal_ FALAJ_GUARDED_BY(mutex_);
};

// "loop" of "spiffe://DOMAIN/service/loop": what issue() was asked for. "" for any other id.
std::string service_of(std::string_view spiffe_id);

}  // namespace falaj::security
