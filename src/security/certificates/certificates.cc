#include "security/certificates/certificates.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "crypto/aead.h"
#include "storage/small_file.h"

namespace falaj::security {
namespace {

constexpr std::string_view kServicePath = "/service/";
constexpr std::size_t kServiceNameMax = 63;  // As every name here.
constexpr std::size_t kFileBytesMax = 64 << 10;
constexpr std::string_view kServerPath = "/server";

// nullopt when there is no such file.
Result<std::optional<std::string>> read_if_there(const std::string& path) {
  Result<storage::SmallFile> file = storage::read_small_file(path, kFileBytesMax);
  if (file.ok()) return std::optional<std::string>(std::move(file->content));
  if (file.error().code == Code::kNotFound) return std::optional<std::string>();
  return file.error();
}

Status make_private_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error(Code::kUnavailable,
               "cannot make the folder '" + folder + "': " + std::strerror(errno));
}

std::string certificate_path(const std::string& folder) { return folder + "/authority.pem"; }
std::string key_path(const std::string& folder) { return folder + "/authority.key"; }

// The key opens only beside its own certificate, in its own trust domain.
std::string sealed_with(std::string_view certificate_pem, std::string_view trust_domain) {
  return crypto::Tlv("falaj/v1/authority").add(trust_domain).add(certificate_pem).str();
}

Result<crypto::CertificateAuthority> make_authority(const CertificatesOptions& options,
                                                    const crypto::SecretBytes& sealing_key,
                                                    Timestamp now) {
  auto made = FALAJ_TRY(crypto::CertificateAuthority::create(options.trust_domain, now));
  const crypto::SecretBytes key = FALAJ_TRY(made.key_pem());
  const std::string sealed = crypto::seal(
      sealing_key, key.view(), sealed_with(made.certificate_pem(), options.trust_domain));
  // The key first: a certificate without its key would be a finished authority to the next start.
  FALAJ_TRY(storage::write_small_file(key_path(options.folder), sealed));
  FALAJ_TRY(storage::write_small_file(certificate_path(options.folder), made.certificate_pem()));
  return made;
}

Result<crypto::CertificateAuthority> read_authority(const CertificatesOptions& options,
                                                    const crypto::SecretBytes& sealing_key,
                                                    const std::string& certificate) {
  const std::optional<std::string> sealed = FALAJ_TRY(read_if_there(key_path(options.folder)));
  if (!sealed) {
    return Error(Code::kDataLoss, "'" + certificate_path(options.folder) +
                                      "' is there and its key authority.key is not: restore it, or "
                                      "remove both and give clients the new authority");
  }
  const crypto::SecretBytes key = FALAJ_TRY(
      crypto::open_secret(sealing_key, *sealed, sealed_with(certificate, options.trust_domain)));
  return crypto::CertificateAuthority::load(certificate, key.view(), options.trust_domain);
}

crypto::Credential copy_of(const crypto::Credential& credential) {
  crypto::Credential copy;
  copy.chain_pem = credential.chain_pem;
  copy.key_pem = credential.key_pem.clone();
  copy.not_after = credential.not_after;
  return copy;
}

AuditEvent issued_event(const IssuedCertificate& issued) {
  AuditEvent event;
  event.action = "certificate.issue";
  event.object = "Certificate/" + issued.id;
  event.detail["fingerprint"] = issued.fingerprint;
  event.detail["not_after"] = to_rfc3339(issued.not_after);
  return event;
}

}  // namespace

const storage::Migration kProcessesMigration{
    "security-processes-001",
    "CREATE TABLE processes (service TEXT PRIMARY KEY, issued INTEGER NOT NULL,"
    " not_after INTEGER NOT NULL, revoked INTEGER NOT NULL) STRICT, WITHOUT ROWID;"};

Value to_value(const Process& process) {
  Value value;
  value["service"] = process.service;
  value["id"] = process.id;
  value["issued"] = to_rfc3339(process.issued);
  value["not_after"] = to_rfc3339(process.not_after);
  value["revoked"] = process.revoked.nanos == 0 ? Value() : Value(to_rfc3339(process.revoked));
  return value;
}

