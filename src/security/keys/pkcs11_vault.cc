// Root keys in an HSM. Zone and date are in the key's label:
// "falaj-root:ae-fin:1780000000000000000".
#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/mutex.h"
#include "crypto/aead.h"
#include "crypto/pkcs11/token.h"
#include "security/keys/key_vault.h"

namespace falaj::security::keys {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kPrefix = "falaj-root:";

std::string bound_to(const std::string& root, std::string_view aad) {
  return crypto::Tlv("falaj/v1/root").add(root).add(aad).str();
}

// With an empty id for a label that is not ours.
RootKey root_from(const crypto::TokenKey& key) {
  RootKey root;
  const std::string_view rest = std::string_view(key.label).substr(kPrefix.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return root;
  const std::string_view date = rest.substr(colon + 1);
  const auto read = std::from_chars(date.data(), date.data() + date.size(), root.created.nanos);
  if (read.ec != std::errc() || read.ptr != date.data() + date.size()) return root;
  root.zone = Zone(std::string(rest.substr(0, colon)));
  root.id = key.id;
  return root;
}

class Pkcs11Vault final : public KeyVault {
 public:
  Pkcs11Vault(std::unique_ptr<crypto::Pkcs11Token> token, crypto::Random& random)
      : token_(std::move(token)), random_(random) {}

  std::string name() const override { return "pkcs11"; }

  Result<std::vector<RootKey>> roots() const override {
    std::vector<RootKey> roots;
    for (const crypto::TokenKey& key : FALAJ_TRY(token_->keys(kPrefix))) {
      RootKey root = root_from(key);
      if (!root.id.empty()) roots.push_back(std::move(root));
    }
    std::sort(roots.begin(), roots.end(), [](const RootKey& a, const RootKey& b) {
      return std::tie(a.created, a.id) < std::tie(b.created, b.id);
    });
    return roots;
  }

  Result<RootKey> create_root(const Zone& zone, Timestamp now) override {
    const MutexLock lock(mutex_);
    RootKey root{random_.hex_id(), zone, now};
    // The order of dates is the order of roots, also when a clock stands still.
    for (const RootKey& other : FALAJ_TRY(roots())) {
      if (other.created >= root.created) root.created.nanos = other.created.nanos + 1;
    }
    const std::string label =
        std::string(kPrefix) + zone.name() + ":" + std::to_string(root.created.nanos);
    FALAJ_TRY(token_->generate({root.id, label}));
    return root;
  }

  Result<std::string> wrap(const std::string& root, const SecretBytes& key,
                           std::string_view aad) const override {
    return token_->seal(root, key.view(), bound_to(root, aad));
  }

  Result<SecretBytes> unwrap(const std::string& root, std::string_view wrapped,
                             std::string_view aad) const override {
    return token_->open_sealed(root, wrapped, bound_to(root, aad));
  }

  Status destroy_root(const std::string& root) override { return token_->destroy(root); }

 private:
  const std::unique_ptr<crypto::Pkcs11Token> token_;
  crypto::Random& random_;
  Mutex mutex_;
};

}  // namespace

Result<std::unique_ptr<KeyVault>> open_pkcs11_vault(Pkcs11VaultOptions options,
                                                    crypto::Random& random) {
  crypto::Pkcs11Options token;
  token.module = std::move(options.module);
  token.token = std::move(options.token);
  token.pin = std::move(options.pin);
  auto opened = FALAJ_TRY(crypto::Pkcs11Token::open(std::move(token), random));
  return std::unique_ptr<KeyVault>(std::make_unique<Pkcs11Vault>(std::move(opened), random));
}

}  // namespace falaj::security::keys
