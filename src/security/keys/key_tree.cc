#include "security/keys/key_tree.h"

#include <algorithm>
#include <set>

#include "crypto/aead.h"
#include "crypto/kdf.h"
#include "security/keys/internal/stored_key_tree.h"
#include "security/keys/log_check.h"

namespace falaj::security::keys {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kMagic = "FJDK\x01";
constexpr std::size_t kIdAt = 8;
constexpr std::size_t kIdBytes = 16;
static_assert(kIdAt + kIdBytes == kDataKeyHeaderBytes);
constexpr int kTriesMax = 16;  // Of a data key while its ring is being rotated.

std::string header_of(std::string_view id_bytes) {
  std::string header(kMagic);
  header.resize(kIdAt, '\0');
  return header.append(id_bytes);
}

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

// The id inside a header.
Result<std::string> id_of(std::string_view wrapped) {
  if (wrapped.size() < kDataKeyHeaderBytes ||
      wrapped.substr(0, kIdAt) != header_of("").substr(0, kIdAt)) {
    return crypto::decrypt_failed();
  }
  return hex(wrapped.substr(kIdAt, kIdBytes));
}

std::string version_name(const std::string& ring, std::int64_t version) {
  return "v/" + ring + "/" + std::to_string(version);
}

std::string stable_name(const Place& place, const std::string& purpose) {
  return "s/" + place.key() + purpose;
}

std::string describe(const Place& place) {
  if (place.project.empty()) return "the machine";
  std::string text = place.project;
  if (!place.object.empty()) text += "/" + place.object;
  return text + " in zone " + place.zone + (place.subject.empty() ? "" : ", one subject");
}

}  // namespace

Error key_missing(const Place& place) {
  return Error{ErrorId::kKeyMissing,
               "there is no such key for " + describe(place) +
                   "; it was shredded, removed, or belongs to another key database"};
}

std::string ring_aad(const Ring& ring, const RingVersion& version) {
  const auto number = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  crypto::Tlv fields("falaj/v1/ring-key");
  fields.add(ring.place.project).add(ring.place.zone).add(ring.place.object);
  fields.add(ring.place.subject).add(ring.id).add(number(version.version));
  fields.add(number(ring.min_version)).add(ring.parent).add(version.root);
  fields.add(number(version.parent_version));
  return fields.str();
}

std::string data_key_aad(const Place& place, const StoredDataKey& key) {
  crypto::Tlv fields("falaj/v1/data-key");
  fields.add(place.project).add(place.zone).add(place.object).add(place.subject);
  fields.add(key.purpose).add(key.id).add(key.kind == DataKeyKind::kStable ? "stable" : "file");
  fields.add(key.ring).add(static_cast<std::uint64_t>(key.version));
  return fields.str();
}

StoredKeyTree::StoredKeyTree(storage::SqlStore& store, KeyVault& vault, const Clock& clock,
                             KeyTreeOptions options, crypto::Random& random)
    : store_(store),
      vault_(vault),
      clock_(clock),
      options_(std::move(options)),
      random_(random),
      keys_(options_.cached_keys_max),
      rings_(options_.cached_keys_max) {}

Status StoredKeyTree::start() {
  FALAJ_TRY(check_roots());
  subjects_ = FALAJ_TRY(store_key("subjects"));
  return resume_rotations();
}

// A vault that lacks a root is another vault, or an old copy: better to say so now than later, at
// the first file that does not open.
Status StoredKeyTree::check_roots() {
  std::set<std::string> there;
  for (const RootKey& root : FALAJ_TRY(vault_.roots())) there.insert(root.id);
  const storage::SqlRows used =
      FALAJ_TRY(storage::query(store_, "SELECT DISTINCT root FROM key_versions WHERE root != ''"));
  for (const storage::SqlRow& row : used) {
    if (!there.contains(row.text(0))) {
      return Error{ErrorId::kVaultSealed,
                   "the " + vault_.name() + " vault does not hold root key " + row.text(0) +
                       ", which the key database needs; bring back the vault that belongs to this "
                       "data folder"};
    }
  }
  return {};
}

