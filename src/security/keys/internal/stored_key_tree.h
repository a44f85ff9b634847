// security/keys/internal/stored_key_tree.h — the key tree over keys.db and a vault.
//
// Locks: `change_` is held by whatever adds, rotates or destroys rings, one at a time; `cache_`
// only for moments. New data keys do not take `change_`: their transaction checks that the ring is
// still alive and at the version that was used, and is tried again otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "security/keys/internal/key_rows.h"
#include "security/keys/internal/lru.h"
#include "security/keys/key_tree.h"

namespace falaj::security::keys {

class StoredKeyTree final : public KeyTree {
 public:
  StoredKeyTree(storage::SqlStore& store, KeyVault& vault, const Clock& clock,
                KeyTreeOptions options, crypto::Random& random);

  // Checks the roots, makes the machine's keys, finishes rotations.
  Status start();

  Result<DataKey> new_data_key(const KeyScope& scope) override;
  Result<crypto::SecretBytes> open_data_key(const KeyScope& scope,
                                            std::string_view wrapped) override;
  Status remove_data_key(const KeyScope& scope, std::string_view wrapped) override;
  Result<SharedKey> stable_key(const KeyScope& scope) override;
  SharedKey kept_key(const KeyScope& scope) const override;
  Result<std::vector<SharedKey>> subject_keys(const KeyScope& scope,
                                              const std::vector<std::string>& subjects,
                                              Missing missing) override;
  Result<crypto::SecretBytes> store_key(std::string_view name) override;
  Result<RotateReport> rotate(const KeyScope& scope) override;
  Status raise_min_version(const KeyScope& scope, std::int64_t version) override;
  Result<ShredReceipt> shred(const KeyScope& scope) override;
  Result<std::vector<ShredReceipt>> unaudited_receipts() override;
  Status receipt_audited(const std::string& id) override;
  void set_shred_guard(ShredGuard guard) override;
  Result<std::vector<RingInfo>> inventory() override;
  Result<std::vector<RootKey>> roots() override { return vault_.roots(); }
  std::string vault_name() const override { return vault_.name(); }

 private:
  enum class Make : std::uint8_t { kIfMissing, kNever };

  // key_tree.cc
  Result<Place> place_of(const KeyScope& scope) const;
  Status check_roots();
  Result<std::string> root_of(const std::string& zone);
  Result<std::optional<Ring>> load_ring(const Place& place);
  Result<Ring> ring_at(const Place& place, Make make);
  Result<Ring> make_ring(const Place& place) FALAJ_REQUIRES(change_);
  Result<Ring> ring_of_id(const std::string& id);
  // The key of one version of a ring. FJ-7041, FJ-7042, FJ-7043.
  Result<SharedKey> ring_key(const Ring& ring, std::int64_t version);
  Result<crypto::SecretBytes> unwrap_version(const Ring& ring, const RingVersion& version);
  // Fills in `wrapped` under the parent (or root) that `version` names.
  Status wrap_version(const Ring& ring, const crypto::SecretBytes& key, RingVersion& version);
  // A version of `ring` that stands under the newest of what is above it.
  Result<RingVersion> place_version(const Ring& ring, const crypto::SecretBytes& key,
                                    std::int64_t number);
  Result<std::string> add_data_key(const Place& place, const std::string& purpose, DataKeyKind kind,
                                   const crypto::SecretBytes& key);
  Result<crypto::SecretBytes> open_row(const Place& place, const std::string& purpose,
                                       const StoredDataKey& row);
  Result<crypto::SecretBytes> open_by_id(const Place& place, const std::string& purpose,
                                         const std::string& id);

  // subjects.cc
  Result<SharedKey> open_subject(const SubjectRows& rows);
  Status make_subjects(const Ring& object, const std::string& purpose,
                       const std::vector<Place>& places, std::vector<SharedKey>& keys);

  // rotation.cc
  Result<RotateReport> rotate_ring(const Place& place) FALAJ_REQUIRES(change_);
  Result<RotateReport> rotate_root(const std::string& zone) FALAJ_REQUIRES(change_);
  Result<std::int64_t> rewrap_below(const Ring& ring);
  Result<std::int64_t> rewrap_under_root(const std::string& zone, const std::string& root);
  Result<std::int64_t> rewrap_data_keys(const Ring& ring);
  Result<std::int64_t> rewrap_children(const Ring& ring);
  Status resume_rotations();
  Status raise_ring(const Ring& ring, std::int64_t version) FALAJ_REQUIRES(change_);
  Status destroy_unused_roots(const std::string& zone) FALAJ_REQUIRES(change_);
  Status destroy_old_roots(const std::string& zone, std::int64_t keep_from) FALAJ_REQUIRES(change_);

  // shredding.cc
  Status ask_guard(const KeyScope& scope, const std::vector<Ring>& rings);
  Status destroy(const std::vector<Ring>& rings, ShredReceipt& receipt);
  Status prove_gone(const std::vector<std::pair<Place, StoredDataKey>>& before,
                    ShredReceipt& receipt);

  // Forgets every key in memory: something below changed.
  void forget_all();
  std::uint64_t generation() const { return generation_.load(); }
  // Keeps it unless something changed since `generation`.
  void keep_key(const std::string& name, const SharedKey& key, std::uint64_t generation);

  storage::SqlStore& store_;
  KeyVault& vault_;
  const Clock& clock_;
  const KeyTreeOptions options_;
  crypto::Random& random_;
  crypto::SecretBytes subjects_;  // Hashes the names of subjects; set by start().

  Mutex change_;
  ShredGuard guard_ FALAJ_GUARDED_BY(change_);

  std::atomic<std::uint64_t> generation_{0};
  mutable Mutex cache_;
  mutable Lru<SharedKey> keys_ FALAJ_GUARDED_BY(cache_);
  Lru<Ring> rings_ FALAJ_GUARDED_BY(cache_);
};

// The additional data of a wrapped ring key and of a wrapped data key.
std::string ring_aad(const Ring& ring, const RingVersion& version);
std::string data_key_aad(const Place& place, const StoredDataKey& key);

Error key_missing(const Place& place);

}  // namespace falaj::security::keys
