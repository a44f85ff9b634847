// crypto/signature.h — signatures: Ed25519 (ours), ECDSA P-256 and RSA (what others sign with).
//
// A key knows its type; a scheme that does not fit the key never verifies, so no message can choose
// how it is checked. Keys are immutable: one key may be used by many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::crypto {

enum class KeyType : std::uint8_t { kEd25519, kP256, kRsa };

enum class Scheme : std::uint8_t {
  kEd25519,       // 64 bytes.
  kEcdsaP256Raw,  // SHA-256; r ‖ s, 64 bytes: JWT's ES256.
  kEcdsaP256Der,  // SHA-256; DER: what X.509 tools and model signing write.
  kRsaPkcs1,      // SHA-256: JWT's RS256.
  kRsaPss,        // SHA-256, salt as long as the hash: JWT's PS256.
};

class PublicKey {
 public:
  // SubjectPublicKeyInfo in PEM. kInvalidArgument for anything else, another curve, or RSA below
  // 2048 or above 8192 bits.
  static Result<PublicKey> from_pem(std::string_view pem);
  static Result<PublicKey> ed25519(std::string_view raw32);
  static Result<PublicKey> p256(std::string_view x, std::string_view y);  // Big-endian, 32 each.
  static Result<PublicKey> rsa(std::string_view n, std::string_view e);   // Big-endian.

  KeyType type() const { return type_; }
  std::string to_pem() const;
  // The 32 bytes of an Ed25519 key; "" for the others.
  std::string raw() const;
  // SHA-256 of the SubjectPublicKeyInfo, hex: a name for the key.
  std::string fingerprint() const;
  // False for a bad signature, a scheme that does not fit the key, and every other failure.
  [[nodiscard]] bool verify(Scheme scheme, std::string_view message,
                            std::string_view signature) const;

 private:
  friend class PrivateKey;
  PublicKey(std::shared_ptr<void> handle, KeyType type) : handle_(std::move(handle)), type_(type) {}
  static Result<PublicKey> checked(std::shared_ptr<void> handle);
  std::shared_ptr<void> handle_;  // EVP_PKEY
  KeyType type_;
};

class PrivateKey {
 public:
  // kEd25519 and kP256, and kRsa with 3072 bits (slow). From the system's randomness.
  static Result<PrivateKey> generate(KeyType type);
  static Result<PrivateKey> ed25519(std::string_view seed32);
  // PKCS#8 in PEM, not encrypted. The caller keeps the text secret and wipes it.
  static Result<PrivateKey> from_pem(std::string_view pem);

  KeyType type() const { return type_; }
  std::string to_pem() const;  // Secret.
  PublicKey public_key() const;
  // kInvalidArgument when the scheme does not fit the key.
  Result<std::string> sign(Scheme scheme, std::string_view message) const;

 private:
  PrivateKey(std::shared_ptr<void> handle, KeyType type)
      : handle_(std::move(handle)), type_(type) {}
  static Result<PrivateKey> checked(std::shared_ptr<void> handle);
  std::shared_ptr<void> handle_;  // EVP_PKEY
  KeyType type_;
};

}  // namespace falaj::crypto
