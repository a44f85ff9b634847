#include "loop/controller.h"

#include <gtest/gtest.h>

#include "jobs/queue.h"
#include "serving/testing/serving_world.h"

namespace falaj::loop {
namespace {

using serving::testing::ServingWorld;

// Passes on to a real store, until after some writes the process "dies": nothing is written any
// more.
class DyingSql final : public storage::SqlStore {
 public:
  explicit DyingSql(storage::SqlStore& inner) : inner_(inner) {}
  void die_after(int writes) { left_ = writes; }
  bool dead() const { return left_ == 0; }

  Status read(const std::function<Status(storage::SqlTransaction&)>& body) override {
    return inner_.read(body);
  }
  Status write(const std::function<Status(storage::SqlTransaction&)>& body) override {
    if (left_ == 0) return Error(Code::kUnavailable, "killed");
    if (left_ > 0) --left_;
    return inner_.write(body);
  }
  Status migrate(const std::vector<storage::Migration>&) override { return {}; }

 private:
  storage::SqlStore& inner_;
  int left_ = -1;
};

// Everything one server process holds, over stores that outlive it.
struct Life {
  Life(ServingWorld& world, const std::string& folder)
      : sql(*world.sql),
        audit(sql, world.clock),
        models(sql, *world.blobs, audit, world.trust.get(), world.clock),
        sets(sql, *world.blobs, audit, world.clock),
        runs(sql, audit, world.clock),
        queue(jobs::Queue::open({folder, 1, 100}, sql, audit, metrics, world.clock).value()),
        trainer({"falaj", "test", {}}, sql, *world.blobs, sets, runs, models, *queue),
        deployments(sql, models, *world.online, *world.runtime, world.sink, audit, metrics,
                    world.clock),
        monitors(sql, *world.blobs, models, sets, world.sink, audit, metrics, world.clock),
        controller(sql, *world.blobs, sets, trainer, runs, models, deployments, *world.runtime,
                   monitors, audit, world.clock) {
    queue->handle("train", trainer);
  }

  DyingSql sql;
  telemetry::Metrics metrics;
  security::Audit audit;
  registry::Models models;
  features::TrainingSets sets;
  tracking::Runs runs;
  std::unique_ptr<jobs::Queue> queue;  // Never started: the test plays the training process.
  training::TrainJobs trainer;
  serving::Deployments deployments;
  monitoring::Monitors monitors;
  Controller controller;
};

std::vector<storage::Migration> migrations() {
  return {tracking::kTrackingMigration,
          jobs::kJobsMigration,
          jobs::kJobEventsMigration,
          jobs::kJobPayloadsMigration,
          jobs::kJobDecisionsMigration,
          monitoring::kMonitoringMigration,
          kLoopMigration};
}

// 400 customers; fraud is a large amount. Labels are spread over 60 days, so the gate of 7 days has
// about 50 rows. The champion has learned the opposite.
class Rounds {
 public:
  Rounds() {
    world.apply_customers();
    world.apply("Source", "outcomes", R"({"format":"csv","event_time":"at"})");
    world.apply("FeatureView", "labels",
                R"({"entity":"customer","source":"outcomes","online":false,)"
                R"("features":[{"name":"is_fraud","type":"int64"}]})");
    world.apply("TrainingSet", "fraud_set",
                R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"}})");
    world.apply("TrainJob", "fraud_train",
                R"({"data":{"training_set":"fraud_set"},"engine":"lightgbm",)"
                R"("register":{"model":"fraud"}})");
    world.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world.apply("Monitor", "drift", R"({"deployment":"fraud","window":"200 rows"})");
    world.apply("Policy", "loop",
                R"({"on":"drift","monitor":"drift","retrain":{"job":"fraud_train","window":"30d"},)"
                R"("gate":{"metric":"auc","window":"7d","no_worse_by":0.002},"then":"promote",)"
                R"("max_per_week":2,"cooldown":"1h"})");
    std::string rows = "customer_id,at,amount,age\n";
    std::string labels = "customer_id,at,is_fraud\n";
    for (int i = 0; i < 400; ++i) {
      rows += std::to_string(i) + ",2025-12-01," + std::to_string(i) + ",0\n";
      const Timestamp at = kFirstLabel + Duration::days(i % 60);
      labels += std::to_string(i) + "," + to_rfc3339(at) + (i >= 200 ? ",1\n" : ",0\n");
    }
    EXPECT_TRUE(world.append("activity", rows).ok());
    EXPECT_TRUE(world.append("labels", labels).ok());
    const auto frozen = world.training_sets->freeze(world.context, "fraud_set");
    EXPECT_TRUE(frozen.ok()) << frozen.error().message;
    world.promote(world.register_linear(-1, 0, frozen.ok() ? frozen->id : ""));
    begin();
  }

