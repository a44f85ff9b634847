// security/signing/model_signature.h — OpenSSF Model Signing: a detached signature over the digest
// of every file of a model, in a Sigstore bundle that other tools verify too.
//
// Signed is an in-toto statement inside a DSSE envelope (ECDSA P-256, SHA-256). Beside the digests
// it says what Falaj checks at every load: project, model, zone and purpose. A bundle is foreign
// bytes until verify_model() has agreed; nothing in it chooses the key or the algorithm.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/signature.h"

namespace falaj::security {

struct FileDigest {
  std::string name;    // "model.onnx"; no folders.
  std::string sha256;  // Hex.
  auto operator<=>(const FileDigest&) const = default;
};

struct ModelStatement {
  std::string model;  // "payments.fraud"
  std::vector<FileDigest> files;
  // Empty when the bundle was made by another tool.
  std::string project;
  std::string zone;
  std::string purpose;
};

struct SignedModel {
  ModelStatement statement;
  std::string signer;  // Fingerprint of the key that verified it.
};

// The bundle as JSON text. kInvalidArgument for a key that is not P-256 or a statement without
// files.
Result<std::string> sign_model(const ModelStatement& statement, const crypto::PrivateKey& key);

// FJ-7061: not a bundle of this kind, no signature by one of `signers`, or a statement that does
// not hold together (repeated or nested file names, a subject that is not the files' digest).
Result<SignedModel> verify_model(std::string_view bundle,
                                 std::span<const crypto::PublicKey> signers);

// Exactly these files, each with exactly this digest: FJ-7061 names the first that differs, is
// missing or was added.
Status check_files(const ModelStatement& statement, std::span<const FileDigest> files);

}  // namespace falaj::security
