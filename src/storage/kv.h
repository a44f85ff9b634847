// storage/kv.h — keys to bytes, each under an owner: the newest row per entity, for online reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "storage/owner.h"

namespace falaj::storage {

// Under which key a sealing store seals a row: the owner's, or one that is the row's alone, so that
// it can be destroyed without the others.
enum class RowKey : std::uint8_t { kOwners, kItsOwn };

struct KvWrite {
  std::string key;
  std::optional<std::string> value;  // nullopt deletes.
  RowKey sealed_by = RowKey::kOwners;
};

// Owners do not see each other. Thread-safe. write() is atomic over its batch and durable when it
// returns ok.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual Result<std::optional<std::string>> get(const Owner& owner,
                                                 std::string_view key) const = 0;
  // One answer per key, in order.
  virtual Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const = 0;
  virtual Status write(const Owner& owner, const std::vector<KvWrite>& batch) = 0;
  // Deletes every row of the owner, durably. Needs no key of a sealing store: rows whose keys were
  // destroyed go too. Nothing happens to an owner without rows.
  virtual Status clear(const Owner& owner) = 0;
  // Every key of the owner, in no order that means anything, until `visit` returns false. One
  // consistent snapshot.
  virtual Status scan(
      const Owner& owner,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) const = 0;
  // Takes what the owner deleted out of the store's files, where it would lie until they are
  // rewritten by themselves. Costs the rewriting of all that the owner has. Blocks.
  virtual Status purge(const Owner& owner) = 0;
  // What all owners have now, sealed or not as it lies, as a store of its own in `folder`, which
  // does not exist yet and is on the same file system. Quick: files are linked. kFailedPrecondition
  // where there are no files.
  virtual Status copy_to(const std::string& folder) const {
    return Error(Code::kFailedPrecondition, "this store has no files to copy to " + folder);
  }
};

}  // namespace falaj::storage
