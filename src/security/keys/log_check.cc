#include "security/keys/log_check.h"

#include <map>
#include <optional>

#include "security/keys/internal/key_rows.h"

namespace falaj::security::keys {
namespace {

constexpr std::int64_t kCheckedAtOnce = 1'000;

// Whether the keys are as the entry left them, or further.
Result<bool> agrees(storage::SqlStore& keys_db, const std::map<std::string, std::int64_t>& versions,
                    const Value& detail) {
  std::vector<std::string> destroyed;
  if (detail["rings"].is_array()) {
    for (const Value& ring : detail["rings"].as_array()) {
      if (ring.is_string()) destroyed.push_back(ring.as_string());
    }
  }
  if (!destroyed.empty()) return FALAJ_TRY(living_rings(keys_db, destroyed)).empty();
  const auto ring = versions.find(detail.text("key"));
  return ring == versions.end() || ring->second >= detail.integer("version");
}

Error set_back(const AuditEntry& entry) {
  return Error{ErrorId::kRolledBack,
               "keys.db is an old copy: entry " + std::to_string(entry.sequence) +
                   " of the audit log (" + entry.action + " of " + entry.object +
                   ") is not in it. Bring back the newest data folder as a whole"};
}

}  // namespace

Result<std::vector<std::string>> living_rings(storage::SqlStore& keys_db,
                                              const std::vector<std::string>& rings) {
  std::vector<std::string> found;
  FALAJ_TRY(keys_db.read([&](SqlTransaction& tx) -> Status {
    for (const std::string& id : rings) {
      const std::optional<Ring> ring = FALAJ_TRY(ring_by_id(tx, id));
      if (ring && ring->shredded.nanos == 0) found.push_back(id);
    }
    return {};
  }));
  return found;
}

Status check_against_log(KeyTree& tree, storage::SqlStore& keys_db, const Audit& audit) {
  std::map<std::string, std::int64_t> versions;
  for (const RingInfo& ring : FALAJ_TRY(tree.inventory())) versions[ring.id] = ring.version;
  for (const char* action : {"key.shred", "key.rotate"}) {
    AuditQuery query;
    query.action = action;
    query.limit = kCheckedAtOnce;
    query.order = AuditQuery::Order::kOldestFirst;
    while (true) {
      const std::vector<AuditEntry> page = FALAJ_TRY(audit.list(query));
      for (const AuditEntry& entry : page) {
        if (!FALAJ_TRY(agrees(keys_db, versions, entry.detail))) return set_back(entry);
      }
      if (static_cast<std::int64_t>(page.size()) < query.limit) break;
      query.after = page.back().sequence;
    }
  }
  return {};
}

}  // namespace falaj::security::keys