  // A new process over the same stores.
  void begin() {
    life.reset();
    life = std::make_unique<Life>(world, world.folder.path() + "/jobs");
  }

  void raise_alarm() {
    EXPECT_TRUE(life->deployments.tick().ok());
    for (int i = 0; i < 200; ++i) {
      world.sink.offer({"pay/fraud", champion(), world.clock.now(), {5000, 0}, 0, ""});
    }
    EXPECT_TRUE(life->monitors.tick().ok());
    EXPECT_EQ(open_alarms(), 1);
  }

  int open_alarms() const {
    int open = 0;
    const auto alarms = life->monitors.alarms(project).value();
    for (const auto& alarm : alarms) open += alarm.open ? 1 : 0;
    return open;
  }

  std::int64_t champion() const {
    return world.models->alias(project, "fraud", "champion")->value();
  }

  // Plays the training process: registers a version with this weight and ends the run. It has
  // stores of its own, so that it lives on when the server dies.
  void train(float weight) {
    tracking::Runs runs(*world.sql, world.audit, world.clock);
    const std::vector<tracking::Run> unfinished = runs.unfinished().value();
    for (const tracking::Run& run : unfinished) {
      const std::int64_t version =
          world.register_linear(weight, 0, run.inputs["training_set"].text("id"));
      Value outputs;
      outputs["model"]["name"] = "fraud";
      outputs["model"]["version"] = version;
      ASSERT_TRUE(runs.start(run.id).ok());
      ASSERT_TRUE(
          runs.end(world.context, run.id, tracking::RunStatus::kFinished, "", outputs).ok());
    }
  }

  void fail_training() {
    tracking::Runs runs(*world.sql, world.audit, world.clock);
    const std::vector<tracking::Run> unfinished = runs.unfinished().value();
    for (const tracking::Run& run : unfinished) {
      ASSERT_TRUE(
          runs.end(world.context, run.id, tracking::RunStatus::kFailed, "no memory", {}).ok());
    }
  }

  void tick() {
    const Status ticked = life->controller.tick();
    EXPECT_TRUE(ticked.ok()) << ticked.error().message;
  }
  PolicyStatus status() const { return life->controller.status(project).value().at(0); }

  static constexpr Timestamp kFirstLabel = Timestamp::from_seconds(1'767'225'600);  // 2026-01-01
  const ProjectName project{"pay"};
  ServingWorld world{migrations()};
  std::unique_ptr<Life> life;
};

TEST(Controller, retrains_evaluates_and_promotes_what_is_better) {
  Rounds rounds;
  rounds.tick();
  EXPECT_EQ(rounds.status().current_action.kind, ActionKind::kNone);
  rounds.raise_alarm();
  rounds.tick();
  EXPECT_EQ(rounds.status().phase, Phase::kTraining);
  rounds.tick();  // It runs: nothing to do.
  EXPECT_EQ(rounds.status().current_action.kind, ActionKind::kNone);
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kRetrain);
  rounds.train(1);
  rounds.tick();
  EXPECT_EQ(rounds.status().phase, Phase::kEvaluating);
  rounds.tick();
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kPromote);
  EXPECT_EQ(rounds.champion(), 2);
  EXPECT_EQ(rounds.life->deployments.find(rounds.project, "fraud").value()->version.version, 2);
  EXPECT_TRUE(rounds.life->monitors.tick().ok());
  EXPECT_EQ(rounds.open_alarms(), 0);
  rounds.tick();
  EXPECT_EQ(rounds.status().current_action.kind, ActionKind::kNone);
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kPromote);
}

