// tests/faults/key_tree_on_disk.h — a key tree over real files, as the program opens it.
#pragma once

#include <memory>
#include <string>

#include "base/hash.h"
#include "crypto/testing/hex.h"
#include "security/keys/key_tree.h"
#include "storage/open.h"
#include "storage/small_file.h"

namespace falaj::faults {

namespace keys = security::keys;
using crypto::testing::from_hex;

inline constexpr unsigned kObjects = 6;

inline std::string hex(std::string_view bytes) { return crypto::testing::to_hex(bytes); }

inline keys::KeyScope scope_of(int object) {
  return {"payments", Zone("ae-fin"), "FeatureView/v" + std::to_string(object), "", "blob"};
}

struct KeyTreeOnDisk {
  SystemClock clock;
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<keys::KeyVault> vault;
  std::unique_ptr<keys::KeyTree> tree;

  static Result<std::unique_ptr<KeyTreeOnDisk>> open(const std::string& folder) {
    auto made = std::make_unique<KeyTreeOnDisk>();
    keys::FileVaultOptions file;
    file.path = folder + "/keys.sealed";
    file.machine_key_path = folder + "/machine.key";
    made->vault = FALAJ_TRY(keys::open_file_vault(std::move(file), keys::IfMissing::kCreate));
    made->sql = FALAJ_TRY(storage::open_sqlite(folder + "/keys.db"));
    keys::KeyTreeOptions options;
    options.rewrap_batch = 2;  // Many small steps to be killed between.
    options.purge = [path = folder + "/keys.db"] { return storage::purge_deleted(path); };
    made->tree =
        FALAJ_TRY(keys::open_key_tree(*made->sql, *made->vault, made->clock, std::move(options)));
    return made;
  }
};

}  // namespace falaj::faults
