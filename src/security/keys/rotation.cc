// New versions of rings and roots. Nothing but wrapped keys is rewritten.
//
// The new version and a row in key_rotations are one transaction; then the keys below move over in
// batches, each batch one transaction; then the row goes. Killed anywhere, both versions are there
// and every key below stands under one of them; the next start goes on from the row.
#include <algorithm>

#include "crypto/aead.h"
#include "security/keys/internal/stored_key_tree.h"

namespace falaj::security::keys {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kRootPrefix = "root:";

}  // namespace

Result<RotateReport> StoredKeyTree::rotate(const KeyScope& scope) {
  const Place place = FALAJ_TRY(place_of(scope));
  const MutexLock lock(change_);
  if (!scope.project.empty()) return rotate_ring(place);
  RotateReport report = FALAJ_TRY(rotate_root(scope.zone.name()));
  if (scope.zone.labelled()) return report;
  const RotateReport machine = FALAJ_TRY(rotate_ring(place));
  report.ring = machine.ring;
  report.version = machine.version;
  report.rewrapped += machine.rewrapped;
  return report;
}

Result<RotateReport> StoredKeyTree::rotate_ring(const Place& place) {
  std::optional<Ring> ring = FALAJ_TRY(load_ring(place));
  if (!ring) return key_missing(place);
  const SecretBytes key = random_.key();
  const RingVersion version = FALAJ_TRY(place_version(*ring, key, ring->version + 1));
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(insert_version(tx, version));
    FALAJ_TRY(set_ring_version(tx, ring->id, version.version));
    return begin_rotation(tx, ring->id, std::to_string(version.version));
  }));
  forget_all();
  ring->version = version.version;
  RotateReport report{ring->id, version.version, 0};
  report.rewrapped = FALAJ_TRY(rewrap_below(*ring));
  return report;
}

// The root is durable in the vault before a row names it; a root that no row names does no harm.
Result<RotateReport> StoredKeyTree::rotate_root(const std::string& zone) {
  std::int64_t count = 0;
  for (const RootKey& root : FALAJ_TRY(vault_.roots())) count += root.zone.name() == zone ? 1 : 0;
  if (count == 0) {
    return Error{ErrorId::kKeyMissing, "zone " + zone + " has no root key yet"};
  }
  const RootKey root = FALAJ_TRY(vault_.create_root(Zone(zone), clock_.now()));
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) {
    return begin_rotation(tx, std::string(kRootPrefix) + zone, root.id);
  }));
  forget_all();
  RotateReport report{root.id, count + 1, 0};
  report.rewrapped = FALAJ_TRY(rewrap_under_root(zone, root.id));
  return report;
}

Result<std::int64_t> StoredKeyTree::rewrap_data_keys(const Ring& ring) {
  std::int64_t moved = 0;
  while (true) {
    std::vector<StoredDataKey> batch;
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      batch = FALAJ_TRY(stale_data_keys(tx, ring.id, ring.version, options_.rewrap_batch));
      return {};
    }));
    if (batch.empty()) return moved;
    const SharedKey above = FALAJ_TRY(ring_key(ring, ring.version));
    for (StoredDataKey& row : batch) {
      const SecretBytes key = FALAJ_TRY(open_row(ring.place, row.purpose, row));
      row.version = ring.version;
      row.wrapped = crypto::seal(*above, key.view(), data_key_aad(ring.place, row), random_);
    }
    FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
      for (const StoredDataKey& row : batch) FALAJ_TRY(rewrap_data_key(tx, row));
      return {};
    }));
    moved += static_cast<std::int64_t>(batch.size());
  }
}

Result<std::int64_t> StoredKeyTree::rewrap_children(const Ring& ring) {
  std::int64_t moved = 0;
  while (true) {
    std::vector<RingVersion> batch;
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      batch = FALAJ_TRY(stale_children(tx, ring.id, ring.version, options_.rewrap_batch));
      return {};
    }));
    if (batch.empty()) return moved;
    for (RingVersion& row : batch) {
      const Ring child = FALAJ_TRY(ring_of_id(row.ring));
      const SecretBytes key = FALAJ_TRY(unwrap_version(child, row));
      row.parent_version = ring.version;
      FALAJ_TRY(wrap_version(child, key, row));
    }
    FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
      for (const RingVersion& row : batch) FALAJ_TRY(rewrap_version(tx, row));
      return {};
    }));
    moved += static_cast<std::int64_t>(batch.size());
  }
}

Result<std::int64_t> StoredKeyTree::rewrap_below(const Ring& ring) {
  std::int64_t moved = FALAJ_TRY(rewrap_data_keys(ring));
  moved += FALAJ_TRY(rewrap_children(ring));
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) { return end_rotation(tx, ring.id); }));
  return moved;
}

Result<std::int64_t> StoredKeyTree::rewrap_under_root(const std::string& zone,
                                                      const std::string& root) {
  std::int64_t moved = 0;
  while (true) {
    std::vector<RingVersion> batch;
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      batch = FALAJ_TRY(stale_under_roots(tx, zone, root, options_.rewrap_batch));
      return {};
    }));
    if (batch.empty()) break;
    for (RingVersion& row : batch) {
      const Ring ring = FALAJ_TRY(ring_of_id(row.ring));
      const SecretBytes key = FALAJ_TRY(unwrap_version(ring, row));
      row.root = root;
      FALAJ_TRY(wrap_version(ring, key, row));
    }
    FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
      for (const RingVersion& row : batch) FALAJ_TRY(rewrap_version(tx, row));
      return {};
    }));
    moved += static_cast<std::int64_t>(batch.size());
  }
  FALAJ_TRY(store_.write(
      [&](SqlTransaction& tx) { return end_rotation(tx, std::string(kRootPrefix) + zone); }));
  return moved;
}

