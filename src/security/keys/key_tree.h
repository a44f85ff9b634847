// security/keys/key_tree.h — every key of Falaj, from the root of a zone down to one file.
//
//   root of a zone (in the vault) → key of a project in the zone → key of an object → key of a
//   subject (a person, optional) → data key (one for each file, or one for a purpose)
//
// Only wrapped keys are stored, in the small database keys.db, which opens before everything else.
// Each is bound to its place: wrapped with additional data that names project, zone, object,
// subject, purpose, key id, version and parent, so that a wrapped key that was moved anywhere else
// does not open (FJ-7043). Key ids are random.
//
// A key between root and data key (a ring) has versions. rotate() makes a new one and wraps what is
// below it anew: no data is rewritten. raise_min_version() then destroys the old versions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "base/zone.h"
#include "crypto/random.h"
#include "crypto/secret.h"
#include "security/keys/key_vault.h"
#include "storage/sql.h"

namespace falaj::security::keys {

// Which key. Data belongs to an object of a project in a zone; `subject` narrows it to one person.
struct KeyScope {
  std::string project;
  Zone zone;
  std::string object;   // "FeatureView/customer_activity"; "" for the project's own key.
  std::string subject;  // Kept only as a keyed hash. Needs an object.
  std::string purpose;  // "blob", "kv", "token": what the data key is for.
};

struct DataKey {
  crypto::SecretBytes key;  // 32 bytes.
  // Says which data key this is; goes in front of the data. Not secret. kDataKeyHeaderBytes long.
  std::string wrapped;
};
inline constexpr std::size_t kDataKeyHeaderBytes = 24;  // "FJDK" ‖ format ‖ 0 0 0 ‖ 16-byte id

using SharedKey = std::shared_ptr<const crypto::SecretBytes>;

// One logical key as the inventory shows it.
struct RingInfo {
  std::string id;
  std::string level;  // "machine", "project", "object", "subject"
  std::string project;
  Zone zone;
  std::string object;
  std::string parent;  // Id of the ring above; of the root for machine and project keys.
  std::int64_t version = 0;
  std::int64_t min_version = 1;
  std::int64_t data_keys = 0;  // That stand directly under it; of a line of subjects: all of them.
  std::int64_t stale = 0;      // Of them and of the rings below: wrapped by an older version.
  Timestamp created{};
  Timestamp rotated{};   // When the newest version was made.
  Timestamp shredded{};  // 0 while it lives.
};
Value to_value(const RingInfo& ring);

struct RotateReport {
  std::string ring;
  std::int64_t version = 0;    // The new one.
  std::int64_t rewrapped = 0;  // Keys below it that now stand under the new version.
};

// Evidence that keys are gone: what the audit log keeps. Holds ids and counts, no personal data.
struct ShredReceipt {
  std::string id;
  std::string project;
  Zone zone;
  std::string object;
  std::string level;               // What was destroyed: "project", "object", "subject".
  std::vector<std::string> rings;  // Their ids.
  std::int64_t versions = 0;       // Key versions destroyed.
  std::int64_t data_keys = 0;      // Data keys destroyed.
  std::int64_t opens_tried = 0;    // Of the data keys that were there before …
  std::int64_t opens_refused = 0;  // … each must be refused: equal to opens_tried.
  Timestamp at{};
  Value to_value() const;
};

// Asked before anything is destroyed: FJ-7034 when law or a legal hold forbids it.
using ShredGuard = std::function<Status(const KeyScope&, Timestamp created)>;

extern const storage::Migration kKeysMigration;

// Thread-safe. Calls may block on keys.db or the vault, except kept_key().
class KeyTree {
 public:
  virtual ~KeyTree() = default;

