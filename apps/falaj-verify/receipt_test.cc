// Receipts as the server gives them, signed by the server's own code, and what must not pass.
#include "receipt.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "security/audit/receipts.h"
#include "storage/testing/temp_folder.h"

namespace falaj_verify {
namespace {

namespace fs = falaj::security;

class ReceiptTest : public testing::Test {
 protected:
  ReceiptTest() {
    signer_ = fs::open_local_signer({folder_ / "signer", "falaj/test", {}}).value();
    const falaj::crypto::TreeHead tree{7, falaj::sha256("seven entries")};
    head_ = {tree, signer_->sign_head(tree, {}, clock_.now()).value()};
    trust_ = {*parse_key(falaj::crypto::to_text(signer_->info()->log_key)), {}, {}};
    facts_.project = "payments";
    facts_.deployment = "fraud";
    facts_.model = "fraud";
    facts_.version = 3;
    facts_.onnx = falaj::sha256_hex("model");
    facts_.asked = falaj::sha256("question");
    facts_.answered = falaj::sha256("answer");
    facts_.request_id = "r-1";
  }
  bool holds(const std::string& receipt, const Exchange& exchange = {}) const {
    return check_receipt(receipt, trust_, exchange).holds();
  }
  std::string receipt() const { return receipts_->issue(facts_).value(); }
  void SetUp() override {
    receipts_ = std::make_unique<fs::Receipts>(*signer_, clock_);
    ASSERT_TRUE(receipts_->tick(head_).ok());
  }

  falaj::storage::TempFolder folder_;
  falaj::FakeClock clock_;
  std::unique_ptr<fs::Signer> signer_;
  fs::SignedHead head_;
  Trust trust_;
  fs::ReceiptFacts facts_;
  std::unique_ptr<fs::Receipts> receipts_;
};

TEST_F(ReceiptTest, of_an_honest_server_holds_and_says_what_it_is_about) {
  const Report report = check_receipt(receipt(), trust_, {"question", "answer"});
  EXPECT_TRUE(report.holds());
  std::string said;
  for (const Finding& finding : report.findings) said += finding.text + "\n";
  EXPECT_NE(said.find("payments/fraud, model fraud version 3, onnx sha256 " + facts_.onnx),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("log of 7 entries, request r-1"), std::string::npos) << said;
  EXPECT_FALSE(holds(receipt(), {"another question", "answer"}));
  EXPECT_FALSE(holds(receipt(), {"question", "another answer"}));
  EXPECT_TRUE(holds(receipt() + "\n"));
}

TEST_F(ReceiptTest, with_one_flipped_bit_anywhere_does_not_hold) {
  const std::string honest = receipt();
  ASSERT_TRUE(holds(honest));
  for (std::size_t at = 0; at < honest.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = honest;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      ASSERT_FALSE(holds(changed)) << "byte " << at << " bit " << bit;
    }
  }
  for (std::size_t size = 0; size < honest.size(); ++size) {
    ASSERT_FALSE(holds(honest.substr(0, size))) << size;
  }
  EXPECT_FALSE(holds(honest + "x"));
}

TEST_F(ReceiptTest, parts_of_two_receipts_do_not_make_a_third) {
  const std::string first = receipt();
  fs::Receipts others(*signer_, clock_);
  ASSERT_TRUE(others.tick(head_).ok());
  facts_.version = 4;
  const std::string second = others.issue(facts_).value();
  ASSERT_TRUE(holds(second));
  const auto part = [](const std::string& text, int i) {
    const std::size_t a = text.find('.');
    const std::size_t b = text.find('.', a + 1);
    return i == 0 ? text.substr(0, a) : i == 1 ? text.substr(a + 1, b - a - 1) : text.substr(b + 1);
  };
  EXPECT_FALSE(holds(part(first, 0) + "." + part(second, 1) + "." + part(first, 2)));
  EXPECT_FALSE(holds(part(second, 0) + "." + part(first, 1) + "." + part(first, 2)));
  const std::string certificate = part(first, 1);
  EXPECT_FALSE(holds(part(first, 0) + "." + certificate + "." + certificate));
  EXPECT_FALSE(holds(certificate + "." + certificate + "." + part(first, 2)));
}

TEST_F(ReceiptTest, of_another_log_does_not_hold) {
  const auto other = fs::open_local_signer({folder_ / "other", "falaj/test", {}}).value();
  fs::Receipts forged(*other, clock_);
  ASSERT_TRUE(
      forged.tick({head_.head, other->sign_head(head_.head, {}, clock_.now()).value()}).ok());
  EXPECT_FALSE(holds(forged.issue(facts_).value()));
}

TEST_F(ReceiptTest, is_signed_by_a_key_that_lives_an_hour_and_is_renewed_in_time) {
  const std::string first = receipt();
  clock_.advance(falaj::Duration::minutes(20));
  ASSERT_TRUE(receipts_->tick(head_).ok());
  const auto certificate = [](const std::string& text) {
    return text.substr(text.find('.'), text.rfind('.') - text.find('.'));
  };
  EXPECT_EQ(certificate(receipt()), certificate(first));
  clock_.advance(falaj::Duration::minutes(20));
  ASSERT_TRUE(receipts_->tick(head_).ok());
  EXPECT_NE(certificate(receipt()), certificate(first));
  EXPECT_TRUE(holds(first)) << "what was given stays good";
  clock_.advance(falaj::Duration::hours(2));
  EXPECT_EQ(receipts_->issue(facts_).error().id, falaj::ErrorId::kSignerUnavailable);
  EXPECT_FALSE(receipts_->ready().ok());
}

TEST_F(ReceiptTest, what_a_caller_chose_is_never_a_line_of_its_own) {
  facts_.request_id = "x\nat 0";
  EXPECT_TRUE(holds(receipt()));
  facts_.request_id = std::string(5000, 'x');
  EXPECT_TRUE(holds(receipt()));
  facts_.features = "activity,merchants";
  facts_.first_commit = 41;
  facts_.last_commit = 42;
  const Report report = check_receipt(receipt(), trust_, {});
  EXPECT_NE(report.findings.back().text.find("activity,merchants 41-42"), std::string::npos);
}

}  // namespace
}  // namespace falaj_verify
