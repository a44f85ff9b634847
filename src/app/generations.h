// app/generations.h — whether the stores of a data folder belong together, or one was set back.
//
// keys.db, the online rows (online/, or those in Redis) and blobs/ each carry a number; metadata.db
// says which one they must have. The numbers grow together: at every start and clean end, and
// whenever data is destroyed, before the receipt is given. metadata.db first takes what is coming
// (`pending`), then each store, then what is done; so a crash in between is told from an old copy
// exactly. That metadata.db itself is not an old copy is seen by the audit log's signer and witness
// (security/audit/heads.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "security/keys/key_tree.h"
#include "storage/kv.h"
#include "storage/sql.h"

namespace falaj::app {

// What metadata.db says.
struct Generation {
  std::int64_t pending = 0;
  std::int64_t done = 0;
};

struct StoreMark {
  std::string store;                   // "keys.db", "online", "redis", "blobs"
  std::optional<std::int64_t> number;  // Nothing: it has none.
  bool empty = false;                  // It was made just now, or holds nothing.
  bool first = false;                  // metadata.db does not know that it ever had one.
};

// Pure. FJ-7051 for the first store whose number is not between `done` and `pending`. A store
// without one is an old copy too, unless none was ever numbered or it is empty: the online rows are
// made again from the segments. Rows in Redis may have a newer one: they are not in the folder, of
// which a backup was brought back; features/online.h makes them again. And they had none before a
// version that numbers them: without one they pass until metadata.db says that they were given it.
Status check_generation(const Generation& expected, const std::vector<StoreMark>& marks);

// The stores as they lie, below any sealing of owners; all outlive what is made of them.
struct NumberedStores {
  storage::SqlStore& metadata;
  storage::SqlStore& keys;
  storage::KvStore& online;
  enum class Rows : std::uint8_t { kInTheFolder, kInRedis } rows;
  // Asked when the rows have no number.
  std::function<Result<bool>()> online_is_empty;
  std::string blobs;  // The folder.
  security::keys::KeyTree& tree;
};

// Thread-safe.
class Generations {
 public:
  // Checks, and changes nothing. FJ-7051; FJ-7043 for a number that was forged.
  static Result<std::unique_ptr<Generations>> open(const NumberedStores& stores);
  // The next number, durable in every store when it returns. Some 10 ms: five syncs, six with
  // Redis.
  Status advance();

 private:
  explicit Generations(const NumberedStores& stores, crypto::SecretBytes key)
      : stores_(stores), key_(std::move(key)) {}
  Result<std::vector<StoreMark>> marks() const;
  Result<StoreMark> online_mark() const;
  const char* online_name() const;
  Result<std::optional<std::int64_t>> opened(const std::string& store,
                                             const std::optional<std::string>& sealed) const;
  std::string sealed(const std::string& store, std::int64_t number) const;

  const NumberedStores stores_;
  const crypto::SecretBytes key_;
  Mutex mutex_;
  Generation now_ FALAJ_GUARDED_BY(mutex_);
};

// For who has opened the two databases only.
Status check_keys_generation(storage::SqlStore& metadata, storage::SqlStore& keys);

}  // namespace falaj::app
