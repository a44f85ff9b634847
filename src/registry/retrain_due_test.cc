#include "registry/retrain_due.h"

#include <gtest/gtest.h>

#include "storage/open.h"

namespace falaj::registry {
namespace {

class RetrainDueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Of a version only what it was trained on matters here.
    const storage::Migration versions{
        "test-001-versions",
        "CREATE TABLE model_versions (project TEXT, model TEXT, version INTEGER, "
        "training_set TEXT);"};
    ASSERT_TRUE(sql->migrate({security::kAuditMigration, versions, kRetrainDueMigration}).ok());
    add("payments", "fraud", 1, "set-a");
    add("payments", "fraud", 2, "set-b");
    add("payments", "churn", 1, "set-a");
    add("lending", "fraud", 1, "set-a");
  }
  void add(const std::string& project, const std::string& model, std::int64_t version,
           const std::string& set) {
    const Status added = sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute("INSERT INTO model_versions VALUES (?, ?, ?, ?)",
                           {project, model, version, set}));
      return {};
    });
    ASSERT_TRUE(added.ok()) << added.error().message;
  }

  FakeClock clock;
  std::unique_ptr<storage::SqlStore> sql = storage::make_fake_sql();
  security::Audit audit{*sql, clock};
  RetrainDue due{*sql, audit, clock};
  const security::RequestContext context =
      security::system_context("service:keys", ProjectName("payments"), Zone("ae"));
};

TEST_F(RetrainDueTest, marks_what_learned_from_the_set_in_this_project_only) {
  const auto marked = due.mark(context, {"set-a", "set-z"}, "Key/payments/TrainingSet/a").value();
  ASSERT_EQ(marked.size(), 2U);
  EXPECT_EQ(due.of(ProjectName("payments"), "fraud")->count(1), 1U);
  EXPECT_EQ(due.of(ProjectName("payments"), "fraud")->count(2), 0U);
  EXPECT_EQ(due.of(ProjectName("payments"), "churn")->at(1).cause, "Key/payments/TrainingSet/a");
  EXPECT_TRUE(due.of(ProjectName("lending"), "fraud")->empty());
  EXPECT_EQ(audit.head()->sequence, 2);
}

TEST_F(RetrainDueTest, a_second_mark_changes_nothing) {
  ASSERT_TRUE(due.mark(context, {"set-a"}, "first").ok());
  const Timestamp since = due.of(ProjectName("payments"), "fraud")->at(1).since;
  clock.advance(Duration::hours(1));
  const auto again = due.mark(context, {"set-a"}, "second").value();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again.front().cause, "first");
  EXPECT_EQ(due.of(ProjectName("payments"), "fraud")->at(1).since, since);
  EXPECT_EQ(audit.head()->sequence, 2);
}

}  // namespace
}  // namespace falaj::registry
