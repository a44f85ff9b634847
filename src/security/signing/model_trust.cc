#include "security/signing/model_trust.h"

#include <optional>

#include "crypto/aead.h"
#include "crypto/base64.h"

namespace falaj::security {
namespace {

const std::string& key_place() {
  static const std::string place = crypto::Tlv("falaj/v1/model-signing-key").str();
  return place;
}

Result<std::optional<std::string>> stored_key(storage::SqlTransaction& tx) {
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT sealed FROM signing_keys WHERE name = 'models'"));
  if (rows.empty()) return std::optional<std::string>{};
  return std::optional<std::string>(rows.front().text(0));
}

Result<crypto::PrivateKey> opened(const std::string& text, const crypto::SecretBytes& sealing_key) {
  const std::string sealed = FALAJ_TRY(crypto::from_base64(text));
  const crypto::SecretBytes pem = FALAJ_TRY(crypto::open_secret(sealing_key, sealed, key_place()));
  return crypto::PrivateKey::from_pem(pem.view());
}

Result<crypto::PrivateKey> made(storage::SqlTransaction& tx,
                                const crypto::SecretBytes& sealing_key) {
  crypto::PrivateKey key = FALAJ_TRY(crypto::PrivateKey::generate(crypto::KeyType::kP256));
  std::string pem = key.to_pem();
  const std::string sealed = crypto::seal(sealing_key, pem, key_place());
  crypto::wipe(pem);
  FALAJ_TRY(tx.execute("INSERT INTO signing_keys (name, sealed) VALUES ('models', ?)",
                       {crypto::base64(sealed)}));
  return key;
}

Result<std::vector<crypto::PublicKey>> read_signers(std::string_view pem) {
  constexpr std::string_view kEnd = "-----END PUBLIC KEY-----";
  std::vector<crypto::PublicKey> keys;
  while (pem.find("-----BEGIN") != std::string_view::npos) {
    const std::size_t end = pem.find(kEnd);
    const std::size_t size = end == std::string_view::npos ? pem.size() : end + kEnd.size();
    Result<crypto::PublicKey> key = crypto::PublicKey::from_pem(pem.substr(0, size));
    if (!key.ok() || key->type() != crypto::KeyType::kP256) {
      return Error{Code::kInvalidArgument, "accepted model signer " +
                                               std::to_string(keys.size() + 1) +
                                               " is no public P-256 key in PEM"};
    }
    keys.push_back(*std::move(key));
    pem.remove_prefix(size);
  }
  return keys;
}

Error differs(std::string_view what, const std::string& expected, const std::string& found) {
  return Error{ErrorId::kModelSignatureInvalid, "the model was signed for the " +
                                                    std::string(what) + " '" + found +
                                                    "' and is asked for as '" + expected + "'"};
}

Status agree(const ModelStatement& is, const ModelStatement& expected) {
  if (is.model != expected.model) return differs("model", expected.model, is.model);
  if (is.project != expected.project) return differs("project", expected.project, is.project);
  if (is.zone != expected.zone) return differs("zone", expected.zone, is.zone);
  if (is.purpose != expected.purpose) return differs("purpose", expected.purpose, is.purpose);
  return {};
}

}  // namespace

const storage::Migration kSigningMigration{
    "security-signing-001",
    "CREATE TABLE signing_keys (name TEXT NOT NULL PRIMARY KEY, sealed TEXT NOT NULL)"
    " WITHOUT ROWID;"};

Result<std::unique_ptr<ModelTrust>> ModelTrust::open(storage::SqlStore& store,
                                                     const crypto::SecretBytes& sealing_key,
                                                     std::string_view signers) {
  std::vector<crypto::PublicKey> accepted = FALAJ_TRY(read_signers(signers));
  std::optional<crypto::PrivateKey> key;
  FALAJ_TRY(store.write([&](storage::SqlTransaction& tx) -> Status {
    const std::optional<std::string> text = FALAJ_TRY(stored_key(tx));
    key = text ? FALAJ_TRY(opened(*text, sealing_key)) : FALAJ_TRY(made(tx, sealing_key));
    return {};
  }));
  return std::unique_ptr<ModelTrust>(new ModelTrust(*std::move(key), std::move(accepted)));
}

Result<std::string> ModelTrust::sign(const ModelStatement& statement) const {
  return sign_model(statement, key_);
}

Status ModelTrust::admit(const ModelStatement& expected, std::string_view bundle) const {
  if (bundle.empty()) {
    return Error{ErrorId::kModelSignatureInvalid, "the model version carries no signature"};
  }
  const SignedModel found = FALAJ_TRY(verify_model(bundle, own_));
  FALAJ_TRY(check_files(found.statement, expected.files));
  return agree(found.statement, expected);
}

Result<std::string> ModelTrust::admit_foreign(const ModelStatement& expected,
                                              std::string_view bundle) const {
  if (bundle.empty() && signers_.empty()) return std::string();
  if (bundle.empty()) {
    return Error{ErrorId::kModelSignatureInvalid,
                 "the model carries no signature, and security.model_signers names who must sign"};
  }
  const SignedModel found = FALAJ_TRY(verify_model(bundle, signers_));
  const ModelStatement& is = found.statement;
  FALAJ_TRY(check_files(is, expected.files));
  if (!is.project.empty() || !is.zone.empty() || !is.purpose.empty()) {
    FALAJ_TRY(agree(is, expected));
  }
  return found.signer;
}

}  // namespace falaj::security
