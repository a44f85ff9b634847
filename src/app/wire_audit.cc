#include <limits.h>
#include <stdlib.h>

#include "app/http_witness.h"
#include "app/libraries.h"
#include "app/wiring.h"
#include "base/log.h"
#include "security/audit/child_signer.h"
#include "security/keys/log_check.h"
#include "security/sealed/openings.h"

namespace falaj::app {
namespace {

constexpr std::string_view kFileScheme = "file://";

Status make_witness(const Options& options, Storage& storage, AuditTrail& trail) {
  const std::string& setting = options.audit.witness;
  if (setting.empty()) return {};
  if (setting.starts_with(kFileScheme)) {
    trail.witness = security::make_file_witness(setting.substr(kFileScheme.size()));
    return {};
  }
  if (!setting.starts_with("https://") && !setting.starts_with("http://127.0.0.1:")) {
    return Error(ErrorId::kInvalidArgument,
                 "audit.witness '" + setting +
                     "' must be a folder (file:///…) or another Falaj (https://…)");
  }
  crypto::SecretBytes key = FALAJ_TRY(storage.keys.tree->store_key("peer-certificate"));
  trail.peer = FALAJ_TRY(Peer::open(setting, options.data_folder + "/tls", std::move(key)));
  trail.witness = make_http_witness(*trail.peer);
  return {};
}

std::string absolute(const std::string& folder) {
  char resolved[PATH_MAX];
  return realpath(folder.c_str(), resolved) == nullptr ? folder : std::string(resolved);
}

}  // namespace

Result<AuditTrail> wire_audit(const Options& options, Storage& storage, const Clock& clock) {
  AuditTrail trail;
  trail.openings = FALAJ_TRY(security::sealed::seal_openings(
      *storage.keys.tree, [exits = storage.exits.get()](const std::string& project) {
        return exits->zone_of(project);
      }));
  storage.audit->set_openings(trail.openings.get());
  const std::string folder = absolute(options.data_folder);
  security::ChildSignerOptions signer;
  signer.program = program_path();
  signer.folder = folder + "/signer";
  signer.origin = options.audit.origin;
  signer.wrapper = FALAJ_TRY(storage.keys.tree->store_key("audit-signer"));
  signer.log_path = folder + "/signer.log";
  trail.signer = FALAJ_TRY(security::start_child_signer(std::move(signer)));
  const security::SignerInfo info = FALAJ_TRY(trail.signer->info());
  storage.audit->set_log_key(info.log_key);
  FALAJ_TRY(make_witness(options, storage, trail));
  trail.heads = std::make_unique<security::Heads>(*storage.sql, *storage.audit, *trail.signer,
                                                  clock, trail.witness.get());
  trail.receipts = std::make_unique<security::Receipts>(*trail.signer, clock);
  trail.journal = std::make_unique<security::AccessJournal>(*storage.audit, clock);
  std::string warning;
  FALAJ_TRY(trail.heads->check_start(&warning));
  FALAJ_TRY(
      security::keys::check_against_log(*storage.keys.tree, *storage.keys.sql, *storage.audit));
  if (!warning.empty()) log::warn("audit", {{"witness", warning}});
  return trail;
}

}  // namespace falaj::app
