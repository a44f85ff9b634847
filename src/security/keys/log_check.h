// security/keys/log_check.h — whether keys.db is as new as the audit log says.
#pragma once

#include <string>
#include <vector>

#include "security/audit.h"
#include "security/keys/key_tree.h"
#include "storage/sql.h"

namespace falaj::security::keys {

// Numbers that tell an old copy of a store from the newest: app/generations.h. In keys.db and in
// metadata.db.
extern const storage::Migration kGenerationsMigration;

// Which of these rings are in keys.db and not shredded.
Result<std::vector<std::string>> living_rings(storage::SqlStore& keys_db,
                                              const std::vector<std::string>& rings);

// At start, before keys are used: FJ-7051 when a key lives though the audit log has a receipt of
// its end, or is at an older version than the log says; keys.db was set back then. Cost: a pass
// over the log's actions.
Status check_against_log(KeyTree& tree, storage::SqlStore& keys_db, const Audit& audit);

}  // namespace falaj::security::keys
