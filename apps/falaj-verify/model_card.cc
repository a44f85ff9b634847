#include "note.h"
#include "parts.h"

namespace falaj_verify {
namespace {

constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr std::string_view kPredicateType = "https://model_signing/signature/v1.0";

// The signed statement; absent when the bundle is of another kind or the signature is not good.
std::optional<Json> signed_statement(std::string_view text, std::string_view signer) {
  const auto bundle = parse_json(text);
  if (!bundle || bundle->text_at("mediaType") != kBundleType) return {};
  const Json& envelope = (*bundle)["dsseEnvelope"];
  const Json& signatures = envelope["signatures"];
  if (envelope.text_at("payloadType") != kPayloadType || signatures.items.size() != 1) return {};
  const auto payload = from_base64(envelope.text_at("payload"));
  const auto signature = from_base64(signatures.items[0].text_at("sig"));
  if (!payload || !signature) return {};
  const std::string message = "DSSEv1 " + std::to_string(kPayloadType.size()) + " " +
                              std::string(kPayloadType) + " " + std::to_string(payload->size()) +
                              " " + *payload;
  if (!p256_ok(signer, message, *signature)) return {};
  return parse_json(*payload);
}

// The digest of `name` among the signed files; "" when it was not signed.
std::string_view digest_of(const Json& resources, std::string_view name) {
  for (const Json& file : resources.items) {
    if (file.text_at("name") == name && file.text_at("algorithm") == "sha256") {
      return file.text_at("digest");
    }
  }
  return "";
}

}  // namespace

std::string check_model_card(const Json& card, std::string_view signer) {
  const std::string_view bundle = card.text_at("bundle");
  if (to_hex(sha256(bundle)) != card.text_at("bundle_sha256")) {
    return "its signature is not the one that was registered";
  }
  const auto statement = signed_statement(bundle, signer);
  if (!statement) return "it does not bear a valid signature of this server";
  if (statement->text_at("_type") != kStatementType ||
      statement->text_at("predicateType") != kPredicateType) {
    return "its signature is not about a model";
  }
  const Json& predicate = (*statement)["predicate"];
  const Json& resources = predicate["resources"];
  const std::string_view native = card.text_at("native");
  const std::size_t files = native.empty() ? 1 : 2;
  if (resources.items.size() != files || card.text_at("onnx").empty() ||
      digest_of(resources, "model.onnx") != card.text_at("onnx") ||
      (files == 2 && digest_of(resources, "model.txt") != native)) {
    return "the files that were signed are not those of the card";
  }
  const Json& ours = predicate["falaj"];
  if (ours.text_at("project") != card.text_at("project") ||
      ours.text_at("zone") != card.text_at("zone")) {
    return "it was signed for another project or zone";
  }
  return "";
}

}  // namespace falaj_verify
