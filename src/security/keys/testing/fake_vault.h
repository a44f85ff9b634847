// security/keys/testing/fake_vault.h — a vault in memory that can be made to fail.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "security/keys/key_vault.h"

namespace falaj::security::keys::testing {

class FakeKeyVault final : public KeyVault {
 public:
  explicit FakeKeyVault(crypto::Random& random) : random_(random) {}

  std::string name() const override { return "fake"; }
  Result<std::vector<RootKey>> roots() const override;
  Result<RootKey> create_root(const Zone& zone, Timestamp now) override;
  Result<std::string> wrap(const std::string& root, const crypto::SecretBytes& key,
                           std::string_view aad) const override;
  Result<crypto::SecretBytes> unwrap(const std::string& root, std::string_view wrapped,
                                     std::string_view aad) const override;
  Status destroy_root(const std::string& root) override;

  // From now on every call fails with FJ-7040, or works again.
  void go_down() { down_ = true; }
  void come_back() { down_ = false; }
  int unwraps() const { return unwraps_; }  // So far: what a cache saves.

 private:
  Status check_up() const;
  crypto::Random& random_;
  std::atomic<bool> down_{false};
  mutable std::atomic<int> unwraps_{0};
  mutable Mutex mutex_;
  std::vector<RootKey> roots_ FALAJ_GUARDED_BY(mutex_);
  std::map<std::string, crypto::SecretBytes> keys_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security::keys::testing