Timestamp renewal_time(Timestamp issued, Duration life) {
  return issued + Duration{life.nanos / 3 * 2};
}

std::string service_of(std::string_view spiffe_id) {
  const Result<crypto::SpiffeId> id = crypto::parse_spiffe_id(spiffe_id);
  if (!id.ok() || !id->path.starts_with(kServicePath)) return "";
  const std::string name = id->path.substr(kServicePath.size());
  return name.find('/') == std::string::npos ? name : "";
}

Result<std::unique_ptr<Certificates>> Certificates::open(const CertificatesOptions& options,
                                                         const crypto::SecretBytes& sealing_key,
                                                         storage::SqlStore& sql, Audit& audit,
                                                         const Clock& clock) {
  FALAJ_TRY(make_private_folder(options.folder));
  const std::optional<std::string> certificate =
      FALAJ_TRY(read_if_there(certificate_path(options.folder)));
  auto authority = certificate ? read_authority(options, sealing_key, *certificate)
                               : make_authority(options, sealing_key, clock.now());
  if (!authority.ok()) return authority.error();
  std::unique_ptr<Certificates> made(
      new Certificates(options, std::move(authority).value(), sql, audit, clock));
  FALAJ_TRY(made->renew_server(clock.now()));
  {
    const MutexLock lock(made->changing_);
    FALAJ_TRY(made->publish());
  }
  return made;
}

Certificates::Certificates(CertificatesOptions options, crypto::CertificateAuthority authority,
                           storage::SqlStore& sql, Audit& audit, const Clock& clock)
    : options_(std::move(options)),
      authority_(std::move(authority)),
      sql_(sql),
      audit_(audit),
      clock_(clock) {
  processes_.replace(std::make_shared<const Processes>());
}

std::string Certificates::authority_file() const { return certificate_path(options_.folder); }

Status Certificates::renew_server(Timestamp now) {
  crypto::CertificateAuthority::ServerNames names = options_.names;
  names.path = kServerPath;
  crypto::Credential made = FALAJ_TRY(authority_.issue_server(names, now, options_.server_life));
  MutexLock lock(mutex_);
  server_ = std::move(made);
  server_renewal_ = renewal_time(now, options_.server_life);
  return {};
}

crypto::Credential Certificates::server() const {
  MutexLock lock(mutex_);
  return copy_of(server_);
}

Result<crypto::Credential> Certificates::own() {
  const Timestamp now = clock_.now();
  MutexLock lock(mutex_);
  if (own_.chain_pem.empty() || now >= own_renewal_) {
    own_ = FALAJ_TRY(authority_.issue_process(kServerPath, now, options_.process_life));
    own_renewal_ = renewal_time(now, options_.process_life);
  }
  return copy_of(own_);
}

Result<Certificates::Tick> Certificates::tick() {
  const Timestamp now = clock_.now();
  {
    MutexLock lock(mutex_);
    if (now < server_renewal_) return Tick::kNothing;
  }
  FALAJ_TRY(renew_server(now));
  return Tick::kRenewed;
}

std::string Certificates::id_of(std::string_view service) const {
  return crypto::SpiffeId{authority_.trust_domain(),
                          std::string(kServicePath) + std::string(service)}
      .text();
}

Result<IssuedCertificate> Certificates::issue(const RequestContext& context,
                                              std::string_view service,
                                              std::string_view request_pem) {
  const std::string path = std::string(kServicePath) + std::string(service);
  IssuedCertificate issued;
  issued.id = id_of(service);
  if (service_of(issued.id) != service || service.empty() || service.size() > kServiceNameMax) {
    return Error(Code::kInvalidArgument, "'" + std::string(service.substr(0, 100)) +
                                             "' is no service's name: use letters, digits, . - _");
  }
  issued.chain_pem =
      FALAJ_TRY(authority_.sign_request(request_pem, path, clock_.now(), options_.process_life));
  const crypto::CertificateInfo info = FALAJ_TRY(crypto::read_certificate(issued.chain_pem));
  issued.fingerprint = info.fingerprint;
  issued.not_after = info.not_after;
  const auto known = processes_.load();
  const auto before = known->find(service);
  if (before != known->end() && before->second.revoked.nanos != 0 &&
      clock_.now() < before->second.not_after) {
    return Error(Code::kFailedPrecondition,
                 "the process '" + std::string(service) +
                     "' was revoked, and what it was given would hold again until " +
                     to_rfc3339(before->second.not_after) + ": wait, or choose another name");
  }
  // Recorded before it is given out: a certificate that nobody can account for does not exist.
  const Process now{std::string(service), issued.id, clock_.now(), issued.not_after, {}};
  FALAJ_TRY(write(context, issued_event(issued), now));
  return issued;
}

