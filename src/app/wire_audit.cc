#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/http_witness.h"
#include "app/libraries.h"
#include "app/wiring.h"
#include "base/log.h"
#include "security/audit/child_signer.h"
#include "security/keys/log_check.h"
#include "security/sealed/openings.h"
#include "storage/small_file.h"

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

// What an earlier start kept in the data folder goes to the folder that is named now, once: a
// memory that is there already is the newer one, whatever the data folder brings.
Status move_signer(const std::string& from, const std::string& to) {
  std::error_code error;
  if (from == to || std::filesystem::exists(to + "/key", error)) return {};
  for (const char* name : {"/state.json", "/key"}) {  // Who has the key has the rest.
    const auto file = storage::read_small_file(from + name);
    if (!file.ok() && file.error().code == Code::kNotFound) continue;
    if (!file.ok()) return file.error();
    const bool made = ::mkdir(to.c_str(), 0700) == 0 || errno == EEXIST;
    if (!made) {
      return Error(ErrorId::kInvalidArgument,
                   "audit.signer_dir: " + to + " cannot be made: " + std::strerror(errno));
    }
    FALAJ_TRY(storage::write_small_file(to + name, file->content));
  }
  std::filesystem::remove_all(from, error);
  return {};
}

}  // namespace

std::string signer_folder(const std::string& data_folder, const AuditOptions& audit) {
  return audit.signer_dir.empty() ? data_folder + "/signer" : audit.signer_dir;
}

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
  signer.folder = signer_folder(folder, options.audit);
  FALAJ_TRY(move_signer(folder + "/signer", signer.folder));
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
  if (options.listen.mode == ListenOptions::Mode::kProduction && options.audit.witness.empty() &&
      options.audit.signer_dir.empty()) {
    log::warn("audit: an older copy of the whole data folder would not be noticed",
              {{"set", "audit.signer_dir or audit.witness"}});
  }
  return trail;
}

}  // namespace falaj::app
