// crypto/aead.h — authenticated encryption of one message: AES-256-GCM, and XAES-256-GCM for
// messages with a random nonce.
//
// Whatever is opened was sealed with this key and this `aad`, byte for byte, or there is FJ-7043:
// one message for every cause, so that nobody can learn from the difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/random.h"
#include "crypto/secret.h"

struct evp_cipher_ctx_st;

namespace falaj::crypto {

inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kGcmNonceBytes = 12;
inline constexpr std::size_t kXaesNonceBytes = 24;
inline constexpr std::size_t kSealOverhead = kXaesNonceBytes + kTagBytes;

// The one error of everything that opens.
Error decrypt_failed();

// Additional data as a list of fields: each is length-prefixed and tagged with its number, so that
// no two different lists give the same bytes ("ab"+"c" is not "a"+"bc").
class Tlv {
 public:
  explicit Tlv(std::string_view label);  // What this list is for: "falaj/v1/data-key".
  Tlv& add(std::string_view field) &;
  Tlv&& add(std::string_view field) &&;
  Tlv& add(std::uint64_t number) &;
  Tlv&& add(std::uint64_t number) &&;
  const std::string& str() const { return bytes_; }

 private:
  void field(char type, std::string_view bytes);
  std::string bytes_;
};

// XAES-256-GCM (C2SP): a fresh random 24-byte nonce for each message, safe for 2^80 of them under
// one key. `key` has 32 bytes, otherwise the process stops. Sealed: nonce ‖ ciphertext ‖ tag.
// Thread-safe; about a microsecond plus 0.3 ns a byte.
std::string seal(const SecretBytes& key, std::string_view plaintext, std::string_view aad,
                 Random& random = system_random());
Result<std::string> open(const SecretBytes& key, std::string_view sealed, std::string_view aad);
// The same for a plaintext that is itself a secret.
Result<SecretBytes> open_secret(const SecretBytes& key, std::string_view sealed,
                                std::string_view aad);

// The same without allocation, for pages and other fixed places. `nonce` is 24 fresh random bytes;
// `out` takes plaintext.size() bytes (it may be the plaintext itself), `tag` 16.
void seal_in_place(const SecretBytes& key, const unsigned char* nonce, std::string_view aad,
                   std::string_view plaintext, unsigned char* out, unsigned char* tag);
// `out` takes ciphertext.size() bytes and may be the ciphertext itself. On failure it is wiped.
Status open_in_place(const SecretBytes& key, const unsigned char* nonce, std::string_view aad,
                     std::string_view ciphertext, const unsigned char* tag, unsigned char* out);

class Aes256Gcm;

// Seals many messages under one key as seal() would, for open() to open: XAES makes a message's key
// from the first half of its nonce, so the messages of one sealer share a fresh random half and its
// key, and count up the other from a random start. A fifth of seal()'s cost. Not thread-safe.
class ManySealer {
 public:
  explicit ManySealer(const SecretBytes& key, Random& random = system_random());
  ~ManySealer();
  ManySealer(const ManySealer&) = delete;
  ManySealer& operator=(const ManySealer&) = delete;

  // Appends nonce ‖ ciphertext ‖ tag to `out`. No two calls use one nonce.
  void seal(std::string_view plaintext, std::string_view aad, std::string& out);

 private:
  unsigned char nonce_[kXaesNonceBytes];  // Of the next message.
  std::unique_ptr<Aes256Gcm> cipher_;
};

// AES-256-GCM with its key schedule made once, for many messages whose nonces never repeat under
// the key: the caller counts them. Not thread-safe: one for each stream or thread.
class Aes256Gcm {
 public:
  // `key` has 32 bytes, otherwise the process stops. One object seals or opens, never both.
  enum class Use : std::uint8_t { kSeal, kOpen };
  Aes256Gcm(std::string_view key, Use use);
  ~Aes256Gcm();
  Aes256Gcm(Aes256Gcm&&) noexcept;
  Aes256Gcm& operator=(Aes256Gcm&&) noexcept;

  // `nonce` is 12 bytes. Writes plaintext.size() + 16 bytes: ciphertext ‖ tag.
  void seal(const unsigned char* nonce, std::string_view aad, std::string_view plaintext,
            unsigned char* out);
  // `sealed` is ciphertext ‖ tag; writes sealed.size() - 16 bytes. On failure they are wiped.
  Status open(const unsigned char* nonce, std::string_view aad, std::string_view sealed,
              unsigned char* out);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace falaj::crypto
