// security/keys/key_vault.h — where the root keys live: the port to a sealed file or an HSM.
//
// A vault holds one root key per zone (and one for the machine itself, of the unlabelled zone) and
// never gives it out: it wraps and unwraps the keys below. A zone's newest root wraps; older ones
// still unwrap until they are destroyed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/zone.h"
#include "crypto/kdf.h"
#include "crypto/random.h"
#include "crypto/secret.h"

namespace falaj::security::keys {

struct RootKey {
  std::string id;  // Random; tells nothing.
  Zone zone;       // Unlabelled: the machine's own, for the stores themselves.
  Timestamp created{};
};

// Thread-safe. Calls may block on a file or a device: never on an event-loop thread.
// FJ-7040 whenever the vault cannot be used (locked, wrong passphrase or PIN, device gone).
class KeyVault {
 public:
  virtual ~KeyVault() = default;
  // "file", "pkcs11": for status and messages.
  virtual std::string name() const = 0;
  // Oldest first.
  virtual Result<std::vector<RootKey>> roots() const = 0;
  // A further root for the zone, durable when it returns; from now on the newest.
  virtual Result<RootKey> create_root(const Zone& zone, Timestamp now) = 0;
  // `aad` must be the same when unwrapping. FJ-7041 when there is no such root.
  virtual Result<std::string> wrap(const std::string& root, const crypto::SecretBytes& key,
                                   std::string_view aad) const = 0;
  // FJ-7043 when it does not open.
  virtual Result<crypto::SecretBytes> unwrap(const std::string& root, std::string_view wrapped,
                                             std::string_view aad) const = 0;
  // For good: what only this root wraps is lost. FJ-7041 when there is no such root.
  virtual Status destroy_root(const std::string& root) = 0;
};

// How the sealed file is locked.
struct FileVaultOptions {
  std::string path;  // keys.sealed
  // The passphrase, or empty: a machine key of 32 random bytes in `machine_key_path`, made on first
  // use with mode 0600. Whoever has that file and the sealed file has the keys.
  crypto::SecretBytes passphrase;
  std::string machine_key_path;
  crypto::Argon2Cost cost;  // For a new file; an existing one names its own.
};

enum class IfMissing : std::uint8_t { kCreate, kRefuse };

// FJ-7040: wrong passphrase, damaged or missing file, machine key readable by others. Takes as long
// as Argon2id takes (about a second) when a passphrase is used.
Result<std::unique_ptr<KeyVault>> open_file_vault(FileVaultOptions options, IfMissing if_missing,
                                                  crypto::Random& random = crypto::system_random());

// An HSM or smart card by its PKCS#11 module. Root keys are AES-256 keys that cannot be taken out
// of the token (CKA_EXTRACTABLE false, CKA_SENSITIVE true), labelled "falaj-root".
struct Pkcs11VaultOptions {
  std::string module;  // Path of the shared library.
  std::string token;   // Label.
  crypto::SecretBytes pin;
};
// FJ-7040: no such module or token, wrong PIN, no AES-GCM.
Result<std::unique_ptr<KeyVault>> open_pkcs11_vault(
    Pkcs11VaultOptions options, crypto::Random& random = crypto::system_random());

}  // namespace falaj::security::keys