Result<Place> StoredKeyTree::place_of(const KeyScope& scope) const {
  if (scope.project.empty() && (!scope.object.empty() || !scope.subject.empty())) {
    return Error{Code::kInvalidArgument, "a key of an object needs a project"};
  }
  if (!scope.subject.empty() && scope.object.empty()) {
    return Error{Code::kInvalidArgument, "a key of a subject needs an object"};
  }
  if (!scope.project.empty() && !scope.zone.labelled()) {
    return Error{ErrorId::kZoneMissing,
                 "a key of project " + scope.project + " needs the zone of its data"};
  }
  Place place{scope.project, scope.zone.name(), scope.object, ""};
  if (!scope.subject.empty()) {
    const std::string message =
        crypto::Tlv("falaj/v1/subject").add(scope.project).add(scope.subject).str();
    place.subject = hex(crypto::hmac_sha256(subjects_.view(), message));
  }
  return place;
}

// The newest root of the zone; the first is made here.
Result<std::string> StoredKeyTree::root_of(const std::string& zone) {
  std::string newest;
  for (const RootKey& root : FALAJ_TRY(vault_.roots())) {
    if (root.zone.name() == zone) newest = root.id;
  }
  if (newest.empty()) {
    const RootKey made = FALAJ_TRY(vault_.create_root(Zone(zone), clock_.now()));
    newest = made.id;
  }
  return newest;
}

Result<std::optional<Ring>> StoredKeyTree::load_ring(const Place& place) {
  std::optional<Ring> ring;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    ring = FALAJ_TRY(find_ring(tx, place));
    return {};
  }));
  return ring;
}

Result<Ring> StoredKeyTree::ring_at(const Place& place, Make make) {
  const std::string name = place.key();
  {
    const MutexLock lock(cache_);
    if (const Ring* kept = rings_.find(name)) return *kept;
  }
  const std::uint64_t before = generation();
  std::optional<Ring> ring = FALAJ_TRY(load_ring(place));
  if (!ring) {
    if (make == Make::kNever) return key_missing(place);
    const MutexLock lock(change_);
    ring = FALAJ_TRY(load_ring(place));  // Another thread may have made it meanwhile.
    if (!ring) ring = FALAJ_TRY(make_ring(place));
  }
  const MutexLock lock(cache_);
  if (before == generation()) rings_.put(name, *ring);
  return *ring;
}

Result<Ring> StoredKeyTree::make_ring(const Place& place) {
  Ring ring;
  ring.id = random_.hex_id();
  ring.place = place;
  ring.created = clock_.now();
  if (place.has_parent()) {
    std::optional<Ring> parent = FALAJ_TRY(load_ring(place.parent()));
    if (!parent) parent = FALAJ_TRY(make_ring(place.parent()));
    ring.parent = parent->id;
  }
  const SecretBytes key = random_.key();
  const RingVersion version = FALAJ_TRY(place_version(ring, key, 1));
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(insert_ring(tx, ring));
    return insert_version(tx, version);
  }));
  return ring;
}

Result<Ring> StoredKeyTree::ring_of_id(const std::string& id) {
  std::optional<Ring> ring;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    ring = FALAJ_TRY(ring_by_id(tx, id));
    return {};
  }));
  if (!ring) return Error{ErrorId::kKeyMissing, "key " + id + " is gone"};
  return *ring;
}

Result<RingVersion> StoredKeyTree::place_version(const Ring& ring, const SecretBytes& key,
                                                 std::int64_t number) {
  RingVersion version;
  version.ring = ring.id;
  version.version = number;
  version.created = clock_.now();
  if (ring.parent.empty()) {
    version.root = FALAJ_TRY(root_of(ring.place.zone));
  } else {
    const Ring parent = FALAJ_TRY(ring_of_id(ring.parent));
    version.parent_version = parent.version;
  }
  FALAJ_TRY(wrap_version(ring, key, version));
  return version;
}

