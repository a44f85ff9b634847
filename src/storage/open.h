// storage/open.h — the embedded adapters and the fakes, each behind one factory.
#pragma once

#include <memory>
#include <string>

#include "storage/blob.h"
#include "storage/kv.h"
#include "storage/page_cipher.h"
#include "storage/sql.h"

namespace falaj::storage {

// How much a write may trust the disk. kNoSync exists for the fault tests' negative control only.
enum class Durability : unsigned char { kSync, kNoSync };

// FJ-8001 locked by another process, FJ-8002 read-only, FJ-8003 full, FJ-8005 corrupt.
Result<std::unique_ptr<SqlStore>> open_sqlite(const std::string& path,
                                              Durability durability = Durability::kSync);
// The same with every page and log frame sealed. FJ-8004 for a database that lies in clear; FJ-8005
// too when a page was changed, moved or sealed with another key.
Result<std::unique_ptr<SqlStore>> open_sqlite(const std::string& path, Durability durability,
                                              std::shared_ptr<const PageCipher> cipher);
Result<std::unique_ptr<KvStore>> open_rocksdb(const std::string& folder,
                                              Durability durability = Durability::kSync);
Result<std::unique_ptr<BlobStore>> open_files(const std::string& folder,
                                              Durability durability = Durability::kSync);

// Same contracts, in memory, for tests of what stands above.
std::unique_ptr<SqlStore> make_fake_sql();  // SQLite in memory: the same SQL, no file.
std::unique_ptr<KvStore> make_fake_kv();
std::unique_ptr<BlobStore> make_fake_blobs();

// Holds the data folder for one process. Written: version and pid. Dropped: released.
class FolderLock {
 public:
  // Creates the folder if needed. FJ-8001/8002/8004 as above.
  static Result<std::unique_ptr<FolderLock>> acquire(const std::string& folder);
  virtual ~FolderLock() = default;
};

}  // namespace falaj::storage
