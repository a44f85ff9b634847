#include "crypto/kdf.h"

#include <sodium.h>

#include <algorithm>

#include "base/check.h"

namespace falaj::crypto {
namespace {

constexpr std::size_t kHashBytes = 32;

constexpr std::size_t kHashBlock = 64;

std::string_view text_of(const Sha256& hash) {
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

void hmac_into(std::string_view key, std::string_view message, unsigned char* out) {
  Sha256 hash = HmacSha256(key).of(message);
  std::copy(hash.bytes.begin(), hash.bytes.end(), out);
  wipe(&hash, sizeof hash);
}

}  // namespace

HmacSha256::HmacSha256(std::string_view key) {
  Sha256 shortened;
  if (key.size() > kHashBlock) {
    shortened = sha256(key);
    key = text_of(shortened);
  }
  char pad[kHashBlock];
  const auto begin_with = [&](Sha256Hasher& hasher, unsigned char mask) {
    std::fill_n(pad, kHashBlock, static_cast<char>(mask));
    for (std::size_t i = 0; i < key.size(); ++i) {
      pad[i] = static_cast<char>(static_cast<unsigned char>(key[i]) ^ mask);
    }
    hasher.update(std::string_view(pad, kHashBlock));
  };
  begin_with(inner_, 0x36);
  begin_with(outer_, 0x5c);
  wipe(pad, sizeof pad);
  wipe(&shortened, sizeof shortened);
}

HmacSha256::~HmacSha256() {
  wipe(&inner_, sizeof inner_);
  wipe(&outer_, sizeof outer_);
}

Sha256 HmacSha256::of(std::string_view message) const {
  Sha256Hasher inner = inner_;
  inner.update(message);
  const Sha256 within = inner.finish();
  Sha256Hasher outer = outer_;
  outer.update(text_of(within));
  return outer.finish();
}

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
  if (crypto_pwhash(out.data(), out.size(), passphrase.data(), passphrase.size(),
                    reinterpret_cast<const unsigned char*>(salt.data()), cost.passes, cost.memory,
                    crypto_pwhash_ALG_ARGON2ID13) != 0) {
    return Error{Code::kResourceExhausted,
                 "Argon2id needs " + std::to_string(cost.memory >> 20) + " MiB of memory"};
  }
  return out;
}

}  // namespace falaj::crypto
