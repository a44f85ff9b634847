#include "security/keys/testing/fake_vault.h"

#include "crypto/aead.h"

namespace falaj::security::keys::testing {

Status FakeKeyVault::check_up() const {
  if (down_) return Error{ErrorId::kVaultSealed, "the vault does not answer"};
  return {};
}

Result<std::vector<RootKey>> FakeKeyVault::roots() const {
  FALAJ_TRY(check_up());
  const MutexLock lock(mutex_);
  return roots_;
}

Result<RootKey> FakeKeyVault::create_root(const Zone& zone, Timestamp now) {
  FALAJ_TRY(check_up());
  const MutexLock lock(mutex_);
  roots_.push_back({random_.hex_id(), zone, now});
  keys_.emplace(roots_.back().id, random_.key());
  return roots_.back();
}

Result<std::string> FakeKeyVault::wrap(const std::string& root, const crypto::SecretBytes& key,
                                       std::string_view aad) const {
  FALAJ_TRY(check_up());
  const MutexLock lock(mutex_);
  const auto found = keys_.find(root);
  if (found == keys_.end()) return Error{ErrorId::kKeyMissing, "no root " + root};
  return crypto::seal(found->second, key.view(), aad, random_);
}

Result<crypto::SecretBytes> FakeKeyVault::unwrap(const std::string& root, std::string_view wrapped,
                                                 std::string_view aad) const {
  FALAJ_TRY(check_up());
  ++unwraps_;
  const MutexLock lock(mutex_);
  const auto found = keys_.find(root);
  if (found == keys_.end()) return Error{ErrorId::kKeyMissing, "no root " + root};
  return crypto::open_secret(found->second, wrapped, aad);
}

Status FakeKeyVault::destroy_root(const std::string& root) {
  FALAJ_TRY(check_up());
  const MutexLock lock(mutex_);
  if (keys_.erase(root) == 0) return Error{ErrorId::kKeyMissing, "no root " + root};
  std::erase_if(roots_, [&](const RootKey& one) { return one.id == root; });
  return {};
}

}  // namespace falaj::security::keys::testing