Status StoredKeyTree::wrap_version(const Ring& ring, const SecretBytes& key, RingVersion& version) {
  const std::string aad = ring_aad(ring, version);
  if (ring.parent.empty()) {
    version.wrapped = FALAJ_TRY(vault_.wrap(version.root, key, aad));
    return {};
  }
  const Ring parent = FALAJ_TRY(ring_of_id(ring.parent));
  const SharedKey above = FALAJ_TRY(ring_key(parent, version.parent_version));
  version.wrapped = crypto::seal(*above, key.view(), aad, random_);
  return {};
}

Result<SecretBytes> StoredKeyTree::unwrap_version(const Ring& ring, const RingVersion& version) {
  const std::string aad = ring_aad(ring, version);
  if (ring.parent.empty()) return vault_.unwrap(version.root, version.wrapped, aad);
  const Ring parent = FALAJ_TRY(ring_of_id(ring.parent));
  const SharedKey above = FALAJ_TRY(ring_key(parent, version.parent_version));
  return crypto::open_secret(*above, version.wrapped, aad);
}

Result<SharedKey> StoredKeyTree::ring_key(const Ring& ring, std::int64_t version) {
  if (version < ring.min_version) {
    return Error{ErrorId::kKeyVersionRefused,
                 "version " + std::to_string(version) + " of the key of " + describe(ring.place) +
                     " is refused; the oldest accepted is " + std::to_string(ring.min_version)};
  }
  const std::string name = version_name(ring.id, version);
  {
    const MutexLock lock(cache_);
    if (const SharedKey* kept = keys_.find(name)) return *kept;
  }
  const std::uint64_t before = generation();
  std::optional<RingVersion> row;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    row = FALAJ_TRY(find_version(tx, ring.id, version));
    return {};
  }));
  if (!row) return key_missing(ring.place);
  SecretBytes opened = FALAJ_TRY(unwrap_version(ring, *row));
  const auto key = std::make_shared<const SecretBytes>(std::move(opened));
  keep_key(name, key, before);
  return SharedKey(key);
}

void StoredKeyTree::keep_key(const std::string& name, const SharedKey& key, std::uint64_t since) {
  const MutexLock lock(cache_);
  if (since == generation()) keys_.put(name, key);
}

void StoredKeyTree::forget_all() {
  const MutexLock lock(cache_);
  generation_.fetch_add(1);
  keys_.clear();
  rings_.clear();
}

// Wraps `key` under the place's ring and stores it. The id of the new row, raw.
Result<std::string> StoredKeyTree::add_data_key(const Place& place, const std::string& purpose,
                                                DataKeyKind kind, const SecretBytes& key) {
  for (int i = 0; i < kTriesMax; ++i) {
    const Ring ring = FALAJ_TRY(ring_at(place, Make::kIfMissing));
    const SharedKey above = FALAJ_TRY(ring_key(ring, ring.version));
    const std::string id = random_.bytes(kIdBytes);
    StoredDataKey row{hex(id), ring.id, ring.version, purpose, kind, ""};
    row.wrapped = crypto::seal(*above, key.view(), data_key_aad(place, row), random_);
    bool current = false;
    FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
      const std::optional<Ring> now = FALAJ_TRY(ring_by_id(tx, ring.id));
      current = now && now->version == ring.version;
      return current ? insert_data_key(tx, row, clock_.now()) : Status();
    }));
    if (current) return id;
    forget_all();  // Rotated or shredded since it was looked up.
  }
  return Error{Code::kUnavailable, "the key of " + describe(place) + " changes all the time"};
}

Result<DataKey> StoredKeyTree::new_data_key(const KeyScope& scope) {
  const Place place = FALAJ_TRY(place_of(scope));
  DataKey made;
  made.key = random_.key();
  const std::string id =
      FALAJ_TRY(add_data_key(place, scope.purpose, DataKeyKind::kFile, made.key));
  made.wrapped = header_of(id);
  return made;
}

