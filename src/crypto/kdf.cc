#include "crypto/kdf.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sodium.h>

#include <algorithm>

#include "base/check.h"

namespace falaj::crypto {
namespace {

constexpr std::size_t kHashBytes = 32;

const unsigned char* octets(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// A context that a thread keeps, with its hash looked up once.
class HmacContext {
 public:
  HmacContext() {
    static EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    FALAJ_CHECK(hmac != nullptr);
    context_ = EVP_MAC_CTX_new(hmac);
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    FALAJ_CHECK(context_ != nullptr && EVP_MAC_CTX_set_params(context_, parameters) == 1);
  }
  ~HmacContext() { EVP_MAC_CTX_free(context_); }
  HmacContext(const HmacContext&) = delete;
  HmacContext& operator=(const HmacContext&) = delete;

  void hash(std::string_view key, std::string_view message, unsigned char* out) {
    static constexpr unsigned char kNone[1] = {};  // An empty key is not an absent one.
    std::size_t size = 0;
    const bool done =
        EVP_MAC_init(context_, key.empty() ? kNone : octets(key), key.size(), nullptr) == 1 &&
        EVP_MAC_update(context_, octets(message), message.size()) == 1 &&
        EVP_MAC_final(context_, out, &size, kHashBytes) == 1;
    FALAJ_CHECK(done && size == kHashBytes);
  }

 private:
  EVP_MAC_CTX* context_ = nullptr;
};

void hmac_into(std::string_view key, std::string_view message, unsigned char* out) {
  thread_local HmacContext context;
  context.hash(key, message, out);
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::string out(kHashBytes, '\0');
  hmac_into(key, message, reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

SecretBytes hkdf_sha256(std::string_view key, std::string_view salt, std::string_view info,
                        std::size_t size) {
  FALAJ_CHECK(size >= 1 && size <= 255 * kHashBytes);
  static constexpr char kNoSalt[kHashBytes] = {};
  SecretBytes extracted(kHashBytes);
  hmac_into(salt.empty() ? std::string_view(kNoSalt, kHashBytes) : salt, key, extracted.data());

  SecretBytes out(size);
  SecretBytes block(kHashBytes + info.size() + 1);  // T(i-1) ‖ info ‖ i
  SecretBytes hash(kHashBytes);
  std::copy(info.begin(), info.end(), block.data() + kHashBytes);
  std::size_t filled = 0;
  for (unsigned char i = 1; filled < size; ++i) {
    block.data()[block.size() - 1] = i;
    hmac_into(extracted.view(), block.view().substr(i == 1 ? kHashBytes : 0), hash.data());
    const std::size_t part = std::min(kHashBytes, size - filled);
    std::copy_n(hash.data(), part, out.data() + filled);
    std::copy_n(hash.data(), kHashBytes, block.data());
    filled += part;
  }
  return out;
}

Result<SecretBytes> argon2id(std::string_view passphrase, std::string_view salt,
                             const Argon2Cost& cost, std::size_t size) {
  if (salt.size() != kArgon2SaltBytes || cost.passes < 1 || cost.passes > 16 ||
      cost.memory < 8192 || cost.memory > (std::uint64_t{4} << 30) || size < 16 || size > 1024) {
    return Error{Code::kInvalidArgument, "Argon2id: salt, cost or size is out of bounds"};
  }
  FALAJ_CHECK(sodium_init() >= 0);
  SecretBytes out(size);
  if (crypto_pwhash(out.data(), out.size(), passphrase.data(), passphrase.size(), octets(salt),
                    cost.passes, cost.memory, crypto_pwhash_ALG_ARGON2ID13) != 0) {
    return Error{Code::kResourceExhausted,
                 "Argon2id needs " + std::to_string(cost.memory >> 20) + " MiB of memory"};
  }
  return out;
}

}  // namespace falaj::crypto
