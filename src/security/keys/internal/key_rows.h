// security/keys/internal/key_rows.h — the tables of keys.db and their rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "storage/sql.h"

namespace falaj::security::keys {

// Where a ring stands. `subject` is the keyed hash, never the person's own name.
struct Place {
  std::string project;
  std::string zone;
  std::string object;
  std::string subject;

  std::string_view level() const;
  bool has_parent() const { return !object.empty(); }  // Otherwise a root of the vault is above.
  Place parent() const;
  std::string key() const;  // For maps: no two places have the same.
  bool operator==(const Place&) const = default;
};

struct Ring {
  std::string id;
  Place place;
  std::string parent;  // Ring id; "" under a root.
  std::int64_t version = 1;
  std::int64_t min_version = 1;
  Timestamp created{};
  Timestamp shredded{};
};

struct RingVersion {
  std::string ring;
  std::int64_t version = 1;
  std::string root;                 // Under a root: its id.
  std::int64_t parent_version = 0;  // Under a ring: its version.
  std::string wrapped;              // Raw bytes; base64 in the table.
  Timestamp created{};
};

enum class DataKeyKind : std::uint8_t { kFile, kStable };

struct StoredDataKey {
  std::string id;
  std::string ring;
  std::int64_t version = 1;
  std::string purpose;
  DataKeyKind kind = DataKeyKind::kFile;
  std::string wrapped;
};

using storage::SqlTransaction;

// Only living rings.
Result<std::optional<Ring>> find_ring(SqlTransaction& tx, const Place& place);
Result<std::optional<Ring>> ring_by_id(SqlTransaction& tx, const std::string& id);
// All, also shredded ones, oldest first.
Result<std::vector<Ring>> all_rings(SqlTransaction& tx);
// The living ring of `place` and every living one below it.
Result<std::vector<Ring>> rings_at_and_below(SqlTransaction& tx, const Place& place);
// kConflict when a living ring stands there already.
Status insert_ring(SqlTransaction& tx, const Ring& ring);
Status set_ring_version(SqlTransaction& tx, const std::string& id, std::int64_t version);

Result<std::optional<RingVersion>> find_version(SqlTransaction& tx, const std::string& ring,
                                                std::int64_t version);
Result<std::vector<RingVersion>> versions_of(SqlTransaction& tx, const std::string& ring);
Status insert_version(SqlTransaction& tx, const RingVersion& version);
// The version's key under another parent.
Status rewrap_version(SqlTransaction& tx, const RingVersion& version);

Result<std::optional<StoredDataKey>> find_data_key(SqlTransaction& tx, const std::string& id);
Result<std::optional<StoredDataKey>> find_stable_key(SqlTransaction& tx, const std::string& ring,
                                                     const std::string& purpose);
Status insert_data_key(SqlTransaction& tx, const StoredDataKey& key, Timestamp now);
Status rewrap_data_key(SqlTransaction& tx, const StoredDataKey& key);

// A living subject's ring, and the stable key of it for one purpose.
struct SubjectRows {
  Ring ring;
  RingVersion version;  // The one that wraps `key`.
  StoredDataKey key;
};
Result<std::optional<SubjectRows>> find_subject(SqlTransaction& tx, const Place& place,
                                                const std::string& purpose);

// Data keys of `ring` under a version before `version`, at most `limit`.
Result<std::vector<StoredDataKey>> stale_data_keys(SqlTransaction& tx, const std::string& ring,
                                                   std::int64_t version, std::int64_t limit);
// Versions of living rings below `ring` that stand under a version of it before `version`.
Result<std::vector<RingVersion>> stale_children(SqlTransaction& tx, const std::string& ring,
                                                std::int64_t version, std::int64_t limit);
// Versions of living rings of the zone that stand directly under another root than `root`.
Result<std::vector<RingVersion>> stale_under_roots(SqlTransaction& tx, const std::string& zone,
                                                   const std::string& root, std::int64_t limit);

// A rotation that was begun: of a ring (its id) or of a zone's root ("root:" + zone).
Status begin_rotation(SqlTransaction& tx, const std::string& what, const std::string& target);
Status end_rotation(SqlTransaction& tx, const std::string& what);
struct PendingRotation {
  std::string what;
  std::string target;
};
Result<std::vector<PendingRotation>> pending_rotations(SqlTransaction& tx);

}  // namespace falaj::security::keys