TEST(Controller, waits_for_labels_that_arrived_after_the_alarm) {
  Rounds rounds;
  rounds.world.apply("Policy", "loop",
                     R"({"monitor":"drift","retrain":{"job":"fraud_train","labels_min":3}})");
  rounds.raise_alarm();
  rounds.world.clock.advance(Duration::seconds(1));
  rounds.tick();
  EXPECT_NE(rounds.status().current_action.reason.find("0 of 3 labelled rows"), std::string::npos);
  const auto label = [&](const std::string& ids) {
    std::string csv = "customer_id,at,is_fraud\n";
    for (const char id : ids) csv += std::string(1, id) + ",2026-03-02,1\n";
    ASSERT_TRUE(rounds.world.append("labels", csv).ok());
  };
  label("12");
  rounds.begin();  // As after a restart.
  rounds.tick();
  EXPECT_NE(rounds.status().current_action.reason.find("2 of 3 labelled rows"), std::string::npos);
  label("3");
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kRetrain);
}

TEST(Controller, trains_before_the_gate_and_measures_inside_it) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(1);
  rounds.tick();
  const Timestamp newest = Rounds::kFirstLabel + Duration::days(59);
  const auto retrained = rounds.world.audited("loop.retrain").at(0);
  const auto trained_on =
      rounds.life->sets.by_id(rounds.project, retrained.detail["evidence"].text("training_set"));
  ASSERT_TRUE(trained_on.ok());
  EXPECT_EQ(trained_on->from, newest - Duration::days(37));
  EXPECT_EQ(trained_on->to, newest - Duration::days(7));
  const auto evaluated = rounds.world.audited("loop.evaluate").at(0);
  const auto gate =
      rounds.life->sets.by_id(rounds.project, evaluated.detail["evidence"].text("gate_set"));
  ASSERT_TRUE(gate.ok());
  EXPECT_EQ(gate->from, trained_on->to) << "no row is both trained on and measured on";
  // Days 52 … 59 of customers numbered modulo 60.
  std::int64_t rows = 0;
  std::int64_t positives = 0;
  for (int i = 0; i < 400; ++i) {
    if (i % 60 < 52) continue;
    ++rows;
    positives += i >= 200 ? 1 : 0;
  }
  const Value& evidence = evaluated.detail["evidence"];
  EXPECT_EQ(evidence["rows"], Value(rows));
  EXPECT_EQ(evidence["positives"], Value(positives));
  EXPECT_EQ(evidence.number("champion_auc"), 0);
  EXPECT_EQ(evidence.number("candidate_auc"), 1);
}

TEST(Controller, keeps_the_champion_when_the_candidate_is_worse) {
  Rounds rounds;
  rounds.world.promote(rounds.world.register_linear(
      1, 0, rounds.world.models->get(rounds.project, "fraud", 1)->training_set));
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(-1);
  rounds.tick();
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_EQ(rounds.champion(), 2);
  EXPECT_EQ(rounds.world.audited("loop.keep").size(), 1U);
  // The alarm is still open, but the cooldown holds; then the week's maximum does.
  rounds.tick();
  EXPECT_EQ(rounds.world.audited("loop.retrain").size(), 1U);
  rounds.world.clock.advance(Duration::hours(1));
  rounds.tick();
  EXPECT_EQ(rounds.world.audited("loop.retrain").size(), 2U);
  rounds.fail_training();
  rounds.tick();
  rounds.world.clock.advance(Duration::days(2));
  rounds.tick();
  EXPECT_EQ(rounds.world.audited("loop.retrain").size(), 2U);
  rounds.world.clock.advance(Duration::days(5));
  rounds.tick();
  EXPECT_EQ(rounds.world.audited("loop.retrain").size(), 3U);
}

