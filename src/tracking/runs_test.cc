#include "tracking/runs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "storage/open.h"

namespace falaj::tracking {
namespace {

class RunsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({security::kAuditMigration, kTrackingMigration}).ok());
    context_ = security::system_context("user:dev", ProjectName("payments"), Zone("ae"));
  }
  tracking::Run created(const std::string& experiment = "fraud_train") {
    tracking::Run run;
    run.experiment = experiment;
    run.params["rounds"] = 10;
    auto made = runs_.create(context_, run);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? *made : run;
  }

  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  security::Audit audit_{*sql_, clock_};
  Runs runs_{*sql_, audit_, clock_};
  security::RequestContext context_;
};

TEST_F(RunsTest, a_run_goes_from_queued_to_finished_and_leaves_two_entries) {
  const tracking::Run run = created();
  EXPECT_EQ(run.status, RunStatus::kQueued);
  EXPECT_EQ(run.project, "payments");
  clock_.advance(Duration::seconds(1));
  ASSERT_TRUE(runs_.start(run.id).ok());
  EXPECT_EQ(runs_.get(run.id)->status, RunStatus::kRunning);
  Value outputs;
  outputs["model"]["name"] = "fraud";
  ASSERT_TRUE(runs_.end(context_, run.id, RunStatus::kFinished, "", outputs).ok());
  const tracking::Run ended = *runs_.get(run.id);
  EXPECT_EQ(ended.status, RunStatus::kFinished);
  EXPECT_EQ(ended.outputs["model"].text("name"), "fraud");
  EXPECT_DOUBLE_EQ(ended.progress, 1);
  EXPECT_EQ(ended.started_at - ended.created_at, Duration::seconds(1));
  security::AuditQuery query;
  query.action = "run.";
  EXPECT_EQ(audit_.list(query)->size(), 2u);
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(RunsTest, ending_twice_is_a_conflict_and_changes_nothing) {
  const tracking::Run run = created();
  ASSERT_TRUE(runs_.end(context_, run.id, RunStatus::kFailed, "no memory", {}).ok());
  const Status again = runs_.end(context_, run.id, RunStatus::kFinished, "", {});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_EQ(runs_.get(run.id)->error, "no memory");
  EXPECT_EQ(runs_.start(run.id).error().code, Code::kConflict);
  EXPECT_EQ(runs_.log_metrics(run.id, {{"auc", 1, 0.5, {}}}).error().code, Code::kConflict);
  EXPECT_EQ(audit_.head()->sequence, 2);
}

TEST_F(RunsTest, metrics_keep_their_history_and_the_newest_value) {
  const tracking::Run run = created();
  ASSERT_TRUE(runs_.log_metrics(run.id, {{"auc", 1, 0.7, {}}, {"auc", 2, 0.8, {}}}).ok());
  ASSERT_TRUE(runs_.log_metrics(run.id, {{"loss", 1, 0.4, {}}, {"auc", 1, 0.71, {}}}).ok());
  const tracking::Run now = *runs_.get(run.id);
  EXPECT_DOUBLE_EQ(now.metrics.number("auc"), 0.8);
  EXPECT_DOUBLE_EQ(now.metrics.number("loss"), 0.4);
  const auto history = runs_.history(run.id, "auc");
  ASSERT_EQ(history->size(), 2u);
  EXPECT_DOUBLE_EQ((*history)[0].value, 0.71) << "a step logged again replaces its value";
  EXPECT_TRUE(runs_.history(run.id, "none")->empty());
}

TEST_F(RunsTest, closing_figures_replace_the_newest_without_a_step) {
  const tracking::Run run = created();
  ASSERT_TRUE(runs_.log_metrics(run.id, {{"auc", 9, 0.7, {}}, {"loss", 9, 0.3, {}}}).ok());
  Value best;
  best["auc"] = 0.75;
  ASSERT_TRUE(runs_.set_metrics(run.id, best).ok());
  EXPECT_DOUBLE_EQ(runs_.get(run.id)->metrics.number("auc"), 0.75);
  EXPECT_DOUBLE_EQ(runs_.get(run.id)->metrics.number("loss"), 0.3);
  EXPECT_EQ(runs_.history(run.id, "auc")->size(), 1u);
}

TEST_F(RunsTest, a_metric_that_is_not_a_number_is_kept_as_such) {
  const tracking::Run run = created();
  ASSERT_TRUE(runs_.log_metrics(run.id, {{"loss", 1, std::nan(""), {}}}).ok());
  EXPECT_TRUE(std::isnan(runs_.history(run.id, "loss")->front().value));
  EXPECT_FALSE(runs_.get(run.id)->metrics.has("loss"));
}

TEST_F(RunsTest, refuses_bad_points_and_progress) {
  const tracking::Run run = created();
  EXPECT_EQ(runs_.log_metrics(run.id, {{"", 1, 0.5, {}}}).error().id, ErrorId::kInvalidName);
  EXPECT_EQ(runs_.log_metrics(run.id, {{"auc", -1, 0.5, {}}}).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(runs_.set_progress(run.id, 1.5).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(runs_.set_progress(run.id, std::nan("")).error().id, ErrorId::kOutOfRange);
  EXPECT_TRUE(runs_.set_progress(run.id, 0.25).ok());
  EXPECT_DOUBLE_EQ(runs_.get(run.id)->progress, 0.25);
}

TEST_F(RunsTest, names_a_run_that_is_not_there) {
  const auto missing = runs_.get(RunId("nope"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("nope"), std::string::npos);
  EXPECT_EQ(runs_.history(RunId("nope"), "auc").error().code, Code::kNotFound);
}

TEST_F(RunsTest, lists_newest_first_and_knows_the_unfinished) {
  const tracking::Run first = created("a");
  clock_.advance(Duration::seconds(1));
  const tracking::Run second = created("b");
  const auto all = runs_.list(ProjectName("payments"));
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].id, second.id);
  EXPECT_EQ(runs_.list(ProjectName("payments"), 1)->size(), 1u);
  EXPECT_TRUE(runs_.list(ProjectName("other"))->empty());
  ASSERT_TRUE(runs_.end(context_, first.id, RunStatus::kStopped, "", {}).ok());
  ASSERT_EQ(runs_.unfinished()->size(), 1u);
  EXPECT_EQ(runs_.unfinished()->front().id, second.id);
}

}  // namespace
}  // namespace falaj::tracking
