#include "monitoring/monitors.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "monitoring/internal/store.h"
#include "serving/testing/serving_world.h"

namespace falaj::monitoring {
namespace {

using serving::Prediction;
using serving::testing::ServingWorld;

// 400 customers with amounts 0 … 399 and a label each; the set is frozen, version 1 is trained on
// it.
class MonitorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    world_.apply("Source", "outcomes", R"({"format":"csv","event_time":"at"})");
    world_.apply("FeatureView", "labels",
                 R"({"entity":"customer","source":"outcomes","online":false,)"
                 R"("features":[{"name":"is_fraud","type":"int64"}]})");
    world_.apply("TrainingSet", "fraud_set",
                 R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"},)"
                 R"("split":{"by":"customer_id","valid":"25%"}})");
    std::string rows = "customer_id,at,amount,age\n";
    std::string labels = "customer_id,at,is_fraud\n";
    for (int i = 0; i < 400; ++i) {
      const std::string id = std::to_string(i);
      rows += id + ",2026-01-01," + id + "," + std::to_string(20 + i % 50) + "\n";
      labels += id + ",2026-01-02," + std::to_string(i % 2) + "\n";
    }
    ASSERT_TRUE(world_.append("activity", rows).ok());
    ASSERT_TRUE(world_.append("labels", labels).ok());
    const auto frozen = world_.training_sets->freeze(world_.context, "fraud_set");
    ASSERT_TRUE(frozen.ok()) << frozen.error().message;
    manifest_ = *frozen;
    world_.promote(world_.register_linear(1, 0, manifest_.id));
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    ASSERT_TRUE(world_.deployments->tick().ok());
    restart();
  }
  void restart() {
    monitors_ = std::make_unique<Monitors>(*world_.sql, *world_.blobs, *world_.models,
                                           *world_.training_sets, world_.sink, world_.audit,
                                           world_.metrics, world_.clock);
  }
  void watch(const std::string& spec) { world_.apply("Monitor", "drift", spec); }

  // `count` predictions with amounts from the reference's range, moved by `shift`.
  void offer(int count, float shift, std::int64_t version = 1) {
    for (int i = 0; i < count; ++i) {
      const int at = (i * 37) % 400;
      world_.sink.offer({"pay/fraud",
                         version,
                         world_.clock.now(),
                         {static_cast<float>(at) + shift, static_cast<float>(20 + at % 50)},
                         0,
                         ""});
    }
  }
  void tick() {
    const Status ticked = monitors_->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }
  std::vector<Window> windows() const { return monitors_->windows(project_, "drift").value(); }
  std::vector<Monitors::Alarm> alarms() const { return monitors_->alarms(project_).value(); }

  ServingWorld world_{{kMonitoringMigration}};
  const ProjectName project_{"pay"};
  features::Manifest manifest_;
  std::unique_ptr<Monitors> monitors_;
};

TEST_F(MonitorsTest, closes_a_window_of_rows_and_finds_no_drift_in_the_same_distribution) {
  watch(R"({"deployment":"fraud","window":"400 rows"})");
  offer(399, 0);
  tick();
  EXPECT_TRUE(windows().empty());
  offer(401, 0);
  tick();
  const std::vector<Window> closed = windows();
  ASSERT_EQ(closed.size(), 2U);
  EXPECT_EQ(closed[0].profile.rows, 400U);
  EXPECT_EQ(closed[0].version, 1);
  EXPECT_GT(closed[0].id, closed[1].id);
  EXPECT_EQ(closed[0].drift.drifted, 0U);
  EXPECT_LT(closed[0].drift.worst, 0.1);
  EXPECT_TRUE(alarms().empty());
}

TEST_F(MonitorsTest, freezes_the_reference_from_the_train_split_only) {
  watch(R"({"deployment":"fraud","window":"400 rows"})");
  offer(400, 0);
  tick();
  const auto histograms = monitors_->histograms(project_, "drift");
  ASSERT_TRUE(histograms.ok()) << histograms.error().message;
  EXPECT_EQ(histograms->reference.rows, manifest_.rows - manifest_.rows_valid);
  EXPECT_EQ(histograms->current.rows, 400U);
  ASSERT_EQ(histograms->bins.size(), 2U);
  EXPECT_EQ(histograms->bins[0].feature, "amount");
  EXPECT_EQ(histograms->bins[0].edges.size(), 19U);
  const auto entries = world_.audited("monitor.reference");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].detail["training_set"], Value(manifest_.id));
  // A restart reads the frozen one and makes no second.
  restart();
  offer(400, 0);
  tick();
  EXPECT_EQ(world_.audited("monitor.reference").size(), 1U);
  EXPECT_EQ(monitors_->histograms(project_, "drift")->reference, histograms->reference);
}

