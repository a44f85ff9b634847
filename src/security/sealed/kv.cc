#include "security/sealed/kv.h"

#include <thread>
#include <utility>

#include "crypto/aead.h"
#include "crypto/kdf.h"

namespace falaj::security::sealed {
namespace {

using storage::KvWrite;
using storage::Owner;

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kLengthBytes = 4;
// Rows of one write from which a second thread is worth its start.
constexpr std::size_t kSharedRows = 2'000;

// What one call needs of an owner's keys.
struct OwnerKeys {
  keys::SharedKey values;
  keys::SharedKey tokens;
  std::string aad;  // Without the token.

  std::string token_of(std::string_view key) const {
    return crypto::hmac_sha256(tokens->view(), key).substr(0, kTokenBytes);
  }

  std::string seal(std::string_view token, std::string_view key, std::string_view value) const {
    std::string plain;
    plain.reserve(kLengthBytes + key.size() + value.size());
    for (int shift = 24; shift >= 0; shift -= 8) {
      plain.push_back(static_cast<char>(key.size() >> shift));
    }
    plain.append(key).append(value);
    std::string sealed = crypto::seal(*values, plain, std::string(aad).append(token));
    crypto::wipe(plain);
    return sealed;
  }

  struct Opened {
    std::string plain;
    std::string_view key() const { return std::string_view(plain).substr(kLengthBytes, length); }
    std::string_view value() const { return std::string_view(plain).substr(kLengthBytes + length); }
    std::size_t length = 0;
  };
  Result<Opened> open(std::string_view token, std::string_view sealed) const {
    Opened out;
    out.plain = FALAJ_TRY(crypto::open(*values, sealed, std::string(aad).append(token)));
    if (out.plain.size() < kLengthBytes) return crypto::decrypt_failed();
    for (std::size_t i = 0; i < kLengthBytes; ++i) {
      out.length = out.length << 8 | static_cast<unsigned char>(out.plain[i]);
    }
    if (out.length > out.plain.size() - kLengthBytes) return crypto::decrypt_failed();
    return out;
  }
};

class SealedKvStore final : public storage::KvStore {
 public:
  SealedKvStore(std::unique_ptr<storage::KvStore> inner, keys::KeyTree& keys)
      : inner_(std::move(inner)), keys_(keys) {}

  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(owner));
    const std::string token = mine.token_of(key);
    const auto sealed = FALAJ_TRY(inner_->get(owner, token));
    return open(mine, token, sealed, key);
  }

  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(owner));
    std::vector<std::string> tokens;
    for (const std::string& key : keys) tokens.push_back(mine.token_of(key));
    const auto sealed = FALAJ_TRY(inner_->get_many(owner, tokens));
    std::vector<std::optional<std::string>> out;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      out.push_back(FALAJ_TRY(open(mine, tokens[i], sealed[i], keys[i])));
    }
    return out;
  }

  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(owner));
    std::vector<KvWrite> sealed(batch.size());
    const auto seal_part = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        sealed[i].key = mine.token_of(batch[i].key);
        if (!batch[i].value) continue;
        sealed[i].value = mine.seal(sealed[i].key, batch[i].key, *batch[i].value);
      }
    };
    // An ingest writes many thousand rows at once, while its other threads have nothing to do.
    const std::size_t apart = batch.size() >= kSharedRows ? batch.size() / 2 : 0;
    std::thread helping;
    if (apart > 0) helping = std::thread(seal_part, 0, apart);
    seal_part(apart, batch.size());
    if (helping.joinable()) helping.join();
    return inner_->write(owner, sealed);
  }

  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    const OwnerKeys mine = FALAJ_TRY(keys_of(owner));
    Status status;
    FALAJ_TRY(inner_->scan(owner, [&](std::string_view token, std::string_view sealed) {
      const Result<OwnerKeys::Opened> row = mine.open(token, sealed);
      if (row.ok()) return visit(row->key(), row->value());
      status = row.error();
      return false;
    }));
    return status;
  }
  Status copy_to(const std::string& folder) const override { return inner_->copy_to(folder); }

 private:
  Result<OwnerKeys> keys_of(const Owner& owner) const {
    OwnerKeys out;
    out.values =
        FALAJ_TRY(keys_.stable_key({owner.project.str(), owner.zone, owner.object, "", "kv"}));
    out.tokens =
        FALAJ_TRY(keys_.stable_key({owner.project.str(), owner.zone, owner.object, "", "token"}));
    out.aad = crypto::Tlv("falaj/v1/kv")
                  .add(owner.project.str())
                  .add(owner.zone.name())
                  .add(owner.object)
                  .str();
    return out;
  }

  static Result<std::optional<std::string>> open(const OwnerKeys& mine, std::string_view token,
                                                 const std::optional<std::string>& sealed,
                                                 std::string_view key) {
    if (!sealed) return std::optional<std::string>();
    const OwnerKeys::Opened row = FALAJ_TRY(mine.open(token, *sealed));
    if (row.key() != key) return crypto::decrypt_failed();
    return std::optional<std::string>(row.value());
  }

  const std::unique_ptr<storage::KvStore> inner_;
  keys::KeyTree& keys_;
};

}  // namespace

std::unique_ptr<storage::KvStore> seal_kv(std::unique_ptr<storage::KvStore> inner,
                                          keys::KeyTree& keys) {
  return std::make_unique<SealedKvStore>(std::move(inner), keys);
}

}  // namespace falaj::security::sealed
