// crypto/pkcs11/token.h — AES keys that live in an HSM or smart card, by its PKCS#11 module.
//
// The module is opened at run time (its C ABI is fixed). One session, logged in for as long as the
// token is open; calls take turns and take as long as the device takes. A session that the device
// dropped is opened anew, once a call. Each is logged with the token's serial number. A wrong PIN
// is never tried twice: devices lock themselves.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/random.h"
#include "crypto/secret.h"

namespace falaj::crypto {

struct Pkcs11Options {
  std::string module;  // Path of the shared library; a program is trusted with what it loads.
  std::string token;   // Label.
  SecretBytes pin;
};

struct TokenKey {
  std::string id;     // CKA_ID.
  std::string label;  // CKA_LABEL.
};

// Thread-safe. Every failure of the device is FJ-7040 with what it said.
class Pkcs11Token {
 public:
  virtual ~Pkcs11Token() = default;

  // FJ-7040: no such module or token, wrong PIN, no AES-GCM.
  static Result<std::unique_ptr<Pkcs11Token>> open(Pkcs11Options options,
                                                   Random& random = system_random());

  // The AES keys whose label begins with `prefix`.
  virtual Result<std::vector<TokenKey>> keys(std::string_view prefix) = 0;
  // A new AES-256 key that stays in the device: sensitive, not extractable.
  virtual Status generate(const TokenKey& key) = 0;
  // AES-256-GCM: a random 12-byte nonce ‖ ciphertext ‖ tag. FJ-7041 when there is no such key.
  virtual Result<std::string> seal(const std::string& id, std::string_view plaintext,
                                   std::string_view aad) = 0;
  // FJ-7043 when it does not open.
  virtual Result<SecretBytes> open_sealed(const std::string& id, std::string_view sealed,
                                          std::string_view aad) = 0;
  virtual Status destroy(const std::string& id) = 0;
};

}  // namespace falaj::crypto
