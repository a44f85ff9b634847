#include "security/signing/model_signature.h"

#include <algorithm>

#include "base/decode.h"
#include "base/hash.h"
#include "base/json.h"
#include "crypto/base64.h"

namespace falaj::security {
namespace {

constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr std::string_view kPredicateType = "https://model_signing/signature/v1.0";
constexpr std::size_t kBundleBytesMax = 1 << 20;
constexpr std::size_t kFilesMax = 10'000;

Error invalid(const std::string& why) {
  return Error{ErrorId::kModelSignatureInvalid, "the model's signature is refused: " + why};
}

// What is signed: lengths stand before the texts, so no two envelopes read alike.
std::string pre_authentication(std::string_view type, std::string_view payload) {
  std::string out = "DSSEv1 ";
  out += std::to_string(type.size()) + " ";
  out += type;
  out += " " + std::to_string(payload.size()) + " ";
  out += payload;
  return out;
}

std::string unhex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return out;
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The digest of the digests, in the order of the files' names.
std::string subject_digest(std::vector<FileDigest> files) {
  std::sort(files.begin(), files.end());
  std::string all;
  for (const FileDigest& file : files) all += unhex(file.sha256);
  return sha256_hex(all);
}

Value statement_value(const ModelStatement& statement) {
  Value subject;
  subject["name"] = statement.model;
  subject["digest"]["sha256"] = subject_digest(statement.files);
  std::vector<FileDigest> files = statement.files;
  std::sort(files.begin(), files.end());
  Value::Array resources;
  for (const FileDigest& file : files) {
    Value resource;
    resource["name"] = file.name;
    resource["algorithm"] = "sha256";
    resource["digest"] = file.sha256;
    resources.push_back(std::move(resource));
  }
  Value value;
  value["_type"] = kStatementType;
  value["subject"] = Value(Value::Array{std::move(subject)});
  value["predicateType"] = kPredicateType;
  Value& predicate = value["predicate"];
  predicate["resources"] = Value(std::move(resources));
  predicate["serialization"]["method"] = "files";
  predicate["serialization"]["hash_type"] = "sha256";
  predicate["serialization"]["allow_symlinks"] = false;
  predicate["serialization"]["ignore_paths"] = Value(Value::Array{});
  predicate["falaj"]["project"] = statement.project;
  predicate["falaj"]["zone"] = statement.zone;
  predicate["falaj"]["purpose"] = statement.purpose;
  return value;
}

Result<std::vector<FileDigest>> read_files(const Value& resources) {
  if (!resources.is_array() || resources.as_array().empty() ||
      resources.as_array().size() > kFilesMax) {
    return invalid("it names no files, or more than 10000");
  }
  std::vector<FileDigest> files;
  for (const Value& each : resources.as_array()) {
    FileDigest file{each.text("name"), each.text("digest")};
    if (each.text("algorithm") != "sha256" || !is_digest(file.sha256)) {
      return invalid("the digest of '" + file.name.substr(0, 64) + "' is not SHA-256");
    }
    if (file.name.empty() || file.name.size() > 255 || file.name == "." || file.name == ".." ||
        file.name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return invalid("'" + file.name.substr(0, 64) + "' is not a plain file name");
    }
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end());
  const auto twice =
      std::adjacent_find(files.begin(), files.end(),
                         [](const FileDigest& a, const FileDigest& b) { return a.name == b.name; });
  if (twice != files.end()) return invalid("it names '" + twice->name + "' twice");
  return files;
}

Result<ModelStatement> read_statement(std::string_view payload) {
  const Result<Value> parsed = parse_json(payload);
  if (!parsed.ok()) return invalid("its statement is not JSON");
  const Value& value = parsed.value();
  if (value.text("_type") != kStatementType || value.text("predicateType") != kPredicateType) {
    return invalid("its statement is not about a model");
  }
  const Value& serialization = value["predicate"]["serialization"];
  if (serialization.text("method") != "files" || serialization.text("hash_type") != "sha256") {
    return invalid("it is not made of SHA-256 digests of files");
  }
  if (!value["subject"].is_array() || value["subject"].as_array().size() != 1) {
    return invalid("it has not exactly one subject");
  }
  const Value& subject = value["subject"].as_array().front();
  ModelStatement statement;
  statement.model = subject.text("name");
  statement.files = FALAJ_TRY(read_files(value["predicate"]["resources"]));
  if (subject["digest"].text("sha256") != subject_digest(statement.files)) {
    return invalid("its subject is not the digest of its files");
  }
  const Value& ours = value["predicate"]["falaj"];
  statement.project = ours.text("project");
  statement.zone = ours.text("zone");
  statement.purpose = ours.text("purpose");
  return statement;
}

}  // namespace

Result<std::string> sign_model(const ModelStatement& statement, const crypto::PrivateKey& key) {
  if (statement.files.empty()) {
    return Error{Code::kInvalidArgument, "a model's signature needs at least one file"};
  }
  const std::string payload = to_json(statement_value(statement));
  const std::string signature =
      FALAJ_TRY(key.sign(crypto::Scheme::kEcdsaP256Der, pre_authentication(kPayloadType, payload)));
  Value one;
  one["sig"] = crypto::base64(signature);
  one["keyid"] = "";
  Value bundle;
  bundle["mediaType"] = kBundleType;
  Value& material = bundle["verificationMaterial"];
  material["publicKey"]["hint"] = sha256_hex(key.public_key().to_pem());
  material["tlogEntries"] = Value(Value::Array{});
  Value& envelope = bundle["dsseEnvelope"];
  envelope["payload"] = crypto::base64(payload);
  envelope["payloadType"] = kPayloadType;
  envelope["signatures"] = Value(Value::Array{std::move(one)});
  return to_json(bundle);
}

Result<SignedModel> verify_model(std::string_view bundle,
                                 std::span<const crypto::PublicKey> signers) {
  if (bundle.size() > kBundleBytesMax) return invalid("the bundle is larger than 1 MiB");
  const Result<Value> parsed = parse_json(bundle);
  if (!parsed.ok()) return invalid("the bundle is not JSON");
  const Value& envelope = parsed.value()["dsseEnvelope"];
  if (parsed->text("mediaType") != kBundleType || envelope.text("payloadType") != kPayloadType) {
    return invalid("it is no bundle of a signed statement");
  }
  const auto payload = crypto::from_base64(envelope.text("payload"));
  if (!payload.ok()) return invalid("its payload is not base64");
  const Value& signatures = envelope["signatures"];
  if (!signatures.is_array() || signatures.as_array().size() != 1) {
    return invalid("it has not exactly one signature");
  }
  const auto signature = crypto::from_base64(signatures.as_array().front().text("sig"));
  if (!signature.ok()) return invalid("its signature is not base64");
  const std::string message = pre_authentication(kPayloadType, *payload);
  for (const crypto::PublicKey& signer : signers) {
    // The scheme follows from our key, never from the bundle.
    if (signer.type() != crypto::KeyType::kP256) continue;
    if (!signer.verify(crypto::Scheme::kEcdsaP256Der, message, *signature)) continue;
    ModelStatement statement = FALAJ_TRY(read_statement(*payload));
    return SignedModel{std::move(statement), signer.fingerprint()};
  }
  return invalid("no accepted signer has made it");
}

Status check_files(const ModelStatement& statement, std::span<const FileDigest> files) {
  for (const FileDigest& file : files) {
    const auto found = std::find_if(statement.files.begin(), statement.files.end(),
                                    [&](const FileDigest& each) { return each.name == file.name; });
    if (found == statement.files.end()) return invalid("'" + file.name + "' was not signed");
    if (found->sha256 != file.sha256) {
      return invalid("'" + file.name + "' is not the file that was signed: its digest is " +
                     file.sha256.substr(0, 12) + "…, signed was " + found->sha256.substr(0, 12) +
                     "…");
    }
  }
  for (const FileDigest& each : statement.files) {
    const bool there = std::any_of(files.begin(), files.end(),
                                   [&](const FileDigest& file) { return file.name == each.name; });
    if (!there) return invalid("'" + each.name + "' was signed and is missing");
  }
  return {};
}

}  // namespace falaj::security