TEST(Controller, keeps_the_champion_when_training_fails) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.fail_training();
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_NE(rounds.status().last_action.reason.find("failed"), std::string::npos);
  EXPECT_EQ(rounds.champion(), 1);
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
}

TEST(Controller, keeps_the_champion_when_the_candidate_cannot_be_measured) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  // The run registers a file that is no model.
  registry::ModelVersion broken = rounds.world.models->get(rounds.project, "fraud", 1).value();
  broken.project = rounds.world.context.project.str();
  broken.zone = rounds.world.context.zone.name();
  EXPECT_TRUE(registry::keep_onnx(*rounds.world.blobs, "no model", broken).ok());
  broken.run = RunId("broken");
  const std::int64_t version =
      rounds.world.models->add_version(rounds.world.context, broken)->version;
  Value outputs;
  outputs["model"]["version"] = version;
  tracking::Runs runs(*rounds.world.sql, rounds.world.audit, rounds.world.clock);
  const tracking::Run run = runs.unfinished()->at(0);
  ASSERT_TRUE(
      runs.end(rounds.world.context, run.id, tracking::RunStatus::kFinished, "", outputs).ok());
  rounds.tick();
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_EQ(rounds.champion(), 1);
  EXPECT_NE(rounds.world.audited("loop.evaluate").at(0).detail["evidence"].text("error"), "");
}

// Ticks thrice, across a restart: the obstacle is audited once and shown each time; nothing is
// trained.
void expect_obstacle(Rounds& rounds, const std::string& says) {
  for (int i = 0; i < 3; ++i) {
    rounds.tick();
    EXPECT_NE(rounds.status().current_action.reason.find(says), std::string::npos)
        << rounds.status().current_action.reason;
    rounds.world.clock.advance(Duration::hours(2));
    if (i == 1) rounds.begin();
  }
  const auto kept = rounds.world.audited("loop.");
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].action, "loop.keep");
  EXPECT_TRUE(replay(kept[0]).ok());
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
  EXPECT_TRUE(rounds.life->runs.list(rounds.project)->empty());
}

TEST(Controller, says_once_why_it_cannot_retrain_from_a_file_of_labels) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.world.apply(
      "TrainingSet", "fraud_set",
      R"({"service":"svc","spine":{"path":"l.csv","time":"at","label":"is_fraud"}})");
  expect_obstacle(rounds, "takes its labels from a file");
}

TEST(Controller, says_once_why_it_cannot_retrain_without_labels) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.world.apply("FeatureView", "later_labels",
                     R"({"entity":"customer","source":"outcomes","online":false,)"
                     R"("features":[{"name":"is_fraud","type":"int64"}]})");
  rounds.world.apply("TrainingSet", "fraud_set",
                     R"({"service":"svc","spine":{"view":"later_labels","label":"is_fraud"}})");
  expect_obstacle(rounds, "'later_labels' has no rows");
}

TEST(Controller, does_not_retrain_with_a_job_of_another_model) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.world.apply("TrainJob", "fraud_train",
                     R"({"data":{"training_set":"fraud_set"},"engine":"lightgbm",)"
                     R"("register":{"model":"churn"}})");
  expect_obstacle(rounds, "registers model 'churn', but deployment 'fraud' serves model 'fraud'");
  rounds.world.apply("TrainJob", "fraud_train",
                     R"({"data":{"training_set":"fraud_set"},"engine":"lightgbm",)"
                     R"("register":{"model":"fraud"}})");
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kRetrain) << "mended, it goes on";
}

