#include "security/signing/model_trust.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "storage/open.h"

namespace falaj::security {
namespace {

class ModelTrustTest : public ::testing::Test {
 protected:
  ModelTrustTest() { EXPECT_TRUE(store_->migrate({kSigningMigration}).ok()); }
  std::unique_ptr<ModelTrust> open(const std::string& signers = "") {
    return ModelTrust::open(*store_, key_, signers).value();
  }
  static ModelStatement statement() {
    return {"fraud", {{"model.onnx", sha256_hex("graph")}}, "payments", "ae", "fraud-prevention"};
  }
  static std::string reason(const Status& status) {
    if (status.ok()) return "admitted";
    EXPECT_EQ(status.error().id, ErrorId::kModelSignatureInvalid);
    return status.error().message;
  }

  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  crypto::SecretBytes key_{std::string_view("01234567890123456789012345678901")};
};

TEST_F(ModelTrustTest, keeps_its_key_over_restarts) {
  const std::string bundle = open()->sign(statement()).value();
  EXPECT_TRUE(open()->admit(statement(), bundle).ok());
  EXPECT_EQ(open()->fingerprint(), open()->fingerprint());
  const crypto::SecretBytes other{std::string_view("another-key-another-key-another-")};
  EXPECT_EQ(ModelTrust::open(*store_, other, "").error().id, ErrorId::kDecryptFailed);
}

TEST_F(ModelTrustTest, admits_only_what_agrees_in_everything) {
  const auto trust = open();
  const std::string bundle = trust->sign(statement()).value();
  const auto with = [&](const std::function<void(ModelStatement&)>& change) {
    ModelStatement expected = statement();
    change(expected);
    return reason(trust->admit(expected, bundle));
  };
  EXPECT_EQ(with([](ModelStatement&) {}), "admitted");
  EXPECT_NE(with([](auto& s) { s.zone = "eu"; }).find("zone"), std::string::npos);
  EXPECT_NE(with([](auto& s) { s.purpose = "marketing"; }).find("purpose"), std::string::npos);
  EXPECT_NE(with([](auto& s) { s.project = "other"; }).find("project"), std::string::npos);
  EXPECT_NE(with([](auto& s) { s.model = "churn"; }).find("model"), std::string::npos);
  EXPECT_NE(with([](auto& s) { s.files[0].sha256 = sha256_hex("x"); }), "admitted");
  EXPECT_NE(reason(trust->admit(statement(), "")).find("carries no signature"), std::string::npos);
}

TEST_F(ModelTrustTest, a_bundle_of_another_server_is_not_its_own) {
  const auto other = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  const auto trust = open(other.public_key().to_pem());
  const std::string bundle = sign_model(statement(), other).value();
  EXPECT_NE(reason(trust->admit(statement(), bundle)), "admitted");
  // As a model from elsewhere it is welcome.
  EXPECT_EQ(trust->admit_foreign(statement(), bundle).value(), other.public_key().fingerprint());
}

TEST_F(ModelTrustTest, who_must_sign_is_for_the_policy_to_say) {
  const auto expected = statement();
  EXPECT_EQ(open()->admit_foreign(expected, "").value(), "");
  const auto a = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  const auto b = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  const auto trust = open(a.public_key().to_pem() + b.public_key().to_pem());
  EXPECT_FALSE(trust->admit_foreign(expected, "").ok());
  EXPECT_TRUE(trust->admit_foreign(expected, sign_model(statement(), b).value()).ok());
  const auto c = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  EXPECT_FALSE(trust->admit_foreign(expected, sign_model(statement(), c).value()).ok());
  EXPECT_FALSE(open()->admit_foreign(expected, sign_model(statement(), c).value()).ok());
}

TEST_F(ModelTrustTest, a_bundle_for_something_else_is_not_for_this) {
  const auto signer = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  const auto trust = open(signer.public_key().to_pem());
  const auto signed_for = [&](const std::function<void(ModelStatement&)>& change) {
    ModelStatement other = statement();
    change(other);
    const auto admitted = trust->admit_foreign(statement(), sign_model(other, signer).value());
    return admitted.ok() ? "admitted" : reason(admitted.error());
  };
  EXPECT_EQ(signed_for([](ModelStatement&) {}), "admitted");
  EXPECT_NE(signed_for([](auto& s) { s.model = "churn"; }).find("model 'churn'"),
            std::string::npos);
  EXPECT_NE(signed_for([](auto& s) { s.purpose = "marketing"; }).find("purpose 'marketing'"),
            std::string::npos);
  EXPECT_NE(signed_for([](auto& s) { s.zone = "eu"; }).find("zone 'eu'"), std::string::npos);
  EXPECT_NE(signed_for([](auto& s) { s.project = "hr"; }).find("project 'hr'"), std::string::npos);
  // Another tool names a folder and knows no purpose.
  const auto folder = [](ModelStatement& s) { s = {"folder", s.files, "", "", ""}; };
  EXPECT_EQ(signed_for(folder), "admitted");
}

TEST_F(ModelTrustTest, a_signer_that_cannot_be_read_stops_the_start) {
  EXPECT_FALSE(ModelTrust::open(*store_, key_, "-----BEGIN PUBLIC KEY-----\nAAAA\n").ok());
  const auto ed = crypto::PrivateKey::generate(crypto::KeyType::kEd25519).value();
  EXPECT_FALSE(ModelTrust::open(*store_, key_, ed.public_key().to_pem()).ok());
}

}  // namespace
}  // namespace falaj::security
