// Keys of many subjects of one object at once: what a store needs that seals each row by itself.
#include <map>
#include <utility>

#include "crypto/aead.h"
#include "security/keys/internal/stored_key_tree.h"

namespace falaj::security::keys {
namespace {

constexpr int kTriesMax = 8;

struct NewSubject {
  Ring ring;
  RingVersion version;
  StoredDataKey key;
};

}  // namespace

// By hand, past the caches: a view's subjects would push everything else out of them.
Result<SharedKey> StoredKeyTree::open_subject(const SubjectRows& rows) {
  if (rows.version.version < rows.ring.min_version) return key_missing(rows.ring.place);
  const Ring parent = FALAJ_TRY(ring_at(rows.ring.place.parent(), Make::kNever));
  const SharedKey above = FALAJ_TRY(ring_key(parent, rows.version.parent_version));
  const crypto::SecretBytes ring = FALAJ_TRY(
      crypto::open_secret(*above, rows.version.wrapped, ring_aad(rows.ring, rows.version)));
  crypto::SecretBytes key = FALAJ_TRY(
      crypto::open_secret(ring, rows.key.wrapped, data_key_aad(rows.ring.place, rows.key)));
  return SharedKey(std::make_shared<const crypto::SecretBytes>(std::move(key)));
}

// kConflict when another thread made one of them, or the object's key was changed, meanwhile.
Status StoredKeyTree::make_subjects(const Ring& object, const std::string& purpose,
                                    const std::vector<Place>& places,
                                    std::vector<SharedKey>& keys) {
  const SharedKey above = FALAJ_TRY(ring_key(object, object.version));
  std::map<std::string, SharedKey> made;
  std::vector<NewSubject> rows;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (keys[i] != nullptr) continue;
    SharedKey& mine = made[places[i].subject];
    if (mine == nullptr) {
      NewSubject row;
      row.ring.id = random_.hex_id();
      row.ring.place = places[i];
      row.ring.parent = object.id;
      row.ring.created = clock_.now();
      row.version.ring = row.ring.id;
      row.version.created = row.ring.created;
      row.version.parent_version = object.version;
      const crypto::SecretBytes ring_secret = random_.key();
      row.version.wrapped =
          crypto::seal(*above, ring_secret.view(), ring_aad(row.ring, row.version), random_);
      mine = std::make_shared<const crypto::SecretBytes>(random_.key());
      row.key = {random_.hex_id(), row.ring.id, 1, purpose, DataKeyKind::kStable, ""};
      row.key.wrapped =
          crypto::seal(ring_secret, mine->view(), data_key_aad(places[i], row.key), random_);
      rows.push_back(std::move(row));
    }
    keys[i] = mine;
  }
  return store_.write([&](SqlTransaction& tx) -> Status {
    const std::optional<Ring> now = FALAJ_TRY(ring_by_id(tx, object.id));
    if (!now || now->version != object.version || now->shredded.nanos != 0) {
      return Error{Code::kConflict, "the object's key was changed"};
    }
    for (const NewSubject& row : rows) {
      FALAJ_TRY(insert_ring(tx, row.ring));
      FALAJ_TRY(insert_version(tx, row.version));
      FALAJ_TRY(insert_data_key(tx, row.key, row.ring.created));
    }
    return {};
  });
}

Result<std::vector<SharedKey>> StoredKeyTree::subject_keys(const KeyScope& scope,
                                                           const std::vector<std::string>& subjects,
                                                           Missing missing) {
  KeyScope one = scope;
  one.subject.clear();
  const Place object = FALAJ_TRY(place_of(one));
  std::vector<Place> places;
  for (const std::string& subject : subjects) {
    one.subject = subject;
    places.push_back(FALAJ_TRY(place_of(one)));
  }
  for (int i = 0; i < kTriesMax; ++i) {
    std::vector<SharedKey> keys(subjects.size());
    std::vector<std::optional<SubjectRows>> rows(subjects.size());
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      for (std::size_t at = 0; at < places.size(); ++at) {
        rows[at] = FALAJ_TRY(find_subject(tx, places[at], scope.purpose));
      }
      return {};
    }));
    bool whole = true;
    for (std::size_t at = 0; at < places.size(); ++at) {
      if (rows[at]) keys[at] = FALAJ_TRY(open_subject(*rows[at]));
      whole = whole && keys[at] != nullptr;
    }
    if (whole || missing == Missing::kNull) return keys;
    const Ring ring = FALAJ_TRY(ring_at(object, Make::kIfMissing));
    const Status made = make_subjects(ring, scope.purpose, places, keys);
    if (made.ok()) return keys;
    if (made.error().code != Code::kConflict) return made.error();
    forget_all();
  }
  return Error{Code::kUnavailable, "the keys of " + scope.object + " change all the time"};
}

}  // namespace falaj::security::keys
