#include <filesystem>
#include <string>
#include <vector>

#include "app/redis_rows.h"
#include "app/stores.h"
#include "app/wiring.h"
#include "base/log.h"
#include "features/arrivals.h"
#include "features/profiles.h"
#include "monitoring/openlineage.h"
#include "security/keys/log_check.h"
#include "security/residency/guarded_stores.h"

namespace falaj::app {

std::vector<storage::Migration> all_migrations() {
  return {
      storage::kObjectsMigration,
      security::kAuditMigration,
      security::kIdentityMigration,
      security::kProcessesMigration,
      security::kCallerZonesMigration,
      security::kFormerNamesMigration,
      security::residency::kResidencyMigration,
      features::kFeaturesMigration,
      features::kErasureMigration,
      tracking::kTrackingMigration,
      registry::kRegistryMigration,
      registry::kRetrainDueMigration,
      jobs::kJobsMigration,
      monitoring::kMonitoringMigration,
      monitoring::kWebhooksMigration,
      loop::kLoopMigration,
      serving::rollout::kRolloutMigration,
      security::kSigningMigration,
      security::kQuotaMigration,
      security::access::kEmergenciesMigration,
      jobs::kJobEventsMigration,
      jobs::kJobCurvesMigration,
      jobs::kJobPayloadsMigration,
      features::kReachMigration,
      features::kProfilesMigration,
      features::kArrivalsMigration,
      monitoring::kLineageMigration,
      jobs::kJobDecisionsMigration,
      security::keys::kGenerationsMigration,
      serving::rollout::kRecordingsMigration,
  };
}

namespace {

// The online rows as they lie, and how to know whether there are none.
struct Rows {
  std::unique_ptr<storage::KvStore> store;
  NumberedStores::Rows where = NumberedStores::Rows::kInTheFolder;
  std::function<Result<bool>()> empty;
};

Result<Rows> open_rows(const Options& options, security::keys::KeyTree& keys) {
  const std::string embedded = options.data_folder + "/online";
  switch (options.online.engine) {
    case OnlineOptions::Engine::kRedis: {
      auto redis = FALAJ_TRY(open_redis_rows(options.online.redis, keys, embedded));
      const storage::redis::RedisRows* const lying = redis.get();
      return Rows{std::move(redis), NumberedStores::Rows::kInRedis,
                  [lying] { return lying->empty(); }};
    }
    case OnlineOptions::Engine::kRocksDb:
      break;
  }
  std::error_code ignored;
  const bool made = !std::filesystem::exists(embedded + "/CURRENT", ignored);
  return Rows{FALAJ_TRY(storage::open_rocksdb(embedded)), NumberedStores::Rows::kInTheFolder,
              [made]() -> Result<bool> { return made; }};
}

}  // namespace

Result<Storage> wire_storage(const Options& options, const Clock& clock) {
  Storage parts;
  const std::string& folder = options.data_folder;
  parts.lock = FALAJ_TRY(storage::FolderLock::acquire(folder));
  parts.keys = FALAJ_TRY(wire_keys(options, clock));
  parts.sql = FALAJ_TRY(open_metadata(folder, *parts.keys.tree));
  Rows rows = FALAJ_TRY(open_rows(options, *parts.keys.tree));
  const bool embedded = rows.where == NumberedStores::Rows::kInTheFolder;
  storage::KvStore& lying = *rows.store;
  parts.kv = seal_online(std::move(rows.store), *parts.keys.tree);
  parts.blobs = FALAJ_TRY(open_blobs(folder, *parts.keys.tree));
  FALAJ_TRY(parts.sql->migrate(all_migrations()));
  parts.generations =
      FALAJ_TRY(Generations::open({*parts.sql, *parts.keys.sql, lying, rows.where, rows.empty,
                                   folder + "/blobs", *parts.keys.tree}));
  // A full disk keeps nobody from reading: the number that is there stays.
  const Status numbered = parts.generations->advance();
  if (!numbered.ok()) log::warn("stores not numbered", {{"why", numbered.error().message}});
  parts.audit = std::make_unique<security::Audit>(*parts.sql, clock);
  parts.key_admin = std::make_unique<security::keys::KeyAdmin>(*parts.keys.tree, *parts.audit);
  const crypto::SecretBytes signing = FALAJ_TRY(parts.keys.tree->store_key("model-signing"));
  parts.model_trust =
      FALAJ_TRY(security::ModelTrust::open(*parts.sql, signing, options.model_signers));
  parts.exits = FALAJ_TRY(wire_exits(options, parts, clock));
  parts.keys.tree->set_shred_guard(
      [exits = parts.exits.get()](const security::keys::KeyScope& scope, Timestamp created) {
        return exits->check_erasable(scope.project, scope.zone, created, scope.object);
      });
  parts.quotas = std::make_unique<security::Quotas>(*parts.sql);
  FALAJ_TRY(parts.quotas->load());
  parts.blobs = security::count_blobs(std::move(parts.blobs), *parts.quotas);
  parts.blobs = security::residency::guard_blobs(std::move(parts.blobs), *parts.exits);
  parts.kv = security::residency::guard_kv(std::move(parts.kv), *parts.exits,
                                           embedded ? Zone() : Zone(options.online.redis.zone));
  return parts;
}

}  // namespace falaj::app