Status Certificates::publish() {
  auto all = std::make_shared<Processes>();
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql_, "SELECT service, issued, not_after, revoked FROM processes"));
  for (const storage::SqlRow& row : rows) {
    Process process{row.text(0), id_of(row.text(0)), {}, {}, {}};
    process.issued.nanos = row.integer(1);
    process.not_after.nanos = row.integer(2);
    process.revoked.nanos = row.integer(3);
    all->emplace(process.service, std::move(process));
  }
  processes_.replace(std::move(all));
  return {};
}

Status Certificates::write(const RequestContext& context, const AuditEvent& event,
                           const Process& process) {
  const MutexLock lock(changing_);
  FALAJ_TRY(sql_.write([&](storage::SqlTransaction& tx) -> Status {
    // A renewal that comes in behind a revocation changes nothing.
    const std::int64_t written = FALAJ_TRY(tx.execute(
        "INSERT INTO processes (service, issued, not_after, revoked) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (service) DO UPDATE SET issued = ?2, not_after = max(not_after, ?3),"
        " revoked = ?4 WHERE revoked = 0 OR not_after <= ?2 OR ?4 <> 0",
        {process.service, process.issued.nanos, process.not_after.nanos, process.revoked.nanos}));
    if (written == 0) {
      return Error(ErrorId::kPeerRefused, "the process '" + process.service + "' was revoked");
    }
    FALAJ_TRY(audit_.append(tx, context, event));
    return {};
  }));
  return publish();
}

Result<IssuedCertificate> Certificates::renew(const RequestContext& context,
                                              std::string_view spiffe_id,
                                              std::string_view request_pem) {
  const std::string service = service_of(spiffe_id);
  if (service.empty()) {
    return Error(ErrorId::kPeerRefused,
                 "only a process with a certificate that holds can renew it; ask an administrator "
                 "for a new one: falaj certificates issue");
  }
  FALAJ_TRY(check_process(spiffe_id));
  return issue(context, service, request_pem);
}

Status Certificates::revoke(const RequestContext& context, std::string_view process) {
  const std::string named = service_of(process);
  const std::string service = named.empty() ? std::string(process) : named;
  const auto known = processes_.load();
  const auto found = known->find(service);
  if (found == known->end()) {
    return Error(Code::kNotFound, "no process '" + service.substr(0, 100) +
                                      "' was given a certificate; 'falaj certificates list' shows "
                                      "those that were");
  }
  Process gone = found->second;
  if (gone.revoked.nanos != 0) return {};
  gone.revoked = clock_.now();
  AuditEvent event;
  event.action = "certificate.revoke";
  event.object = "Certificate/" + gone.id;
  event.detail["not_after"] = to_rfc3339(gone.not_after);
  return write(context, event, gone);
}

Status Certificates::check_process(std::string_view spiffe_id) const {
  const Result<crypto::SpiffeId> id = crypto::parse_spiffe_id(spiffe_id);
  // Its own certificate's key never leaves the server's memory.
  if (id.ok() && id->path == kServerPath) return {};
  const auto known = processes_.load();
  const auto found = known->find(service_of(spiffe_id));
  if (found != known->end() && found->second.revoked.nanos == 0 && found->second.id == spiffe_id) {
    return {};
  }
  return Error(ErrorId::kPeerRefused,
               "the process '" + std::string(spiffe_id.substr(0, 200)) +
                   "' was revoked or never given a certificate here; ask an administrator: falaj "
                   "certificates issue");
}

std::vector<Process> Certificates::processes() const {
  const auto known = processes_.load();
  std::vector<Process> all;
  for (const auto& [service, process] : *known) all.push_back(process);
  return all;
}

}  // namespace falaj::security
