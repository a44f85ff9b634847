// Cards as the server writes them, signed by the server's own code, and what must not pass.
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/json.h"
#include "parts.h"
#include "security/signing/model_signature.h"

namespace falaj_verify {
namespace {

namespace fc = falaj::crypto;

class ModelCards : public testing::Test {
 protected:
  ModelCards() { sign(statement_); }

  void sign(const falaj::security::ModelStatement& statement) {
    const std::string bundle = falaj::security::sign_model(statement, key_).value();
    card_["bundle"] = bundle;
    card_["bundle_sha256"] = falaj::sha256_hex(bundle);
    card_["onnx"] = onnx_;
    card_["native"] = native_;
    card_["project"] = "payments";
    card_["zone"] = "ae";
  }

  std::string check() const { return check(key_.public_key().to_pem()); }
  std::string check(const std::string& signer) const {
    return check_model_card(parse_json(falaj::to_json(card_)).value(), signer);
  }

  const std::string onnx_ = falaj::sha256_hex("onnx");
  const std::string native_ = falaj::sha256_hex("native");
  const falaj::security::ModelStatement statement_{
      "payments.fraud", {{"model.onnx", onnx_}, {"model.txt", native_}}, "payments", "ae", "fraud"};
  fc::PrivateKey key_ = fc::PrivateKey::generate(fc::KeyType::kP256).value();
  falaj::Value card_;
};

TEST_F(ModelCards, of_an_honest_server_hold) { EXPECT_EQ(check(), ""); }

TEST_F(ModelCards, of_an_imported_model_have_one_file) {
  sign({"payments.fraud", {{"model.onnx", onnx_}}, "payments", "ae", "fraud"});
  EXPECT_NE(check(), "");
  card_["native"] = "";
  EXPECT_EQ(check(), "");
}

TEST_F(ModelCards, that_say_something_else_than_was_signed_do_not_hold) {
  const falaj::Value honest = card_;
  for (const char* member : {"onnx", "native", "project", "zone", "bundle_sha256", "bundle"}) {
    card_ = honest;
    card_[member] = falaj::sha256_hex("other");
    EXPECT_NE(check(), "") << member;
    card_[member] = "";
    EXPECT_NE(check(), "") << member;
  }
}

TEST_F(ModelCards, signed_by_another_key_or_by_no_key_do_not_hold) {
  EXPECT_NE(check(fc::PrivateKey::generate(fc::KeyType::kP256)->public_key().to_pem()), "");
  EXPECT_NE(check(fc::PrivateKey::generate(fc::KeyType::kEd25519)->public_key().to_pem()), "");
  EXPECT_NE(check(""), "");
  EXPECT_NE(check("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"), "");
}

TEST_F(ModelCards, whose_statement_was_changed_anywhere_do_not_hold) {
  const std::string bundle = card_.text("bundle");
  const std::size_t payload = bundle.find("\"payload\":\"") + 11;
  const std::size_t end = bundle.find('"', payload);
  for (std::size_t at = payload; at < end; at += 7) {
    std::string changed = bundle;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    card_["bundle"] = changed;
    card_["bundle_sha256"] = falaj::sha256_hex(changed);
    EXPECT_NE(check(), "") << at;
  }
}

}  // namespace
}  // namespace falaj_verify