TEST(Controller, does_not_promote_a_version_of_another_model) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  // The run registers under a model of its own; "fraud" has a version of the same number.
  registry::ModelVersion other = rounds.world.models->get(rounds.project, "fraud", 1).value();
  other.model = "churn";
  other.run = RunId("other");
  ASSERT_TRUE(registry::keep_onnx(*rounds.world.blobs, "another graph", other).ok());
  other.native = BlobId();
  ASSERT_TRUE(rounds.world.models->add_version(rounds.world.context, other).ok());
  rounds.world.register_linear(1, 0, other.training_set);
  Value outputs;
  outputs["model"]["name"] = "churn";
  outputs["model"]["version"] = 2;
  tracking::Runs runs(*rounds.world.sql, rounds.world.audit, rounds.world.clock);
  ASSERT_TRUE(runs.end(rounds.world.context, runs.unfinished()->at(0).id,
                       tracking::RunStatus::kFinished, "", outputs)
                  .ok());
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_NE(rounds.status().last_action.reason.find("of model 'churn'"), std::string::npos);
  EXPECT_EQ(rounds.champion(), 1);
}

TEST(Controller, claims_no_promotion_where_the_deployment_pins_a_version) {
  Rounds rounds;
  rounds.world.apply("Deployment", "fraud", R"({"model":"fraud","version":1})");
  rounds.raise_alarm();
  expect_obstacle(rounds, "the deployment pins version 1");
  EXPECT_EQ(rounds.champion(), 1);
}

TEST(Controller, keeps_the_champion_when_a_version_was_pinned_during_the_round) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(1);
  rounds.tick();
  rounds.life->sql.die_after(1);  // The promotion is decided, the alias not moved.
  EXPECT_FALSE(rounds.life->controller.tick().ok());
  rounds.begin();
  rounds.world.apply("Deployment", "fraud", R"({"model":"fraud","version":1})");
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
  EXPECT_EQ(rounds.champion(), 1);
}

TEST(Controller, measures_again_when_another_version_was_promoted_since) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(0);  // Better than version 1, which has it all wrong; worse than the next.
  rounds.tick();
  ASSERT_EQ(rounds.status().phase, Phase::kEvaluating);
  rounds.world.promote(rounds.world.register_linear(
      1, 0, rounds.world.models->get(rounds.project, "fraud", 1)->training_set));
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kEvaluate);
  EXPECT_EQ(rounds.status().phase, Phase::kEvaluating);
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_NE(rounds.status().last_action.reason.find("against 1 of version 3"), std::string::npos)
      << rounds.status().last_action.reason;
  EXPECT_EQ(rounds.champion(), 3);
  EXPECT_TRUE(rounds.world.audited("loop.promote").empty());
  for (const auto& entry : rounds.world.audited("loop.")) EXPECT_TRUE(replay(entry).ok());
}

TEST(Controller, does_not_finish_a_promotion_over_a_version_it_did_not_measure) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(0);
  rounds.tick();
  rounds.life->sql.die_after(1);  // The promotion is decided, the alias not moved.
  EXPECT_FALSE(rounds.life->controller.tick().ok());
  ASSERT_EQ(rounds.world.audited("loop.promote").size(), 1U);
  rounds.begin();
  rounds.world.promote(rounds.world.register_linear(
      1, 0, rounds.world.models->get(rounds.project, "fraud", 1)->training_set));
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kEvaluate);
  EXPECT_EQ(rounds.champion(), 3);
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_EQ(rounds.champion(), 3);
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
}

