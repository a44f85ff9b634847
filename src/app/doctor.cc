#include "app/doctor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "app/libraries.h"
#include "app/serve.h"
#include "app/stores.h"
#include "app/wiring.h"
#include "base/units.h"
#include "exec/sandbox.h"
#include "security/audit/heads.h"
#include "security/keys/log_check.h"

namespace falaj::app {
namespace {

using cli::DoctorCheck;

constexpr std::int64_t kFreeBytesMin = std::int64_t{1} << 30;

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

DoctorCheck check_folder(const config::Settings& settings) {
  const std::string& folder = settings.text("data.dir");
  if (!exists(folder)) {
    // Who named it means one that is there; before the first start nobody has.
    const bool named = settings.origin("data.dir") != config::Origin::kDefault;
    return {"data folder", named ? "fail" : "warn",
            folder +
                " does not exist: nothing of it was checked; falaj dev or falaj serve makes "
                "it, --data names another"};
  }
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return {"data folder", "fail", folder + " is not writable: change its owner or --data"};
  }
  return {"data folder", "ok", folder};
}

DoctorCheck check_space(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(exists(folder) ? folder.c_str() : ".", &info) != 0) {
    return {"free space", "warn", "cannot be read"};
  }
  const auto free = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  return {"free space", free < kFreeBytesMin ? "warn" : "ok", format_bytes(free)};
}

DoctorCheck check_audit(const config::Settings& settings) {
  const std::string& folder = settings.text("data.dir");
  if (!exists(folder)) return {"audit", "warn", "not checked: there is no data folder"};
  if (!exists(folder + "/metadata.db")) return {"audit", "ok", "nothing recorded yet"};
  const Result<Value> verified = verify_offline(settings);
  if (verified.ok()) {
    return {"audit", "ok",
            std::to_string(verified.value()["head"].integer("sequence")) + " entries, log holds"};
  }
  if (verified.error().id == ErrorId::kDataFolderLocked) {
    return {"audit", "ok", "a server holds the folder: ask it with falaj audit verify"};
  }
  return {"audit", "fail", verified.error().message};
}

DoctorCheck check_sandbox() {
  const auto report = exec::probe_sandbox();
  if (!report.ok()) return {"job sandbox", "fail", report.error().message};
  std::string applied;
  for (const std::string& each : report->applied) applied += (applied.empty() ? "" : ", ") + each;
  std::string refused;
  for (const std::string& each : report->refused) refused += "; not granted: " + each;
  return {"job sandbox", refused.empty() ? "ok" : "warn", applied + refused};
}

}  // namespace

std::vector<DoctorCheck> doctor_libraries() {
  std::vector<DoctorCheck> checks;
  for (const LibraryCheck& library : check_libraries()) {
    checks.push_back({"library " + library.name, library.error.empty() ? "ok" : "fail",
                      library.error.empty() ? library.path : library.error});
  }
  return checks;
}

std::vector<DoctorCheck> doctor(const config::Settings& settings) {
  const std::string& folder = settings.text("data.dir");
  std::vector<DoctorCheck> checks{check_folder(settings), check_space(folder),
                                  check_audit(settings), check_sandbox()};
  for (DoctorCheck& check : doctor_libraries()) checks.push_back(std::move(check));
  return checks;
}

Result<Value> cosign_drops(const std::string& folder, const std::string& state) {
  const auto signer = FALAJ_TRY(security::open_local_signer({state, "", crypto::SecretBytes()}));
  const int count = FALAJ_TRY(security::cosign_drops(folder, *signer, SystemClock().now()));
  const security::SignerInfo info = FALAJ_TRY(signer->info());
  Value value;
  value["cosigned"] = count;
  value["key"] = crypto::to_text(info.witness_key);
  return value;
}

namespace {

// Whose signature the heads must bear, and how long the log was when it last signed.
Status expect_signer(const std::string& memory, security::keys::KeyTree& keys,
                     security::Audit& audit, std::uint64_t size) {
  if (!exists(memory + "/key")) return {};
  crypto::SecretBytes wrapper = FALAJ_TRY(keys.store_key("audit-signer"));
  const auto signer = FALAJ_TRY(security::open_local_signer({memory, "", std::move(wrapper)}));
  const security::SignerInfo info = FALAJ_TRY(signer->info());
  audit.set_log_key(info.log_key);
  if (info.last.size <= size) return {};
  return Error{ErrorId::kRolledBack, "the audit log has " + std::to_string(size) +
                                         " entries, but its signer has signed " +
                                         std::to_string(info.last.size) +
                                         ": this data folder is an old copy, or its end was cut "
                                         "off. Restore the newest one"};
}

}  // namespace

Result<Value> verify_offline(const config::Settings& settings) {
  const std::string& data_folder = settings.text("data.dir");
  if (!exists(data_folder + "/metadata.db")) {
    return Error{Code::kNotFound, "'" + data_folder +
                                      "' is no Falaj data folder: it has no "
                                      "metadata.db"};
  }
  const SystemClock clock;
  const auto lock = FALAJ_TRY(storage::FolderLock::acquire(data_folder));
  Options options;
  options.data_folder = data_folder;
  options.keys = key_options_of(settings);
  const Keys keys = FALAJ_TRY(wire_keys(options, clock));
  const auto sql = FALAJ_TRY(open_metadata(data_folder, *keys.tree));
  security::Audit audit(*sql, clock);
  const crypto::TreeHead now = FALAJ_TRY(audit.tree_head());
  options.audit.signer_dir = settings.text("audit.signer_dir");
  FALAJ_TRY(expect_signer(signer_folder(data_folder, options.audit), *keys.tree, audit, now.size));
  const security::AuditHead head = FALAJ_TRY(audit.verify());
  FALAJ_TRY(check_keys_generation(*sql, *keys.sql));
  FALAJ_TRY(security::keys::check_against_log(*keys.tree, *keys.sql, audit));
  Value value;
  value["head"]["sequence"] = head.sequence;
  value["head"]["hash"] = head.hash;
  value["ok"] = true;
  return value;
}

}  // namespace falaj::app
