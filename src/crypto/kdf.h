// crypto/kdf.h — keys and tokens from other keys, and keys from passphrases.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "crypto/secret.h"

namespace falaj::crypto {

// HMAC-SHA-256 (RFC 2104) under one key, for many messages: the key is worked in once. Wiped when
// destroyed. Thread-safe; about 0.2 µs for a short message.
class HmacSha256 {
 public:
  explicit HmacSha256(std::string_view key);  // Of any size.
  ~HmacSha256();
  HmacSha256(const HmacSha256&) = delete;
  HmacSha256& operator=(const HmacSha256&) = delete;

  Sha256 of(std::string_view message) const;

 private:
  Sha256Hasher inner_;
  Sha256Hasher outer_;
};

// The same for one message: 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);

// HKDF-SHA-256 (RFC 5869), extract and expand. `size` is 1 to 8160, otherwise the process stops.
SecretBytes hkdf_sha256(std::string_view key, std::string_view salt, std::string_view info,
                        std::size_t size = kKeyBytes);

// What Argon2id may cost. The defaults are libsodium's "moderate": 256 MiB and 3 passes, for a
// passphrase that is typed once per start; passwords of users have their own (crypto/password.h).
struct Argon2Cost {
  std::uint64_t passes = 3;                         // 1 to 16
  std::uint64_t memory = std::uint64_t{256} << 20;  // Bytes; 8 KiB to 4 GiB
};
inline constexpr std::size_t kArgon2SaltBytes = 16;

// Argon2id (RFC 9106, one lane). kInvalidArgument for a cost out of bounds or a salt of another
// size; kResourceExhausted when the memory is not to be had.
Result<SecretBytes> argon2id(std::string_view passphrase, std::string_view salt,
                             const Argon2Cost& cost, std::size_t size = kKeyBytes);

}  // namespace falaj::crypto