TEST(Controller, ends_the_round_when_its_data_cannot_be_frozen) {
  Rounds rounds;
  rounds.world.apply("Policy", "loop",
                     R"({"monitor":"drift","retrain":{"job":"fraud_train","window":"1d"},)"
                     R"("gate":{"window":"300d"}})");  // Before the gate there is nothing.
  rounds.raise_alarm();
  rounds.tick();
  EXPECT_EQ(rounds.status().phase, Phase::kTraining);
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kKeep);
  EXPECT_NE(rounds.status().last_action.reason.find("no run could be started"), std::string::npos);
  EXPECT_EQ(rounds.status().phase, Phase::kWatching);
  rounds.tick();
  EXPECT_NE(rounds.status().current_action.reason.find("cooldown"), std::string::npos);
  EXPECT_EQ(rounds.world.audited("loop.").size(), 2U);
  for (const auto& entry : rounds.world.audited("loop.")) EXPECT_TRUE(replay(entry).ok());
}

TEST(Controller, is_not_stalled_by_a_label_from_the_future) {
  Rounds rounds;
  rounds.world.clock.set(Rounds::kFirstLabel + Duration::days(60));
  ASSERT_TRUE(rounds.world.append("labels", "customer_id,at,is_fraud\n1,2099-01-01,1\n").ok());
  rounds.raise_alarm();
  rounds.tick();
  ASSERT_EQ(rounds.status().phase, Phase::kTraining);
  rounds.train(1);
  rounds.tick();
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kPromote)
      << rounds.status().last_action.reason;
  EXPECT_EQ(rounds.champion(), 2);
}

// The labels end long before now; the one from the future must not move the windows to now.
TEST(Controller, measures_old_labels_beside_one_from_the_future) {
  Rounds rounds;
  rounds.world.clock.set(Rounds::kFirstLabel + Duration::days(400));
  ASSERT_TRUE(rounds.world.append("labels", "customer_id,at,is_fraud\n1,2099-01-01,1\n").ok());
  rounds.raise_alarm();
  rounds.tick();
  ASSERT_EQ(rounds.status().phase, Phase::kTraining);
  rounds.train(1);
  rounds.tick();
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kPromote)
      << rounds.status().last_action.reason;
}

TEST(Controller, does_not_take_up_a_run_that_ended_before_it_began) {
  Rounds rounds;
  rounds.raise_alarm();
  // Three writes: the frozen set, the decision, and the run, which never gets its job.
  rounds.life->sql.die_after(3);
  EXPECT_FALSE(rounds.life->controller.tick().ok());
  ASSERT_EQ(rounds.life->runs.unfinished()->size(), 1U);
  rounds.fail_training();
  rounds.begin();
  rounds.tick();
  EXPECT_EQ(rounds.status().phase, Phase::kTraining);
  EXPECT_EQ(rounds.life->runs.list(rounds.project)->size(), 2U);
  rounds.train(1);
  rounds.tick();
  EXPECT_EQ(rounds.status().last_action.kind, ActionKind::kEvaluate);
}

TEST(Controller, replays_every_decision_and_notices_a_changed_one) {
  Rounds rounds;
  rounds.raise_alarm();
  rounds.tick();
  rounds.train(1);
  rounds.tick();
  rounds.tick();
  const auto entries = rounds.world.audited("loop.");
  ASSERT_EQ(entries.size(), 3U);
  const std::vector<ActionKind> expected{ActionKind::kRetrain, ActionKind::kEvaluate,
                                         ActionKind::kPromote};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto action = replay(entries[i]);
    ASSERT_TRUE(action.ok()) << action.error().message;
    EXPECT_EQ(action->kind, expected[i]);
  }
  security::AuditEntry forged = entries[2];
  forged.detail["snapshot"]["candidate_auc"] = 0.1;
  EXPECT_EQ(replay(forged).error().id, ErrorId::kReplayDiffers);
  forged = entries[2];
  forged.detail["policy"]["no_worse_by"] = -2.0;
  EXPECT_EQ(replay(forged).error().id, ErrorId::kReplayDiffers);
  forged = entries[0];
  forged.action = "loop.promote";
  EXPECT_EQ(replay(forged).error().id, ErrorId::kReplayDiffers);
  forged.action = "object.apply";
  EXPECT_EQ(replay(forged).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(rounds.world.audit.verify().ok());
}

