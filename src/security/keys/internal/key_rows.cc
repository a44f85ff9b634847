#include "security/keys/internal/key_rows.h"

#include "crypto/aead.h"
#include "crypto/base64.h"
#include "security/keys/key_tree.h"
#include "security/keys/log_check.h"

namespace falaj::security::keys {

const storage::Migration kGenerationsMigration{
    "keys-002-generations",
    "CREATE TABLE store_generations (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;"};

const storage::Migration kKeysMigration{"keys-001",
                                        R"sql(
CREATE TABLE key_rings (
  id TEXT PRIMARY KEY,
  project TEXT NOT NULL,
  zone TEXT NOT NULL,
  object TEXT NOT NULL,
  subject TEXT NOT NULL,
  parent TEXT NOT NULL,
  version INTEGER NOT NULL,
  min_version INTEGER NOT NULL,
  created INTEGER NOT NULL,
  shredded INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX key_rings_place ON key_rings (project, zone, object, subject)
  WHERE shredded = 0;
CREATE INDEX key_rings_parent ON key_rings (parent);
CREATE TABLE key_versions (
  ring TEXT NOT NULL REFERENCES key_rings (id),
  version INTEGER NOT NULL,
  root TEXT NOT NULL,
  parent_version INTEGER NOT NULL,
  wrapped TEXT NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (ring, version)
) STRICT;
CREATE INDEX key_versions_root ON key_versions (root);
CREATE TABLE data_keys (
  id TEXT PRIMARY KEY,
  ring TEXT NOT NULL REFERENCES key_rings (id),
  version INTEGER NOT NULL,
  purpose TEXT NOT NULL,
  stable INTEGER NOT NULL,
  wrapped TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT;
CREATE INDEX data_keys_ring ON data_keys (ring, version);
CREATE UNIQUE INDEX data_keys_stable ON data_keys (ring, purpose) WHERE stable = 1;
CREATE TABLE key_rotations (what TEXT PRIMARY KEY, target TEXT NOT NULL) STRICT;
CREATE TABLE key_receipts (
  id TEXT PRIMARY KEY,
  detail TEXT NOT NULL,
  audited INTEGER NOT NULL
) STRICT;
)sql"};

namespace {

using storage::SqlParams;
using storage::SqlRow;

#define FALAJ_RING_COLUMNS                                                                        \
  "r.id, r.project, r.zone, r.object, r.subject, r.parent, r.version, r.min_version, r.created, " \
  "r.shredded"
#define FALAJ_VERSION_COLUMNS "v.ring, v.version, v.root, v.parent_version, v.wrapped, v.created"
#define FALAJ_DATA_COLUMNS "id, ring, version, purpose, stable, wrapped"

Ring ring_from(const SqlRow& row) {
  Ring ring;
  ring.id = row.text(0);
  ring.place = {row.text(1), row.text(2), row.text(3), row.text(4)};
  ring.parent = row.text(5);
  ring.version = row.integer(6);
  ring.min_version = row.integer(7);
  ring.created = Timestamp{row.integer(8)};
  ring.shredded = Timestamp{row.integer(9)};
  return ring;
}

// A text that is no base64 is a changed row: it fails like any other change.
Result<std::string> wrapped_from(const std::string& text) {
  Result<std::string> bytes = crypto::from_base64(text);
  if (!bytes.ok()) return crypto::decrypt_failed();
  return bytes;
}

Result<RingVersion> version_from(const SqlRow& row) {
  RingVersion version;
  version.ring = row.text(0);
  version.version = row.integer(1);
  version.root = row.text(2);
  version.parent_version = row.integer(3);
  version.wrapped = FALAJ_TRY(wrapped_from(row.text(4)));
  version.created = Timestamp{row.integer(5)};
  return version;
}

Result<StoredDataKey> data_key_from(const SqlRow& row) {
  StoredDataKey key;
  key.id = row.text(0);
  key.ring = row.text(1);
  key.version = row.integer(2);
  key.purpose = row.text(3);
  key.kind = row.integer(4) != 0 ? DataKeyKind::kStable : DataKeyKind::kFile;
  key.wrapped = FALAJ_TRY(wrapped_from(row.text(5)));
  return key;
}

template <class T, class Read>
Result<std::optional<T>> first_of(SqlTransaction& tx, std::string_view sql, const SqlParams& params,
                                  Read read) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(sql, params));
  if (rows.empty()) return std::optional<T>();
  Result<T> value = read(rows.front());
  if (!value.ok()) return std::move(value).error();
  return std::optional<T>(std::move(value).value());
}

template <class T, class Read>
Result<std::vector<T>> all_of(SqlTransaction& tx, std::string_view sql, const SqlParams& params,
                              Read read) {
  std::vector<T> values;
  for (const SqlRow& row : FALAJ_TRY(tx.query(sql, params))) {
    Result<T> value = read(row);
    if (!value.ok()) return std::move(value).error();
    values.push_back(std::move(value).value());
  }
  return values;
}

Status run(SqlTransaction& tx, std::string_view sql, const SqlParams& params) {
  FALAJ_TRY(tx.execute(sql, params));
  return {};
}

}  // namespace

std::string_view Place::level() const {
  if (!subject.empty()) return "subject";
  if (!object.empty()) return "object";
  return project.empty() ? "machine" : "project";
}

Place Place::parent() const {
  Place above = *this;
  (subject.empty() ? above.object : above.subject).clear();
  return above;
}

std::string Place::key() const {
  return crypto::Tlv("place").add(project).add(zone).add(object).add(subject).str();
}

Result<std::optional<Ring>> find_ring(SqlTransaction& tx, const Place& place) {
  return first_of<Ring>(tx,
                        "SELECT " FALAJ_RING_COLUMNS
                        " FROM key_rings r WHERE r.project = ? AND r.zone = ? AND r.object = ? "
                        "AND r.subject = ? AND r.shredded = 0",
                        {place.project, place.zone, place.object, place.subject}, ring_from);
}

Result<std::optional<Ring>> ring_by_id(SqlTransaction& tx, const std::string& id) {
  return first_of<Ring>(
      tx, "SELECT " FALAJ_RING_COLUMNS " FROM key_rings r WHERE r.id = ? AND r.shredded = 0", {id},
      ring_from);
}

Result<std::vector<Ring>> all_rings(SqlTransaction& tx) {
  return all_of<Ring>(tx,
                      "SELECT " FALAJ_RING_COLUMNS " FROM key_rings r ORDER BY r.created, r.rowid",
                      {}, ring_from);
}

Result<std::vector<Ring>> rings_at_and_below(SqlTransaction& tx, const Place& place) {
  return all_of<Ring>(tx,
                      "WITH RECURSIVE below (id) AS ("
                      " SELECT id FROM key_rings WHERE project = ? AND zone = ? AND object = ?"
                      "  AND subject = ? AND shredded = 0"
                      " UNION SELECT r.id FROM key_rings r JOIN below b ON r.parent = b.id"
                      "  WHERE r.shredded = 0) "
                      "SELECT " FALAJ_RING_COLUMNS
                      " FROM key_rings r WHERE r.id IN (SELECT id FROM below) "
                      "ORDER BY r.created, r.rowid",
                      {place.project, place.zone, place.object, place.subject}, ring_from);
}

Status insert_ring(SqlTransaction& tx, const Ring& ring) {
  return run(tx,
             "INSERT INTO key_rings (id, project, zone, object, subject, parent, version, "
             "min_version, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
             {ring.id, ring.place.project, ring.place.zone, ring.place.object, ring.place.subject,
              ring.parent, ring.version, ring.min_version, ring.created.nanos});
}

Status set_ring_version(SqlTransaction& tx, const std::string& id, std::int64_t version) {
  return run(tx, "UPDATE key_rings SET version = ? WHERE id = ?", {version, id});
}

Result<std::optional<RingVersion>> find_version(SqlTransaction& tx, const std::string& ring,
                                                std::int64_t version) {
  return first_of<RingVersion>(
      tx, "SELECT " FALAJ_VERSION_COLUMNS " FROM key_versions v WHERE v.ring = ? AND v.version = ?",
      {ring, version}, version_from);
}

Result<std::vector<RingVersion>> versions_of(SqlTransaction& tx, const std::string& ring) {
  return all_of<RingVersion>(tx,
                             "SELECT " FALAJ_VERSION_COLUMNS
                             " FROM key_versions v WHERE v.ring = ? ORDER BY v.version",
                             {ring}, version_from);
}

Status insert_version(SqlTransaction& tx, const RingVersion& version) {
  return run(tx,
             "INSERT INTO key_versions (ring, version, root, parent_version, wrapped, created) "
             "VALUES (?, ?, ?, ?, ?, ?)",
             {version.ring, version.version, version.root, version.parent_version,
              crypto::base64(version.wrapped), version.created.nanos});
}

Status rewrap_version(SqlTransaction& tx, const RingVersion& version) {
  return run(tx,
             "UPDATE key_versions SET root = ?, parent_version = ?, wrapped = ? "
             "WHERE ring = ? AND version = ?",
             {version.root, version.parent_version, crypto::base64(version.wrapped), version.ring,
              version.version});
}

Result<std::optional<StoredDataKey>> find_data_key(SqlTransaction& tx, const std::string& id) {
  return first_of<StoredDataKey>(tx, "SELECT " FALAJ_DATA_COLUMNS " FROM data_keys WHERE id = ?",
                                 {id}, data_key_from);
}

Result<std::optional<StoredDataKey>> find_stable_key(SqlTransaction& tx, const std::string& ring,
                                                     const std::string& purpose) {
  return first_of<StoredDataKey>(tx,
                                 "SELECT " FALAJ_DATA_COLUMNS
                                 " FROM data_keys WHERE ring = ? AND purpose = ? AND stable = 1",
                                 {ring, purpose}, data_key_from);
}

Result<std::optional<SubjectRows>> find_subject(SqlTransaction& tx, const Place& place,
                                                const std::string& purpose) {
  const std::optional<Ring> ring = FALAJ_TRY(find_ring(tx, place));
  if (!ring) return std::optional<SubjectRows>();
  const std::optional<StoredDataKey> key = FALAJ_TRY(find_stable_key(tx, ring->id, purpose));
  if (!key) return std::optional<SubjectRows>();
  const std::optional<RingVersion> version = FALAJ_TRY(find_version(tx, ring->id, key->version));
  if (!version) return std::optional<SubjectRows>();
  return std::optional<SubjectRows>(SubjectRows{*ring, *version, *key});
}

Status insert_data_key(SqlTransaction& tx, const StoredDataKey& key, Timestamp now) {
  return run(tx,
             "INSERT INTO data_keys (id, ring, version, purpose, stable, wrapped, created) "
             "VALUES (?, ?, ?, ?, ?, ?, ?)",
             {key.id, key.ring, key.version, key.purpose,
              std::int64_t{key.kind == DataKeyKind::kStable ? 1 : 0}, crypto::base64(key.wrapped),
              now.nanos});
}

Status rewrap_data_key(SqlTransaction& tx, const StoredDataKey& key) {
  return run(tx, "UPDATE data_keys SET version = ?, wrapped = ? WHERE id = ?",
             {key.version, crypto::base64(key.wrapped), key.id});
}

Result<std::vector<StoredDataKey>> stale_data_keys(SqlTransaction& tx, const std::string& ring,
                                                   std::int64_t version, std::int64_t limit) {
  return all_of<StoredDataKey>(
      tx, "SELECT " FALAJ_DATA_COLUMNS " FROM data_keys WHERE ring = ? AND version < ? LIMIT ?",
      {ring, version, limit}, data_key_from);
}

Result<std::vector<RingVersion>> stale_children(SqlTransaction& tx, const std::string& ring,
                                                std::int64_t version, std::int64_t limit) {
  return all_of<RingVersion>(tx,
                             "SELECT " FALAJ_VERSION_COLUMNS
                             " FROM key_versions v JOIN key_rings r ON r.id = v.ring "
                             "WHERE r.parent = ? AND v.parent_version < ? LIMIT ?",
                             {ring, version, limit}, version_from);
}

Result<std::vector<RingVersion>> stale_under_roots(SqlTransaction& tx, const std::string& zone,
                                                   const std::string& root, std::int64_t limit) {
  return all_of<RingVersion>(tx,
                             "SELECT " FALAJ_VERSION_COLUMNS
                             " FROM key_versions v JOIN key_rings r ON r.id = v.ring "
                             "WHERE r.parent = '' AND r.zone = ? AND v.root != ? LIMIT ?",
                             {zone, root, limit}, version_from);
}

Status begin_rotation(SqlTransaction& tx, const std::string& what, const std::string& target) {
  return run(tx, "INSERT OR REPLACE INTO key_rotations (what, target) VALUES (?, ?)",
             {what, target});
}

Status end_rotation(SqlTransaction& tx, const std::string& what) {
  return run(tx, "DELETE FROM key_rotations WHERE what = ?", {what});
}

Result<std::vector<PendingRotation>> pending_rotations(SqlTransaction& tx) {
  return all_of<PendingRotation>(tx, "SELECT what, target FROM key_rotations ORDER BY what", {},
                                 [](const SqlRow& row) {
                                   return PendingRotation{row.text(0), row.text(1)};
                                 });
}

#undef FALAJ_RING_COLUMNS
#undef FALAJ_VERSION_COLUMNS
#undef FALAJ_DATA_COLUMNS

}  // namespace falaj::security::keys