Result<SecretBytes> StoredKeyTree::open_row(const Place& place, const std::string& purpose,
                                            const StoredDataKey& row) {
  const Ring ring = FALAJ_TRY(ring_of_id(row.ring));
  // Both are also in the additional data; here the answer is the same without touching a key.
  if (ring.place != place || row.purpose != purpose) return crypto::decrypt_failed();
  const SharedKey above = FALAJ_TRY(ring_key(ring, row.version));
  return crypto::open_secret(*above, row.wrapped, data_key_aad(place, row));
}

Result<SecretBytes> StoredKeyTree::open_by_id(const Place& place, const std::string& purpose,
                                              const std::string& id) {
  std::optional<StoredDataKey> row;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    row = FALAJ_TRY(find_data_key(tx, id));
    return {};
  }));
  if (!row) return key_missing(place);
  return open_row(place, purpose, *row);
}

Result<SecretBytes> StoredKeyTree::open_data_key(const KeyScope& scope, std::string_view wrapped) {
  const Place place = FALAJ_TRY(place_of(scope));
  const std::string id = FALAJ_TRY(id_of(wrapped));
  return open_by_id(place, scope.purpose, id);
}

Status StoredKeyTree::remove_data_key(const KeyScope& scope, std::string_view wrapped) {
  const Place place = FALAJ_TRY(place_of(scope));
  const std::string id = FALAJ_TRY(id_of(wrapped));
  return store_.write([&](SqlTransaction& tx) -> Status {
    const std::optional<Ring> ring = FALAJ_TRY(find_ring(tx, place));
    if (ring) {
      FALAJ_TRY(tx.execute("DELETE FROM data_keys WHERE id = ? AND ring = ?", {id, ring->id}));
    }
    return {};
  });
}

SharedKey StoredKeyTree::kept_key(const KeyScope& scope) const {
  const Result<Place> place = place_of(scope);
  if (!place.ok()) return nullptr;
  const MutexLock lock(cache_);
  const SharedKey* kept = keys_.find(stable_name(*place, scope.purpose));
  return kept != nullptr ? *kept : nullptr;
}

Result<SharedKey> StoredKeyTree::stable_key(const KeyScope& scope) {
  if (SharedKey kept = kept_key(scope)) return kept;
  const Place place = FALAJ_TRY(place_of(scope));
  const std::string name = stable_name(place, scope.purpose);
  for (int i = 0; i < kTriesMax; ++i) {
    const std::uint64_t before = generation();
    const Ring ring = FALAJ_TRY(ring_at(place, Make::kIfMissing));
    std::optional<StoredDataKey> row;
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      row = FALAJ_TRY(find_stable_key(tx, ring.id, scope.purpose));
      return {};
    }));
    if (row) {
      SecretBytes opened = FALAJ_TRY(open_row(place, scope.purpose, *row));
      const auto key = std::make_shared<const SecretBytes>(std::move(opened));
      keep_key(name, key, before);
      return SharedKey(key);
    }
    const SecretBytes fresh = random_.key();
    const Result<std::string> added =
        add_data_key(place, scope.purpose, DataKeyKind::kStable, fresh);
    // A conflict: another thread was first; its key is the one.
    if (!added.ok() && added.error().code != Code::kConflict) return added.error();
  }
  return Error{Code::kUnavailable, "the key of " + describe(place) + " changes all the time"};
}

Result<SecretBytes> StoredKeyTree::store_key(std::string_view name) {
  KeyScope scope;
  scope.purpose = "store/" + std::string(name);
  const SharedKey key = FALAJ_TRY(stable_key(scope));
  return key->clone();
}

void StoredKeyTree::set_shred_guard(ShredGuard guard) {
  const MutexLock lock(change_);
  guard_ = std::move(guard);
}

Result<std::unique_ptr<KeyTree>> open_key_tree(storage::SqlStore& store, KeyVault& vault,
                                               const Clock& clock, KeyTreeOptions options,
                                               crypto::Random& random) {
  FALAJ_TRY(store.migrate({kKeysMigration, kGenerationsMigration}));
  auto tree = std::make_unique<StoredKeyTree>(store, vault, clock, std::move(options), random);
  FALAJ_TRY(tree->start());
  return std::unique_ptr<KeyTree>(std::move(tree));
}

}  // namespace falaj::security::keys