// Kills the process after every possible number of writes, restarts it, and lets it finish: each
// time the same round comes to the same end, once.
TEST(Controller, goes_on_where_it_was_after_a_kill_at_any_write) {
  int kills = 0;
  for (int writes = 0;; ++writes) {
    SCOPED_TRACE(writes);
    ASSERT_LT(writes, 100);
    Rounds rounds;
    rounds.raise_alarm();
    rounds.life->sql.die_after(writes);
    for (int i = 0; i < 4; ++i) {
      if (!rounds.life->controller.tick().ok()) break;
      rounds.train(1);
    }
    const bool died = rounds.life->sql.dead() && rounds.champion() != 2;
    rounds.begin();
    ASSERT_TRUE(rounds.life->deployments.tick().ok());
    for (int i = 0; i < 6; ++i) {
      rounds.tick();
      rounds.train(1);
      ASSERT_TRUE(rounds.life->monitors.tick().ok());
    }
    EXPECT_EQ(rounds.champion(), 2);
    EXPECT_EQ(rounds.life->deployments.find(rounds.project, "fraud").value()->version.version, 2);
    EXPECT_EQ(rounds.status().phase, Phase::kWatching);
    EXPECT_EQ(rounds.open_alarms(), 0);
    for (const char* action : {"loop.retrain", "loop.evaluate", "loop.promote"}) {
      EXPECT_EQ(rounds.world.audited(action).size(), 1U) << action;
    }
    EXPECT_EQ(rounds.life->runs.list(rounds.project)->size(), 1U);
    EXPECT_TRUE(rounds.world.audit.verify().ok());
    if (HasFailure()) return;
    if (!died) break;
    ++kills;
  }
  EXPECT_GE(kills, 6);
}

TEST(DecodePolicy, is_strict) {
  const auto decode = [](std::string_view spec) {
    storage::Object object;
    object.name = "p";
    object.spec = parse_json(spec).value();
    return decode_policy(object);
  };
  const Policy policy =
      decode(R"({"on":"drift","monitor":"m","retrain":{"job":"j","window":"60d"},)"
             R"("gate":{"window":"3d","no_worse_by":0.01},"max_per_week":1,"cooldown":"2h"})")
          .value();
  EXPECT_EQ(policy.job, "j");
  EXPECT_EQ(policy.train_window, Duration::days(60));
  EXPECT_EQ(policy.gate_window, Duration::days(3));
  EXPECT_EQ(policy.no_worse_by, 0.01);
  EXPECT_EQ(policy.retrains_per_week_max, 1);
  EXPECT_EQ(policy.cooldown, Duration::hours(2));
  for (const char* spec : {R"({})", R"({"monitor":"m"})", R"({"monitor":"m","retrain":{}})",
                           R"({"monitor":"m","retrain":{"job":"j","window":"0s"}})",
                           R"({"monitor":"m","retrain":{"job":"j"},"gate":{"window":"0s"}})",
                           R"({"monitor":"m","retrain":{"job":"j"},"gate":{"metric":"f1"}})",
                           R"({"monitor":"m","retrain":{"job":"j"},"gate":{"no_worse_by":-1}})",
                           R"({"monitor":"m","retrain":{"job":"j"},"then":"rollout"})",
                           R"({"monitor":"m","retrain":{"job":"j"},"on":"schedule"})",
                           R"({"monitor":"m","retrain":{"job":"j"},"max_per_week":-1})",
                           R"({"monitor":"m","retrain":{"job":"j"},"cooldwn":"1h"})"}) {
    EXPECT_FALSE(decode(spec).ok()) << spec;
  }
}

}  // namespace
}  // namespace falaj::loop
