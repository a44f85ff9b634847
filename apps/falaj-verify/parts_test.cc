// Parts of a bundle against the log: model cards, the key inventory, the zone ledger.
#include "parts.h"

#include <gtest/gtest.h>

#include "pieces_test.h"
#include "security/signing/model_signature.h"

namespace falaj_verify {
namespace {

// The insider signs whatever he likes; but what the log registered is under heads that others keep.
class CardsInABundle : public testing::Test {
 protected:
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '"' ? std::string("\\\"") : std::string(1, c);
    return out;
  }

  bool holds(const std::string& registered, const std::string& onnx, const Checks& checks = {}) {
    Pieces pieces = honest_pieces();
    pieces.entries.push_back(event_line(kEntries + 1, 30,
                                        {"model.register", "ModelVersion/payments/fraud/1",
                                         "{\"bundle_sha256\":\"" + registered + "\"}"}));
    pieces.head_sizes.back() = kEntries + 1;
    std::string pem = signer_.public_key().to_pem();
    for (std::size_t at = 0; (at = pem.find('\n', at)) != std::string::npos;) {
      pem.replace(at, 1, "\\n");
    }
    pieces.parts["models/cards.json"] = "{\"signer\":\"" + pem +
                                        "\",\"models\":[{\"project\":\"payments\",\"model\":"
                                        "\"fraud\",\"version\":1,\"zone\":\"ae\","
                                        "\"native\":\"\",\"onnx\":\"" +
                                        onnx + "\",\"bundle_sha256\":\"" + hash(bundle_) +
                                        "\",\"bundle\":\"" + escaped(bundle_) + "\"}]}";
    Trust trust = trust_of(world_);
    trust.witnesses.clear();
    return check_bundle(build(pieces, world_.log, nullptr), trust, checks).holds();
  }

  static std::string hash(const std::string& text) { return to_hex(sha256(text)); }

  const World world_;
  const std::string onnx_ = hash("onnx");
  fc::PrivateKey signer_ = fc::PrivateKey::generate(fc::KeyType::kP256).value();
  const std::string bundle_ =
      falaj::security::sign_model({"payments.fraud", {{"model.onnx", onnx_}}, "payments", "ae", ""},
                                  signer_)
          .value();
};

TEST_F(CardsInABundle, are_signed_and_registered_in_the_log) {
  EXPECT_TRUE(holds(hash(bundle_), onnx_));
  EXPECT_FALSE(holds(hash("another signature"), onnx_));
  EXPECT_FALSE(holds(hash(bundle_), hash("another file")));
  Checks blind;
  blind.model_cards = false;
  EXPECT_TRUE(holds(hash("another signature"), onnx_, blind)) << "nothing else would notice";
}

// A log with the receipt of a destroyed key and a rotation, beside an inventory.
bool keys_hold(const std::string& inventory, const Checks& checks = {}) {
  const World world;
  Pieces pieces = honest_pieces();
  const auto add = [&](const std::string& action, const std::string& detail) {
    pieces.entries.push_back(event_line(pieces.entries.size() + 1, 30,
                                        {action, "Key/payments/FeatureView/act", detail}));
  };
  add("key.shred", R"({"rings":["aa"]})");
  add("key.rotate", R"({"key":"bb","version":3})");
  pieces.head_sizes.back() = pieces.entries.size();
  pieces.parts["keys/inventory.json"] = inventory;
  Trust trust = trust_of(world);
  trust.witnesses.clear();
  return check_bundle(build(pieces, world.log, nullptr), trust, checks).holds();
}

TEST(KeysInABundle, are_as_the_log_says_they_were_left) {
  const std::string gone = R"({"id":"aa","level":"object","shredded":"2026-11-16T08:00:00Z"})";
  const std::string lives = R"({"id":"aa","level":"object","project":"p","object":"o"})";
  EXPECT_TRUE(keys_hold(R"({"keys":[)" + gone + R"(,{"id":"bb","version":3}]})"));
  EXPECT_TRUE(keys_hold(R"({"keys":[{"id":"cc"}]})"));
  EXPECT_FALSE(keys_hold(R"({"keys":[)" + lives + "]}"));
  EXPECT_FALSE(keys_hold(R"({"keys":[{"id":"bb","version":2}]})"));
  EXPECT_FALSE(keys_hold(R"({"keys":{}})"));
  // Taken before the receipt was entered: the key still lived then.
  const std::string before = std::to_string(kEntries);
  EXPECT_TRUE(keys_hold(R"({"entries":)" + before + R"(,"keys":[)" + lives + "]}"));
  Checks blind;
  blind.key_receipts = false;
  EXPECT_TRUE(keys_hold(R"({"keys":[)" + lives + "]}", blind)) << "nothing else would notice";
}

// A log that uses a transfer once more behind the evidence, beside a ledger.
std::string ledger_fails(const std::string& ledger, std::size_t approved_at = 3) {
  const World world;
  Pieces pieces = honest_pieces();
  pieces.entries.push_back(event_line(kEntries + 1, 30, honest_events().at(7)));
  if (approved_at != 3) {
    pieces.entries[2] = entry_line(3, 3, "Model/payments/m0");
    pieces.entries[approved_at - 1] =
        event_line(approved_at, static_cast<std::int64_t>(approved_at), honest_events().at(3));
  }
  pieces.head_sizes.back() = pieces.entries.size();
  pieces.parts["zones/ledger.json"] = ledger;
  const Trust trust{trust_of(world).log, {}, {}};
  for (const Finding& finding : check_bundle(build(pieces, world.log, nullptr), trust).findings) {
    if (!finding.holds) return finding.text;
  }
  return "";
}

TEST(LedgerInABundle, counts_what_the_log_says_crossed_up_to_there) {
  const std::string honest = kLedgerText;
  const auto with = [&](const std::string& text, const std::string& becomes) {
    std::string changed = honest;
    return changed.replace(changed.find(text), text.size(), becomes);
  };
  EXPECT_EQ(ledger_fails(honest), "");
  EXPECT_EQ(ledger_fails(with("\"bytes\":90", "\"bytes\":91")), "") << "a flow that goes on";
  EXPECT_NE(ledger_fails(with("\"bytes\":90", "\"bytes\":89")), "");
  EXPECT_NE(ledger_fails(with("\"flows\":1,", "\"flows\":0,")), "");
  // It knows of the last use too, and does not count it.
  EXPECT_NE(ledger_fails(with("\"entries\":16", "\"entries\":25")).find("more crossed by"),
            std::string::npos);
  EXPECT_NE(ledger_fails(with("\"entries\":16,", "")).find("more crossed by"), std::string::npos);
  EXPECT_NE(ledger_fails(with("\"bytes\":90", "\"bytes\":-90")), "");
  EXPECT_NE(ledger_fails(with("\"to\":\"ae\"", "\"to\":\"\"")).find("without a zone"),
            std::string::npos);
  EXPECT_NE(ledger_fails(honest, 8).find("nobody had approved"), std::string::npos)
      << "approved after it was used";
}

}  // namespace
}  // namespace falaj_verify
