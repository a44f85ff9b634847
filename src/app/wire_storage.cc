#include <string>
#include <vector>

#include "app/wiring.h"

namespace falaj::app {

Result<Storage> wire_storage(const Options& options, const Clock& clock) {
  Storage parts;
  const std::string& folder = options.data_folder;
  parts.lock = FALAJ_TRY(storage::FolderLock::acquire(folder));
  parts.keys = FALAJ_TRY(wire_keys(options, clock));
  parts.sql = FALAJ_TRY(storage::open_sqlite(folder + "/metadata.db"));
  parts.kv = FALAJ_TRY(storage::open_rocksdb(folder + "/online"));
  parts.blobs = FALAJ_TRY(storage::open_files(folder + "/blobs"));
  FALAJ_TRY(parts.sql->migrate({
      storage::kObjectsMigration,
      security::kAuditMigration,
      features::kFeaturesMigration,
      tracking::kTrackingMigration,
      registry::kRegistryMigration,
      registry::kRetrainDueMigration,
      jobs::kJobsMigration,
      monitoring::kMonitoringMigration,
      loop::kLoopMigration,
  }));
  parts.audit = std::make_unique<security::Audit>(*parts.sql, clock);
  parts.key_admin = std::make_unique<security::keys::KeyAdmin>(*parts.keys.tree, *parts.audit);
  return parts;
}

}  // namespace falaj::app