Status StoredKeyTree::resume_rotations() {
  std::vector<PendingRotation> pending;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    pending = FALAJ_TRY(pending_rotations(tx));
    return {};
  }));
  for (const PendingRotation& one : pending) {
    if (one.what.starts_with(kRootPrefix)) {
      FALAJ_TRY(rewrap_under_root(one.what.substr(kRootPrefix.size()), one.target));
      continue;
    }
    const Result<Ring> ring = ring_of_id(one.what);
    if (ring.ok()) {
      FALAJ_TRY(rewrap_below(*ring));
    } else {  // Shredded since.
      FALAJ_TRY(store_.write([&](SqlTransaction& tx) { return end_rotation(tx, one.what); }));
    }
  }
  return {};
}

Status StoredKeyTree::raise_min_version(const KeyScope& scope, std::int64_t version) {
  const Place place = FALAJ_TRY(place_of(scope));
  const MutexLock lock(change_);
  if (scope.project.empty() && scope.zone.labelled()) {
    return destroy_old_roots(scope.zone.name(), version);
  }
  const std::optional<Ring> ring = FALAJ_TRY(load_ring(place));
  if (!ring) return key_missing(place);
  if (version < ring->min_version || version > ring->version) {
    return Error{ErrorId::kOutOfRange, "min_version " + std::to_string(version) +
                                           " is not between " + std::to_string(ring->min_version) +
                                           " and " + std::to_string(ring->version)};
  }
  FALAJ_TRY(raise_ring(*ring, version));
  return place.project.empty() ? destroy_unused_roots("") : Status();
}

// The machine's root turns together with its ring: what no key stands under is of no more use.
Status StoredKeyTree::destroy_unused_roots(const std::string& zone) {
  std::vector<RootKey> roots = FALAJ_TRY(vault_.roots());
  std::erase_if(roots, [&](const RootKey& root) { return root.zone.name() != zone; });
  if (!roots.empty()) roots.pop_back();  // The newest.
  for (const RootKey& root : roots) {
    const storage::SqlRows used = FALAJ_TRY(
        storage::query(store_, "SELECT 1 FROM key_versions WHERE root = ? LIMIT 1", {root.id}));
    if (used.empty()) FALAJ_TRY(vault_.destroy_root(root.id));
  }
  return {};
}

Status StoredKeyTree::raise_ring(const Ring& ring, std::int64_t version) {
  Ring raised = ring;
  raised.min_version = version;
  // The lowest accepted version is part of the additional data, so that nobody can lower it again
  // by editing the row.
  std::vector<RingVersion> kept;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    kept = FALAJ_TRY(versions_of(tx, ring.id));
    return {};
  }));
  std::erase_if(kept, [&](const RingVersion& one) { return one.version < version; });
  for (RingVersion& one : kept) {
    const SecretBytes key = FALAJ_TRY(unwrap_version(ring, one));
    FALAJ_TRY(wrap_version(raised, key, one));
  }
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
    if (!FALAJ_TRY(stale_data_keys(tx, ring.id, version, 1)).empty() ||
        !FALAJ_TRY(stale_children(tx, ring.id, version, 1)).empty()) {
      return Error{Code::kFailedPrecondition, "keys still stand under a version before " +
                                                  std::to_string(version) +
                                                  "; rotate first and let it finish"};
    }
    FALAJ_TRY(
        tx.execute("DELETE FROM key_versions WHERE ring = ? AND version < ?", {ring.id, version}));
    FALAJ_TRY(tx.execute("UPDATE key_rings SET min_version = ? WHERE id = ?", {version, ring.id}));
    for (const RingVersion& one : kept) FALAJ_TRY(rewrap_version(tx, one));
    return {};
  }));
  forget_all();
  return options_.purge ? options_.purge() : Status();
}

// Roots have no numbers in the vault: the n-th of a zone is its version n.
Status StoredKeyTree::destroy_old_roots(const std::string& zone, std::int64_t keep_from) {
  std::vector<RootKey> roots = FALAJ_TRY(vault_.roots());
  std::erase_if(roots, [&](const RootKey& root) { return root.zone.name() != zone; });
  if (keep_from < 1 || keep_from > static_cast<std::int64_t>(roots.size())) {
    return Error{ErrorId::kOutOfRange, "zone " + zone + " has " + std::to_string(roots.size()) +
                                           " root keys, not " + std::to_string(keep_from)};
  }
  roots.resize(static_cast<std::size_t>(keep_from - 1));
  for (const RootKey& root : roots) {
    const storage::SqlRows used = FALAJ_TRY(
        storage::query(store_, "SELECT 1 FROM key_versions WHERE root = ? LIMIT 1", {root.id}));
    if (!used.empty()) {
      return Error{Code::kFailedPrecondition,
                   "keys still stand under root " + root.id + "; rotate the zone first"};
    }
    FALAJ_TRY(vault_.destroy_root(root.id));
  }
  forget_all();
  return {};
}

}  // namespace falaj::security::keys
