// security/signing/model_trust.h — which models this server may open: its own key signs what it
// registers, and nothing is parsed before digest, signature, project, zone and purpose agree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crypto/secret.h"
#include "security/signing/model_signature.h"
#include "storage/sql.h"

namespace falaj::security {

extern const storage::Migration kSigningMigration;

// Immutable once open; thread-safe.
class ModelTrust {
 public:
  // Takes this server's signing key from the store, or makes one on the first start, sealed under
  // `sealing_key` (32 bytes). `signers` is PEM text with the public keys (P-256) of others whose
  // signatures are accepted on models from elsewhere; may be empty. FJ-7043 when the stored key
  // does not open, kInvalidArgument naming a signer that cannot be read.
  static Result<std::unique_ptr<ModelTrust>> open(storage::SqlStore& store,
                                                  const crypto::SecretBytes& sealing_key,
                                                  std::string_view signers);

  // The bundle that goes with a version from its registration on.
  Result<std::string> sign(const ModelStatement& statement) const;

  // At every load, before parsing: the bundle is this server's, over exactly these files, for this
  // model, project, zone and purpose. FJ-7061 says which of them differs.
  Status admit(const ModelStatement& expected, std::string_view bundle) const;

  // A model from elsewhere: FJ-7061 unless one of the accepted signers signed exactly these files.
  // Where the statement names a project, zone or purpose (another Falaj made it), these and the
  // model must be the expected ones; the name that other tools put down is that of a folder.
  // Without any accepted signer a missing bundle ("") is fine; a bundle that is there must verify.
  // Returns the signer's fingerprint, "" when nobody had to sign.
  Result<std::string> admit_foreign(const ModelStatement& expected, std::string_view bundle) const;

  // Of this server's own key, for other tools: PEM and name.
  std::string public_key() const { return key_.public_key().to_pem(); }
  std::string fingerprint() const { return key_.public_key().fingerprint(); }

 private:
  ModelTrust(crypto::PrivateKey key, std::vector<crypto::PublicKey> signers)
      : key_(std::move(key)), own_{key_.public_key()}, signers_(std::move(signers)) {}
  crypto::PrivateKey key_;
  std::vector<crypto::PublicKey> own_;
  std::vector<crypto::PublicKey> signers_;
};

}  // namespace falaj::security