TEST_F(MonitorsTest, raises_one_alarm_with_evidence_that_can_be_recomputed) {
  watch(R"({"deployment":"fraud","window":"400 rows","drift":{"threshold":0.2}})");
  offer(1200, 250);
  tick();
  ASSERT_EQ(windows().size(), 3U);
  ASSERT_EQ(alarms().size(), 1U);
  const Monitors::Alarm alarm = alarms()[0];
  EXPECT_TRUE(alarm.open);
  EXPECT_EQ(alarm.version, 1);
  EXPECT_EQ(alarm.drift.worst_feature, "amount");
  const auto entries = world_.audited("monitor.alarm");
  ASSERT_EQ(entries.size(), 1U);
  const auto histograms = monitors_->histograms(project_, "drift", alarm.window);
  ASSERT_TRUE(histograms.ok());
  EXPECT_EQ(entries[0].detail["counts"], Value(sha256_hex(to_json(to_value(histograms->current)))));
  const DriftReport again = measure_drift(histograms->bins, histograms->reference,
                                          histograms->current, Method::kPsi, 0.2);
  EXPECT_EQ(to_value(again), entries[0].detail["drift"]);
  EXPECT_TRUE(world_.audit.verify().ok());
}

TEST_F(MonitorsTest, waits_for_k_of_n_windows) {
  watch(R"({"deployment":"fraud","window":"200 rows","drift":{"of":"2 in 3"}})");
  offer(200, 250);
  offer(200, 0);
  offer(200, 0);
  tick();
  offer(200, 250);  // Bad windows 1 and 4: never two of three.
  tick();
  EXPECT_TRUE(alarms().empty());
  offer(200, 0);
  offer(200, 250);  // 4 and 6.
  tick();
  EXPECT_EQ(alarms().size(), 1U);
}

TEST_F(MonitorsTest, closes_the_alarm_when_another_version_serves) {
  watch(R"({"deployment":"fraud","window":"400 rows"})");
  offer(400, 250);
  tick();
  ASSERT_EQ(alarms().size(), 1U);
  const std::int64_t second = world_.register_linear(2, 0, manifest_.id);
  world_.promote(second);
  tick();
  ASSERT_EQ(alarms().size(), 1U);
  EXPECT_FALSE(alarms()[0].open);
  const auto entries = world_.audited("monitor.close");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].detail["reason"], Value("version 2 serves now"));
  // Late windows of the old version are kept, but alarm nobody.
  offer(400, 250, 1);
  tick();
  EXPECT_EQ(windows().size(), 2U);
  EXPECT_EQ(alarms().size(), 1U);
  // The new version has an alarm of its own.
  offer(400, 250, second);
  tick();
  ASSERT_EQ(alarms().size(), 2U);
  EXPECT_TRUE(alarms()[0].open);
  EXPECT_EQ(alarms()[0].version, second);
}

TEST_F(MonitorsTest, closes_the_alarm_of_a_monitor_that_was_deleted) {
  watch(R"({"deployment":"fraud","window":"400 rows"})");
  offer(400, 250);
  tick();
  ASSERT_TRUE(world_.sql
                  ->write([](storage::SqlTransaction& tx) {
                    return storage::delete_object(tx, "Monitor", "pay", "drift");
                  })
                  .ok());
  tick();
  EXPECT_FALSE(alarms()[0].open);
}

TEST_F(MonitorsTest, keeps_windows_and_alarms_over_a_restart) {
  watch(R"({"deployment":"fraud","window":"400 rows"})");
  offer(400, 250);
  tick();
  const Value before = to_value(windows()[0]);
  restart();
  tick();
  EXPECT_EQ(to_value(windows().at(0)), before);
  offer(400, 250);
  tick();
  EXPECT_EQ(alarms().size(), 1U) << "once per monitor and version";
}

TEST_F(MonitorsTest, forgets_old_windows_but_not_the_evidence_of_an_alarm) {
  watch(R"({"deployment":"fraud","window":"200 rows"})");
  offer(200, 250);  // Window 1 raises the alarm.
  for (int i = 0; i < 5; ++i) offer(200, 0);
  tick();
  const std::vector<Window> before = windows();
  ASSERT_EQ(before.size(), 6U);
  ASSERT_TRUE(world_.sql
                  ->write([&](storage::SqlTransaction& tx) {
                    return forget_windows(tx, before.front(), 3);
                  })
                  .ok());
  const std::vector<Window> kept = windows();
  ASSERT_EQ(kept.size(), 4U);
  EXPECT_EQ(kept.back().id, alarms()[0].window);
}

