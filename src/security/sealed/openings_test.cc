#include "security/sealed/openings.h"

#include <gtest/gtest.h>

#include "security/keys/testing/key_world.h"
#include "storage/open.h"

namespace falaj::security::sealed {
namespace {

class OpeningsTest : public ::testing::Test {
 protected:
  OpeningsTest() {
    EXPECT_TRUE(store_->migrate({kAuditMigration}).ok());
    audit_.set_openings(vault_.get());
  }
  // The number of an entry that gives a reason.
  std::int64_t tell(const std::string& project, const std::string& reason) {
    const auto context = system_context("user:a", ProjectName(project), Zone());
    return audit_.record(context, {"a.b", "x", Value(), {{"reason", reason}}})->sequence;
  }
  std::string told(std::int64_t sequence) {
    const auto openings = audit_.openings(sequence).value();
    return openings.empty() ? "(nothing)" : openings.front().text;
  }

  keys::testing::KeyWorld world_;
  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  Audit audit_{*store_, clock_};
  std::unique_ptr<OpeningVault> vault_ =
      seal_openings(*world_.tree, [](const std::string& project) {
        return project == "ghost" ? Zone() : Zone("ae");
      }).value();
};

TEST_F(OpeningsTest, a_shredded_project_takes_its_texts_along) {
  const std::int64_t pay = tell("pay", "Fatima called");
  const std::int64_t hr = tell("hr", "Omar called");
  const std::int64_t platform = tell("", "the disk was full");
  const std::int64_t ghost = tell("ghost", "no zone");
  EXPECT_EQ(told(pay), "Fatima called");
  ASSERT_TRUE(world_.tree->shred({"pay", Zone("ae"), "", "", ""}).ok());
  EXPECT_EQ(told(pay), "(nothing)");
  EXPECT_EQ(told(hr), "Omar called");
  EXPECT_EQ(told(platform), "the disk was full");
  EXPECT_EQ(told(ghost), "no zone");
  EXPECT_TRUE(audit_.verify().ok()) << "the log itself is whole";
  EXPECT_EQ(told(tell("pay", "again")), "again");
}

TEST_F(OpeningsTest, a_text_moved_elsewhere_does_not_open) {
  const std::string sealed = vault_->seal("pay", "1/reason", "text").value();
  EXPECT_EQ(vault_->open("pay", "1/reason", sealed).value(), "text");
  EXPECT_FALSE(vault_->open("pay", "2/reason", sealed).ok());
  EXPECT_FALSE(vault_->open("hr", "1/reason", sealed).ok());
  EXPECT_FALSE(vault_->open("pay", "1/reason", "").ok());
  EXPECT_FALSE(vault_
                   ->open("pay", "1/reason",
                          "\x05"
                          "ab")
                   .ok());
}

}  // namespace
}  // namespace falaj::security::sealed
