// security/certificates/certificates.h — this deployment's own certificates: its authority on disk,
// what the server shows, what processes are given, and when each is renewed.
//
// The authority is made on first use: authority.pem (for clients to believe) and authority.key,
// sealed under a key of the key tree, in one folder. No certificate that it issues is stored: a
// server's lives in memory for a day, a process's for at most an hour; both are renewed when two
// thirds of their life have passed. Stored is which processes have one: a process that is not on
// that list, or was revoked, is nobody, whatever it shows, and renews nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "base/time.h"
#include "crypto/secret.h"
#include "crypto/x509.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"

namespace falaj::security {

struct CertificatesOptions {
  std::string folder;  // Made with mode 0700 if missing.
  std::string trust_domain = "falaj.local";
  crypto::CertificateAuthority::ServerNames names;  // Of the server.
  Duration server_life = crypto::kProcessLifeMax;
  Duration process_life = crypto::kProcessLifeMax;
};

// When a certificate of that life is replaced: two thirds after it was issued. Pure.
Timestamp renewal_time(Timestamp issued, Duration life);

// A process that was given a certificate.
struct Process {
  std::string service;
  std::string id;         // spiffe://…/service/NAME
  Timestamp issued{};     // The newest.
  Timestamp not_after{};  // Of the newest: none of its certificates holds longer.
  Timestamp revoked{};    // 0 while it counts.
};
Value to_value(const Process& process);

extern const storage::Migration kProcessesMigration;

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
  // written. `sql` (with kProcessesMigration), `audit` and `clock` outlive it.
  static Result<std::unique_ptr<Certificates>> open(const CertificatesOptions& options,
                                                    const crypto::SecretBytes& sealing_key,
                                                    storage::SqlStore& sql, Audit& audit,
                                                    const Clock& clock);

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
  // not a path segment or a request that does not hold; kFailedPrecondition for one that was
  // revoked while certificates that it had then may still hold.
  Result<IssuedCertificate> issue(const RequestContext& context, std::string_view service,
                                  std::string_view request_pem);
  // The same, for the process that showed a certificate with this SPIFFE id. FJ-7018 unless it
  // counts.
  Result<IssuedCertificate> renew(const RequestContext& context, std::string_view spiffe_id,
                                  std::string_view request_pem);
  // From now on whatever the process shows is refused, on open connections too. Takes a service's
  // name or its SPIFFE id. Audited. kNotFound when it never had a certificate; revoking twice is
  // no error.
  Status revoke(const RequestContext& context, std::string_view process);
  // FJ-7018 unless this is the server itself or a process that counts. Never blocks.
  Status check_process(std::string_view spiffe_id) const;
  std::vector<Process> processes() const;  // By name.

 private:
  using Processes = std::map<std::string, Process, std::less<>>;  // By service.
  Certificates(CertificatesOptions options, crypto::CertificateAuthority authority,
               storage::SqlStore& sql, Audit& audit, const Clock& clock);
  Status renew_server(Timestamp now);
  // Changes a row with its audit entry, then publishes what SQL holds.
  Status write(const RequestContext& context, const AuditEvent& event, const Process& process);
  Status publish() FALAJ_REQUIRES(changing_);

  const CertificatesOptions options_;
  const crypto::CertificateAuthority authority_;
  storage::SqlStore& sql_;
  Audit& audit_;
  const Clock& clock_;
  Mutex changing_;  // One change at a time, so that what is published follows each other.
  Published<Processes> processes_;
  mutable Mutex mutex_;
  crypto::Credential server_ FALAJ_GUARDED_BY(mutex_);
  Timestamp server_renewal_ FALAJ_GUARDED_BY(mutex_);
  crypto::Credential own_ FALAJ_GUARDED_BY(mutex_);
  Timestamp own_renewal_ FALAJ_GUARDED_BY(mutex_);
};

// "loop" of "spiffe://DOMAIN/service/loop": what issue() was asked for. "" for any other id.
std::string service_of(std::string_view spiffe_id);

}  // namespace falaj::security
