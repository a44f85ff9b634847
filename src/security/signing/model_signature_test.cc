#include "security/signing/model_signature.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/json.h"
#include "crypto/base64.h"

namespace falaj::security {
namespace {

class ModelSignatureTest : public ::testing::Test {
 protected:
  ModelStatement statement() const {
    return {"payments.fraud",
            {{"model.txt", sha256_hex("trees")}, {"model.onnx", sha256_hex("graph")}},
            "payments",
            "ae-fin",
            "fraud-prevention"};
  }
  std::string signed_bundle() const { return sign_model(statement(), key_).value(); }
  std::string why(const std::string& bundle) const {
    const auto verified = verify_model(bundle, signers_);
    if (verified.ok()) return "accepted";
    EXPECT_EQ(verified.error().id, ErrorId::kModelSignatureInvalid);
    return verified.error().message;
  }
  // The bundle of another statement text under our own key.
  std::string bundle_of(const std::string& payload) const {
    Value bundle = parse_json(signed_bundle()).value();
    const std::string type = "application/vnd.in-toto+json";
    const std::string message = "DSSEv1 " + std::to_string(type.size()) + " " + type + " " +
                                std::to_string(payload.size()) + " " + payload;
    Value one;
    one["sig"] = crypto::base64(key_.sign(crypto::Scheme::kEcdsaP256Der, message).value());
    bundle["dsseEnvelope"]["payload"] = crypto::base64(payload);
    bundle["dsseEnvelope"]["signatures"] = Value(Value::Array{one});
    return to_json(bundle);
  }
  std::string payload() const {
    const Value bundle = parse_json(signed_bundle()).value();
    return crypto::from_base64(bundle["dsseEnvelope"].text("payload")).value();
  }

  crypto::PrivateKey key_ = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  std::vector<crypto::PublicKey> signers_{key_.public_key()};
};

TEST_F(ModelSignatureTest, what_was_signed_comes_back) {
  const auto verified = verify_model(signed_bundle(), signers_);
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_EQ(verified->statement.model, "payments.fraud");
  EXPECT_EQ(verified->statement.zone, "ae-fin");
  EXPECT_EQ(verified->statement.purpose, "fraud-prevention");
  EXPECT_EQ(verified->signer, key_.public_key().fingerprint());
  EXPECT_TRUE(check_files(verified->statement, statement().files).ok());
}

TEST_F(ModelSignatureTest, another_signer_is_refused) {
  const auto other = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  EXPECT_NE(why(sign_model(statement(), other).value()).find("no accepted signer"),
            std::string::npos);
}

TEST_F(ModelSignatureTest, every_flipped_character_is_refused) {
  const std::string bundle = signed_bundle();
  const auto at = bundle.find("\"payload\":\"") + 11;
  for (std::size_t i = at; i < at + 200; i += 3) {
    std::string changed = bundle;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(why(changed), "accepted") << i;
  }
}

TEST_F(ModelSignatureTest, files_must_be_exactly_those_signed) {
  std::vector<FileDigest> files = statement().files;
  files[0].sha256 = sha256_hex("other trees");
  EXPECT_FALSE(check_files(statement(), files).ok());
  files = statement().files;
  files.push_back({"extra.bin", sha256_hex("x")});
  EXPECT_FALSE(check_files(statement(), files).ok());
  files = {statement().files[0]};
  EXPECT_FALSE(check_files(statement(), files).ok());
}

TEST_F(ModelSignatureTest, statements_that_do_not_hold_together_are_refused_though_signed) {
  EXPECT_EQ(why(bundle_of(payload())), "accepted");
  const auto changed = [&](const std::function<void(Value&)>& change) {
    Value value = parse_json(payload()).value();
    change(value);
    return why(bundle_of(to_json(value)));
  };
  EXPECT_NE(changed([](Value& v) {
              v["predicateType"] = "https://slsa.dev/provenance/v1";
            }).find("not about a model"),
            std::string::npos);
  EXPECT_NE(changed([](Value& v) {
              v["predicate"]["resources"].as_array()[0]["name"] = "../model.onnx";
            }).find("not a plain file name"),
            std::string::npos);
  EXPECT_NE(changed([](Value& v) {
              v["predicate"]["resources"].as_array()[0]["digest"] = std::string(64, '0');
            }).find("subject"),
            std::string::npos);
  EXPECT_NE(changed([](Value& v) {
              auto& all = v["predicate"]["resources"].as_array();
              all.push_back(all[0]);
            }).find("twice"),
            std::string::npos);
  EXPECT_NE(changed([](Value& v) { v["predicate"]["serialization"]["hash_type"] = "md5"; }),
            "accepted");
}

TEST_F(ModelSignatureTest, what_is_no_bundle_is_refused) {
  EXPECT_NE(why(""), "accepted");
  EXPECT_NE(why("{}"), "accepted");
  EXPECT_NE(why("[]"), "accepted");
  EXPECT_NE(why(std::string(2 << 20, ' ')).find("1 MiB"), std::string::npos);
}

TEST_F(ModelSignatureTest, only_p256_keys_sign) {
  const auto ed25519 = crypto::PrivateKey::generate(crypto::KeyType::kEd25519).value();
  EXPECT_FALSE(sign_model(statement(), ed25519).ok());
  EXPECT_FALSE(sign_model({"m", {}, "", "", ""}, key_).ok());
}

}  // namespace
}  // namespace falaj::security
