// storage/sqlite/sealed_vfs.h — a layer between SQLite and its files that seals every page.
//
// It stands on SQLite's own file system layer: locks, shared memory, syncs and sizes pass through.
// Pages are 4096 bytes on both sides; a sealed one ends in nonce and tag, in bytes that SQLite is
// told to leave alone. The log's frames are sealed in place as well. What has no place for a tag or
// no business in a file is refused: temporary files (temp_store is memory) and page records in a
// rollback journal (there are none in WAL mode).
#pragma once

#include <memory>
#include <string>

#include "storage/page_cipher.h"

namespace falaj::storage {

class SealedVfs {
 public:
  static constexpr int kPageBytes = 4096;

  // Registers itself under a name of its own; connections opened with name() must be closed before
  // it is destroyed.
  static Result<std::unique_ptr<SealedVfs>> create(std::shared_ptr<const PageCipher> cipher);
  virtual ~SealedVfs() = default;
  virtual const std::string& name() const = 0;
};

}  // namespace falaj::storage