  // A fresh key for one file; makes the rings above it where they are missing. Durable when it
  // returns. FJ-7030 without a zone when a project is named; kInvalidArgument for a subject without
  // an object.
  virtual Result<DataKey> new_data_key(const KeyScope& scope) = 0;
  // The key of `wrapped` (the header, or data that begins with it), if it was made for this scope.
  // FJ-7041 when it is gone (shredded, removed), FJ-7042 when its version is refused, FJ-7043 when
  // it was made for another scope or was changed.
  virtual Result<crypto::SecretBytes> open_data_key(const KeyScope& scope,
                                                    std::string_view wrapped) = 0;
  // The file is gone: so is its key. Removing one that is not there is no error.
  virtual Status remove_data_key(const KeyScope& scope, std::string_view wrapped) = 0;

  // The one key of this scope and purpose, made on first use, the same for ever (until shredded):
  // for values of the online store, tokens of personal keys. A memory lookup after the first time.
  virtual Result<SharedKey> stable_key(const KeyScope& scope) = 0;
  // The same, only if it is in memory: never blocks. nullptr otherwise.
  virtual SharedKey kept_key(const KeyScope& scope) const = 0;
  // The stable keys of many subjects of one object (scope.subject is not looked at), in their
  // order. kMake makes all that are missing in one transaction; kNull leaves null where there is
  // none (any more). None is kept in memory. Cost: some 10 µs for each that is there, 30 for a new
  // one.
  enum class Missing : std::uint8_t { kMake, kNull };
  virtual Result<std::vector<SharedKey>> subject_keys(const KeyScope& scope,
                                                      const std::vector<std::string>& subjects,
                                                      Missing missing) = 0;
  // Of the machine itself, for a whole store: "metadata.db". The same for ever.
  virtual Result<crypto::SecretBytes> store_key(std::string_view name) = 0;

  // A new version of the scope's ring (without an object: of the project's; without a project: of
  // the machine's, or with a zone only, a new root of the zone); everything directly below is
  // wrapped anew. Killed half-way, it is finished by the next open. FJ-7041 when there is no such
  // key.
  virtual Result<RotateReport> rotate(const KeyScope& scope) = 0;
  // Destroys versions older than `version`: what they alone wrap (an old backup's rows) is refused
  // with FJ-7042 from now on. kFailedPrecondition while something still stands under them; FJ-1006
  // for a version that is not there.
  virtual Status raise_min_version(const KeyScope& scope, std::int64_t version) = 0;

  // Destroys the keys of an object (with its subjects) or of one subject: their data can never be
  // read again. Durable and gone from the database's files when it returns. FJ-7041 when there is
  // no such key; FJ-7034 from the guard. The receipt is kept until receipt_audited().
  virtual Result<ShredReceipt> shred(const KeyScope& scope) = 0;
  virtual Result<std::vector<ShredReceipt>> unaudited_receipts() = 0;
  virtual Status receipt_audited(const std::string& id) = 0;
  virtual void set_shred_guard(ShredGuard guard) = 0;

  // Living and shredded rings, oldest first. The subjects of an object are one line: how many live.
  virtual Result<std::vector<RingInfo>> inventory() = 0;
  virtual Result<std::vector<RootKey>> roots() = 0;
  virtual std::string vault_name() const = 0;
};

struct KeyTreeOptions {
  std::size_t cached_keys_max = 4'096;  // Unwrapped ring keys in memory; wiped when pushed out.
  std::int64_t rewrap_batch = 512;      // Keys wrapped anew in one transaction.
  // Removes what was deleted from the database's files (storage::purge_deleted); may be empty for a
  // database in memory.
  std::function<Status()> purge;
};

// `store` (keys.db), `vault` and the rest must outlive the tree. Applies the migration and finishes
// what a killed rotation left. FJ-7040 when the vault lacks a root that keys.db needs.
Result<std::unique_ptr<KeyTree>> open_key_tree(storage::SqlStore& store, KeyVault& vault,
                                               const Clock& clock, KeyTreeOptions options = {},
                                               crypto::Random& random = crypto::system_random());

}  // namespace falaj::security::keys