TEST_F(MonitorsTest, judges_a_window_of_time_only_with_enough_rows) {
  watch(R"({"deployment":"fraud","window":"1h"})");
  offer(199, 250);
  tick();
  world_.clock.advance(Duration::minutes(59));
  tick();
  EXPECT_TRUE(windows().empty());
  world_.clock.advance(Duration::minutes(1));
  tick();
  ASSERT_EQ(windows().size(), 1U);
  EXPECT_TRUE(windows()[0].drift.features.empty());
  EXPECT_TRUE(alarms().empty());
  EXPECT_EQ((windows()[0].to - windows()[0].from), Duration::hours(1));
  offer(200, 250);
  tick();
  world_.clock.advance(Duration::hours(1));
  tick();
  EXPECT_EQ(alarms().size(), 1U);
}

TEST_F(MonitorsTest, leaves_out_what_it_cannot_use) {
  watch(R"({"deployment":"fraud","window":"100 rows"})");
  for (int i = 0; i < 200; ++i) {
    world_.sink.offer({"pay/fraud", 1, world_.clock.now(), {1, 2, 3}, 0, ""});
    world_.sink.offer({"pay/other", 1, world_.clock.now(), {1, 2}, 0, ""});
  }
  tick();
  EXPECT_TRUE(windows().empty());
  EXPECT_NE(world_.metrics.exposition().find("falaj_monitoring_unusable_total 200"),
            std::string::npos);
  EXPECT_NE(world_.metrics.exposition().find("falaj_monitoring_predictions_total 400"),
            std::string::npos);
}

TEST_F(MonitorsTest, says_when_there_is_nothing_to_compare_with) {
  watch(R"({"deployment":"fraud","window":"100 rows"})");
  EXPECT_EQ(monitors_->histograms(project_, "drift").error().id, ErrorId::kMonitorNoReference);
  EXPECT_EQ(monitors_->histograms(project_, "other").error().id, ErrorId::kObjectNotFound);
  // A version without a training set is watched in vain, but breaks nothing.
  const std::int64_t bare = world_.register_linear(2, 0);
  offer(200, 0, bare);
  tick();
  EXPECT_TRUE(windows().empty());
  offer(100, 0, 1);
  tick();
  EXPECT_EQ(windows().size(), 1U);
  EXPECT_EQ(monitors_->histograms(project_, "drift", 99).error().code, Code::kNotFound);
}

TEST(DecodeMonitor, is_strict) {
  const auto decode = [](std::string_view spec) {
    storage::Object object;
    object.name = "m";
    object.spec = parse_json(spec).value();
    return decode_monitor(object);
  };
  const Monitor rows = decode(R"({"deployment":"d","window":"2000 rows"})").value();
  EXPECT_EQ(rows.window_rows, 2000U);
  EXPECT_EQ(rows.threshold, 0.2);
  const Monitor time = decode(R"({"deployment":"d","window":"1h","drift":{"method":"js",)"
                              R"("threshold":0.1,"of":"3 in 5"}})")
                           .value();
  EXPECT_EQ(time.window_time, Duration::hours(1));
  EXPECT_EQ(time.method, Method::kJs);
  EXPECT_EQ(time.windows_bad, 3U);
  EXPECT_EQ(time.windows_seen, 5U);
  for (const char* spec :
       {R"({})", R"({"deployment":"d"})", R"({"deployment":"d","window":"0 rows"})",
        R"({"deployment":"d","window":"-5 rows"})", R"({"deployment":"d","window":"many rows"})",
        R"({"deployment":"d","window":"10"})", R"({"deployment":"d","window":2000})",
        R"({"deployment":"d","window":"1h","drift":{"of":"3 in 2"}})",
        R"({"deployment":"d","window":"1h","drift":{"of":"0 in 2"}})",
        R"({"deployment":"d","window":"1h","drift":{"of":"often"}})",
        R"({"deployment":"d","window":"1h","drift":{"threshold":0}})",
        R"({"deployment":"d","window":"1h","drift":{"method":"ks"}})",
        R"({"deployment":"d","window":"1h","drift":{"treshold":1}})",
        R"({"deployment":"d","window":"1h","wat":1})"}) {
    EXPECT_FALSE(decode(spec).ok()) << spec;
  }
}

}  // namespace
}  // namespace falaj::monitoring
