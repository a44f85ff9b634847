#include "serving/rollout/rollouts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "serving/testing/drained.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving::rollout {
namespace {

using testing::ServingWorld;

// kFailsThree: rows that begin with 3.
enum class Illness : std::uint8_t { kNone, kFails, kGivesNan, kFailsThree };

// Models that are loaded while it is armed can be made ill afterwards.
class IllRuntime final : public Runtime {
 public:
  explicit IllRuntime(std::unique_ptr<Runtime> inner) : inner_(std::move(inner)) {}
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    wait();
    return wrap(inner_->load_bytes(model));
  }
  std::string version() const override { return inner_->version(); }

  bool armed = false;
  std::atomic<Illness> illness{Illness::kNone};

  // From now on whoever loads a model, or asks one that was loaded while armed, waits for free().
  void get_stuck() {
    waiting_ = false;
    stuck_ = true;
  }
  void await_one() const { waiting_.wait(false); }
  void free() {
    stuck_ = false;
    stuck_.notify_all();
  }
  void wait() {
    if (!stuck_) return;
    waiting_ = true;
    waiting_.notify_all();
    stuck_.wait(true);
  }

 private:
  class IllSession final : public Session {
   public:
    IllSession(std::unique_ptr<Session> inner, IllRuntime& runtime)
        : inner_(std::move(inner)), runtime_(runtime), illness_(runtime.illness) {}
    const registry::Signature& signature() const override { return inner_->signature(); }
    Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
      if (illness_ == Illness::kFails) return Error{Code::kInternal, "ill"};
      return inner_->run(inputs);
    }
    Status score(std::span<const float> matrix, std::size_t columns,
                 std::vector<float>& scores) const override {
      runtime_.wait();
      const bool three = illness_ == Illness::kFailsThree && matrix[0] == 3;
      if (illness_ == Illness::kFails || three) return Error{Code::kInternal, "ill"};
      FALAJ_TRY(inner_->score(matrix, columns, scores));
      if (illness_ == Illness::kGivesNan) {
        scores.assign(scores.size(), std::numeric_limits<float>::quiet_NaN());
      }
      return {};
    }

   private:
    std::unique_ptr<Session> inner_;
    IllRuntime& runtime_;
    const std::atomic<Illness>& illness_;
  };

  Result<std::unique_ptr<Session>> wrap(Result<std::unique_ptr<Session>> loaded) {
    if (!armed || !loaded.ok()) return loaded;
    return std::unique_ptr<Session>(std::make_unique<IllSession>(std::move(loaded).value(), *this));
  }
  std::unique_ptr<Runtime> inner_;
  std::atomic<bool> stuck_{false};
  std::atomic<bool> waiting_{false};
};

// So many that half of them can show that a 99th percentile is kept.
constexpr std::int64_t kCustomers = 3200;

class RolloutsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ill = std::make_unique<IllRuntime>(std::move(world_.runtime));
    ill_ = ill.get();
    world_.runtime = std::move(ill);
    world_.apply_customers();
    std::string rows = "customer_id,at,amount,age\n";
    for (std::int64_t i = 0; i < kCustomers; ++i) {
      rows += std::to_string(i) + ",2026-01-01," + std::to_string(i % 100) + ",30\n";
    }
    ASSERT_TRUE(world_.append("activity", rows).ok());
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world_.make_deployments();
    champion_ = world_.register_linear(1, 0);
    world_.promote(champion_);
    ASSERT_TRUE(world_.deployments->tick().ok());
    ill_->armed = true;
    make_rollouts();
  }

  void make_rollouts() {
    recordings_ = std::make_unique<Recordings>(*world_.sql, *world_.blobs, world_.clock);
    world_.deployments->record_into(*recordings_);
    rollouts_ = std::make_unique<Rollouts>(*world_.sql, *world_.models, *world_.deployments,
                                           *recordings_, world_.audit, world_.clock);
  }

  // The floor is far above what this machine may take for a request: time decides nothing here.
  void declare(std::int64_t version, std::string_view more = "") {
    world_.apply("Rollout", "next",
                 R"({"deployment":"fraud","candidate":{"version":)" + std::to_string(version) +
                     R"(},"steps":["shadow","25%","50%"],"sticky":"customer_id",)"
                     R"("guard":{"errors":"5%","nans":"5%","floor":"100s","shift":"30%"},)"
                     R"("step":{"min":"10m","max":"1d","requests":200})" +
                     std::string(more) + "}");
  }
  Result<RolloutStatus> begin(const std::string& name = "next") {
    return rollouts_->start(world_.context, name, anybody);
  }
  Result<RolloutStatus> order(Order order) {
    return rollouts_->order(world_.context, "next", order, anybody);
  }
  static Status anybody(const std::string& model) {
    EXPECT_EQ(model, "fraud");
    return {};
  }
  void start(std::int64_t version, std::string_view more = "") {
    declare(version, more);
    const auto started = begin();
    ASSERT_TRUE(started.ok()) << started.error().message;
    tick();
    tick();  // What could not be put in place has ended by now.
  }
  // What the three threads do, one after the other.
  void tick() {
    const Status ticked = rollouts_->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
    const Status settled = rollouts_->settle();
    ASSERT_TRUE(settled.ok()) << settled.error().message;
    rollouts_->answer_mirrored();
  }
  RolloutStatus status() const { return rollouts_->get(world_.context.project, "next").value(); }
  std::int64_t serving() const { return world_.deployments->status().at(0).version; }

  // Every customer asks once or more; how many the candidate answered.
  std::int64_t ask(int rounds = 1) {
    std::int64_t by_candidate = 0;
    for (int round = 0; round < rounds; ++round) {
      for (std::int64_t i = 0; i < kCustomers; ++i) {
        const auto answer = world_.predict(i);
        EXPECT_TRUE(answer.ok()) << answer.error().message;
        if (!answer.ok()) return by_candidate;
        by_candidate += answer->version == champion_ ? 0 : 1;
        // A shadow's mirror is emptied by ticks.
        if (i % 500 == 0) tick();
      }
    }
    tick();
    return by_candidate;
  }
  void pass(Duration time) {
    world_.clock.advance(time);
    tick();
  }

  ServingWorld world_{{kRolloutMigration, kRecordingsMigration}};
  IllRuntime* ill_ = nullptr;
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<Rollouts> rollouts_;
  std::int64_t champion_ = 0;
};

TEST_F(RolloutsTest, walks_from_shadow_to_promotion) {
  const std::int64_t next = world_.register_linear(1, 0);
  start(next);
  EXPECT_EQ(ask(), 0) << "nobody sees a shadow";
  EXPECT_EQ(status().step, 0U);
  EXPECT_EQ(ask(), 0);
  EXPECT_EQ(status().not_mirrored, 0U);
  tick();  // Looks again: the last were answered after the last look.
  EXPECT_EQ(status().evidence["champion"].integer("requests"),
            status().evidence["candidate"].integer("requests"));
  pass(Duration::minutes(10));
  ASSERT_EQ(status().step, 1U) << status().reason;
  const std::int64_t met = ask();
  EXPECT_NEAR(static_cast<double>(met), 0.25 * kCustomers, 80);  // Four standard deviations.
  pass(Duration::minutes(10));
  ASSERT_EQ(status().step, 2U) << status().reason;
  ask(2);
  EXPECT_EQ(serving(), champion_);
  pass(Duration::minutes(10));
  ASSERT_EQ(status().state, State::kPromoted) << status().reason;
  EXPECT_EQ(serving(), next);
  EXPECT_EQ(world_.predict(1)->version, next);
  ASSERT_EQ(world_.audited("rollout.start").size(), 1U);
  ASSERT_EQ(world_.audited("rollout.advance").size(), 2U);
  const auto promoted = world_.audited("rollout.promote");
  ASSERT_EQ(promoted.size(), 1U);
  EXPECT_TRUE(replay(promoted[0]).ok());
  auto forged = promoted[0];
  forged.detail["evidence"]["candidate"]["errors"] = 4000;
  EXPECT_EQ(replay(forged).error().id, ErrorId::kReplayDiffers);
}

TEST_F(RolloutsTest, a_shadow_leaves_no_trace_but_its_counts) {
  const std::int64_t next = world_.register_linear(2, 7);
  start(next, R"(,"alpha":"1%")");
  testing::drained(world_.sink);
  ask();
  for (const Prediction& seen : testing::drained(world_.sink)) EXPECT_EQ(seen.version, champion_);
  std::istringstream scrape(world_.metrics.exposition());
  int lines = 0;
  for (std::string line; std::getline(scrape, line);) {
    if (!line.starts_with("falaj_serving_requests_total{")) continue;
    if (line.find("version=\"" + std::to_string(next) + "\"") == std::string::npos) continue;
    ++lines;
    EXPECT_TRUE(line.ends_with(" 0")) << line;
  }
  EXPECT_EQ(lines, 1);
}

TEST_F(RolloutsTest, takes_back_a_candidate_whose_scores_shift) {
  const std::int64_t next = world_.register_linear(1, 1000);
  start(next, R"(,"approve":true)");
  for (int i = 0; i < 3 && status().state == State::kRunning; ++i) ask();
  ASSERT_EQ(status().state, State::kRolledBack) << status().reason;
  EXPECT_EQ(status().reason.find("shift"), 0U) << status().reason;
  EXPECT_EQ(serving(), champion_);
  EXPECT_EQ(ask(), 0);
  const auto entries = world_.audited("rollout.rollback");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_TRUE(replay(entries[0]).ok());
  EXPECT_EQ(world_.deployments->find(world_.context.project, "fraud").value()->split, nullptr);
}

class IllCandidate : public RolloutsTest {
 protected:
  // Into the step of 25 %, then ill.
  void fall_ill(Illness illness) {
    start(world_.register_linear(1, 0));
    ask(2);
    pass(Duration::minutes(10));
    ASSERT_EQ(status().step, 1U) << status().reason;
    ill_->illness = illness;
  }
};

TEST_F(IllCandidate, that_fails_costs_no_answer_and_is_taken_back) {
  fall_ill(Illness::kFails);
  std::int64_t asked = 0;
  while (status().state == State::kRunning && asked < 10 * kCustomers) {
    const auto answer = world_.predict(asked++ % kCustomers);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->version, champion_);
    if (asked % 50 == 0) tick();
  }
  ASSERT_EQ(status().state, State::kRolledBack) << status().reason;
  EXPECT_EQ(status().reason.find("errors"), 0U) << status().reason;
  EXPECT_LE(asked, 1000);
}

// It answers two of three entities and fails at the last: nobody received these two.
TEST_F(IllCandidate, logs_nothing_that_nobody_received) {
  fall_ill(Illness::kFailsThree);
  const auto live = world_.deployments->find(world_.context.project, "fraud").value();
  const auto key = [](std::int64_t customer) {
    return EntityKeys{{"customer_id", features::KeyPart(customer)}};
  };
  std::vector<EntityPrediction> predictions;
  testing::drained(world_.sink);
  for (std::int64_t i = 4; i < 100; ++i) {
    const std::vector<EntityKeys> entities{key(i), key(i + 100), key(3)};
    ASSERT_TRUE(world_.deployments->predict_all(live, entities, "req", predictions).ok());
    const std::vector<Prediction> logged = testing::drained(world_.sink);
    ASSERT_EQ(logged.size(), 3U) << "customer " << i;
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(logged[k].version, champion_);
      EXPECT_EQ(logged[k].score, predictions[k].score);
    }
  }
  tick();
  EXPECT_GT(status().evidence["candidate"].integer("errors"), 0);
}

// Another project's rollback must not wait for what this project's candidate does.
TEST_F(RolloutsTest, judges_while_a_candidate_is_loaded_and_while_one_answers) {
  declare(world_.register_linear(1, 0));
  ASSERT_TRUE(begin().ok());
  ill_->get_stuck();
  std::thread loading([&] { EXPECT_TRUE(rollouts_->settle().ok()); });
  ill_->await_one();
  EXPECT_TRUE(rollouts_->tick().ok());
  EXPECT_TRUE(order(Order::kHold).ok());
  EXPECT_EQ(world_.predict(1)->version, champion_);
  ill_->free();
  loading.join();

  EXPECT_TRUE(world_.predict(1).ok());
  ill_->get_stuck();
  std::thread answering([&] { rollouts_->answer_mirrored(); });
  ill_->await_one();
  EXPECT_TRUE(rollouts_->tick().ok());
  EXPECT_EQ(status().evidence["champion"].integer("requests"), 1);
  EXPECT_EQ(status().evidence["candidate"].integer("requests"), 0);
  EXPECT_TRUE(order(Order::kAbort).ok());
  ill_->free();
  answering.join();
  tick();
  EXPECT_EQ(world_.deployments->find(world_.context.project, "fraud").value()->split, nullptr);
}

// What serves is judged, also while the next step waits for somebody else's model to be loaded.
TEST_F(RolloutsTest, takes_back_what_serves_before_the_next_step_is_in_place) {
  start(world_.register_linear(1, 0));
  ask(2);
  world_.clock.advance(Duration::minutes(10));
  ASSERT_TRUE(rollouts_->tick().ok());
  ASSERT_EQ(status().step, 1U) << status().reason;
  ill_->illness = Illness::kFails;
  for (int minute = 0; minute < 12 && status().state == State::kRunning; ++minute) {
    for (std::int64_t i = 0; i < 1000; ++i) EXPECT_TRUE(world_.predict(i).ok());
    rollouts_->answer_mirrored();
    ASSERT_TRUE(rollouts_->tick().ok());
    world_.clock.advance(Duration::minutes(1));
  }
  ASSERT_EQ(status().state, State::kRolledBack) << status().reason;
  EXPECT_EQ(status().reason.find("errors"), 0U) << status().reason;
  EXPECT_TRUE(replay(world_.audited("rollout.rollback").at(0)).ok());
}

TEST_F(IllCandidate, that_gives_no_numbers_is_taken_back) {
  fall_ill(Illness::kGivesNan);
  for (int i = 0; i < 3 && status().state == State::kRunning; ++i) ask();
  ASSERT_EQ(status().state, State::kRolledBack) << status().reason;
  EXPECT_EQ(status().reason.find("nans"), 0U) << status().reason;
}

TEST_F(IllCandidate, is_stopped_by_hand_at_once) {
  fall_ill(Illness::kNone);
  EXPECT_GT(ask(), 0);
  const auto aborted = order(Order::kAbort);
  ASSERT_TRUE(aborted.ok()) << aborted.error().message;
  EXPECT_EQ(aborted->state, State::kAborted);
  EXPECT_EQ(ask(), 0);
  EXPECT_EQ(order(Order::kAbort).error().id, ErrorId::kFailedPrecondition);
}

TEST_F(RolloutsTest, a_customer_keeps_the_arm_while_the_share_grows) {
  start(world_.register_linear(1, 0));
  ask(2);
  pass(Duration::minutes(10));
  std::set<std::int64_t> met;
  for (std::int64_t i = 0; i < kCustomers; ++i) {
    const bool candidate = world_.predict(i)->version != champion_;
    EXPECT_EQ(world_.predict(i)->version != champion_, candidate);
    if (candidate) met.insert(i);
  }
  pass(Duration::minutes(10));
  ASSERT_EQ(status().step, 2U) << status().reason;
  for (const std::int64_t i : met) EXPECT_NE(world_.predict(i)->version, champion_);
}

TEST_F(RolloutsTest, goes_on_in_its_step_after_a_restart) {
  const std::int64_t next = world_.register_linear(1, 0);
  start(next);
  ask(2);
  pass(Duration::minutes(10));
  ASSERT_EQ(status().step, 1U);
  std::map<std::int64_t, std::int64_t> answered_by;
  for (std::int64_t i = 0; i < 200; ++i) answered_by[i] = world_.predict(i)->version;

  rollouts_.reset();
  world_.make_deployments();
  ASSERT_TRUE(world_.deployments->tick().ok());
  make_rollouts();
  EXPECT_EQ(world_.predict(1)->version, champion_) << "the champion answers until it is loaded";
  tick();
  EXPECT_EQ(status().step, 1U);
  EXPECT_EQ(status().state, State::kRunning);
  for (const auto& [customer, version] : answered_by) {
    EXPECT_EQ(world_.predict(customer)->version, version);
  }
  tick();
  EXPECT_EQ(status().evidence.integer("count"), 2) << "another share of alpha";
}

TEST_F(RolloutsTest, waits_for_approval_and_obeys_hold) {
  const std::int64_t next = world_.register_linear(1, 0);
  start(next, R"(,"approve":true)");
  ask(2);
  ASSERT_TRUE(order(Order::kHold).ok());
  pass(Duration::minutes(10));
  EXPECT_EQ(status().step, 0U) << "held";
  ASSERT_TRUE(order(Order::kResume).ok());
  tick();
  ask();
  pass(Duration::minutes(10));
  ask(2);
  pass(Duration::minutes(10));
  ASSERT_EQ(status().state, State::kRunning);
  EXPECT_NE(status().reason.find("waits for approval"), std::string::npos) << status().reason;
  ASSERT_TRUE(order(Order::kApprove).ok());
  tick();
  EXPECT_EQ(status().state, State::kPromoted) << status().reason;
  EXPECT_EQ(serving(), next);
  EXPECT_EQ(world_.audited("rollout.order").size(), 3U);
}

// Orders and looks that come before anything is loaded.
TEST_F(RolloutsTest, can_be_held_and_looked_at_before_the_candidate_is_loaded) {
  declare(world_.register_linear(1, 0));
  ASSERT_TRUE(begin().ok());
  const auto held = order(Order::kHold);
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_TRUE(status().manual.held);
  EXPECT_EQ(status().not_mirrored, 0U);
  EXPECT_TRUE(status().evidence.is_null());
  ASSERT_TRUE(order(Order::kAbort).ok());
}

TEST_F(RolloutsTest, a_hold_and_an_approval_do_not_take_each_other_back) {
  start(world_.register_linear(1, 0), R"(,"approve":true)");
  ASSERT_TRUE(order(Order::kHold).ok());
  ASSERT_TRUE(order(Order::kApprove).ok());
  EXPECT_EQ(status().manual, (Manual{true, true})) << "approved is not released";
  ASSERT_TRUE(order(Order::kResume).ok());
  EXPECT_EQ(status().manual, (Manual{false, true})) << "resumed is still approved";
  ASSERT_TRUE(order(Order::kHold).ok());
  rollouts_.reset();
  make_rollouts();
  EXPECT_EQ(status().manual, (Manual{true, true})) << "written down";
}

// A rollout moves the model's alias: who may not, may not by way of a rollout either.
TEST_F(RolloutsTest, asks_about_the_model_before_whatever_can_promote_it) {
  std::vector<std::string> asked;
  const MayPromote forbidden = [&](const std::string& model) -> Status {
    asked.push_back(model);
    return Error(ErrorId::kPermissionDenied, "not this model");
  };
  declare(world_.register_linear(1, 0));
  EXPECT_EQ(rollouts_->start(world_.context, "next", forbidden).error().id,
            ErrorId::kPermissionDenied);
  ASSERT_TRUE(begin().ok());
  for (const Order refused : {Order::kPromote, Order::kApprove, Order::kResume}) {
    EXPECT_EQ(rollouts_->order(world_.context, "next", refused, forbidden).error().id,
              ErrorId::kPermissionDenied);
  }
  EXPECT_EQ(asked, (std::vector<std::string>(4, "fraud")));
  EXPECT_EQ(world_.models->alias(world_.context.project, "fraud", "champion").value(), champion_);
  EXPECT_TRUE(rollouts_->order(world_.context, "next", Order::kHold, forbidden).ok());
  EXPECT_TRUE(rollouts_->order(world_.context, "next", Order::kAbort, forbidden).ok());
}

TEST_F(RolloutsTest, refuses_a_sticky_key_that_requests_do_not_have) {
  declare(world_.register_linear(1, 0));
  world_.apply("Rollout", "typo",
               R"({"deployment":"fraud","candidate":{"version":2},"sticky":"custmer_id"})");
  const auto refused = begin("typo");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("did you mean 'customer_id'?"), std::string::npos)
      << refused.error().message;
}

// An error of either version counts alike, whatever the other makes of the request.
TEST_F(RolloutsTest, counts_both_arms_of_a_shadow_by_one_rule) {
  ill_->armed = true;
  champion_ = world_.register_linear(1, 0);
  world_.promote(champion_);
  ASSERT_TRUE(world_.deployments->tick().ok());
  start(world_.register_linear(1, 0));
  ill_->illness = Illness::kFails;  // Both: they were loaded while it was armed.
  for (std::int64_t i = 0; i < 300; ++i) EXPECT_FALSE(world_.predict(i).ok());
  // Of no arm: the caller forgot the key.
  EXPECT_FALSE(world_.deployments->predict(world_.context.project, "fraud", {}, "req").ok());
  tick();
  tick();
  for (const char* arm : {"champion", "candidate"}) {
    EXPECT_EQ(status().evidence[arm].integer("requests"), 300) << arm;
    EXPECT_EQ(status().evidence[arm].integer("errors"), 300) << arm;
  }
  EXPECT_EQ(status().state, State::kRunning) << status().reason;
}

TEST_F(RolloutsTest, learning_the_cuts_does_not_begin_the_count_anew) {
  start(world_.register_linear(1, 0));
  ask();
  EXPECT_EQ(status().evidence.integer("count"), 1);
  EXPECT_GT(status().evidence["champion"].integer("units"), kCustomers * 98 / 100);
  EXPECT_GT(status().evidence["champion"]["scores"].as_array().size(), 1U);
}

TEST_F(RolloutsTest, is_promoted_by_hand) {
  const std::int64_t next = world_.register_linear(3, 0);
  start(next);
  const auto promoted = order(Order::kPromote);
  ASSERT_TRUE(promoted.ok()) << promoted.error().message;
  EXPECT_EQ(promoted->state, State::kPromoted);
  EXPECT_EQ(world_.predict(1)->version, next);
}

TEST_F(RolloutsTest, ends_when_another_version_is_put_in_place) {
  start(world_.register_linear(1, 0));
  const std::int64_t other = world_.register_linear(2, 0);
  world_.promote(other);
  ASSERT_TRUE(world_.deployments->tick().ok());
  tick();
  EXPECT_EQ(status().state, State::kAborted);
  EXPECT_EQ(world_.predict(1)->version, other);
}

TEST_F(RolloutsTest, ends_with_its_declaration) {
  start(world_.register_linear(1, 0));
  world_.remove("Rollout", "next");
  tick();
  EXPECT_EQ(status().state, State::kAborted);
  EXPECT_EQ(status().reason, "its declaration was deleted");
}

TEST_F(RolloutsTest, refuses_what_cannot_be_rolled_out) {
  declare(champion_);
  EXPECT_EQ(begin("next").error().id, ErrorId::kFailedPrecondition);
  declare(99);
  EXPECT_EQ(begin("next").error().id, ErrorId::kModelNotFound);
  EXPECT_EQ(begin("none").error().code, Code::kNotFound);
  start(world_.register_linear(1, 0));
  EXPECT_EQ(begin("next").error().id, ErrorId::kConflict);
  EXPECT_FALSE(rollouts_->get(world_.context.project, "none").ok());
}

TEST_F(RolloutsTest, a_candidate_that_cannot_be_loaded_ends_it_without_traffic) {
  registry::ModelVersion broken;
  broken.model = "fraud";
  broken.project = "pay";
  broken.zone = "ae";
  ASSERT_TRUE(registry::keep_onnx(*world_.blobs, "no model", broken).ok());
  broken.signature.features = {"amount", "age"};
  broken.feature_service = "svc";
  broken.run = RunId("broken");
  const auto added = world_.models->add_version(world_.context, broken);
  ASSERT_TRUE(added.ok()) << added.error().message;
  start(added->version);
  EXPECT_EQ(status().state, State::kRolledBack);
  EXPECT_NE(status().reason.find("cannot be loaded"), std::string::npos) << status().reason;
  EXPECT_EQ(ask(), 0);
}

// Before a candidate meets anybody it answers what was asked before.
class Replayed : public RolloutsTest {
 protected:
  // Records what the first `customers` ask.
  void record(std::int64_t customers) {
    world_.apply("Deployment", "fraud",
                 R"({"model":"fraud","record":{"share":"100%","requests":1000}})");
    ASSERT_TRUE(world_.deployments->tick().ok());
    for (std::int64_t i = 0; i < customers; ++i) ASSERT_TRUE(world_.predict(i).ok());
  }
  static constexpr std::string_view kTerms = R"(,"replay":{"requests":100,"difference_max":0.5})";
};

TEST_F(Replayed, goes_on_when_answers_are_alike) {
  record(120);
  testing::drained(world_.sink);
  start(world_.register_linear(1, 0.25F), kTerms);
  ASSERT_EQ(status().state, State::kRunning) << status().reason;
  const Value found = status().replay["evidence"];
  EXPECT_EQ(found.integer("answered"), 100);
  EXPECT_DOUBLE_EQ(found.number("difference"), 0.25);
  EXPECT_TRUE(testing::drained(world_.sink).empty()) << "nobody asked";
  EXPECT_EQ(recordings_->count("pay", "fraud").value(), 120) << "a replay is not recorded";
  const auto entries = world_.audited("rollout.replay");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(replay(entries[0]).value().verdict, Verdict::kAdvance);
  auto forged = entries[0];
  forged.detail["replay"]["evidence"]["difference"] = 0.75;
  EXPECT_EQ(replay(forged).error().id, ErrorId::kReplayDiffers);

  make_rollouts();  // As after a crash: what passed is not asked again.
  tick();
  EXPECT_EQ(world_.audited("rollout.replay").size(), 1U);
  EXPECT_NE(world_.deployments->find(world_.context.project, "fraud").value()->split, nullptr);
}

TEST_F(Replayed, refuses_a_candidate_whose_answers_differ) {
  record(100);
  start(world_.register_linear(1, 0.75F), kTerms);
  EXPECT_EQ(status().state, State::kRolledBack);
  EXPECT_EQ(status().reason,
            "the replay: answers differ by 0.75 in the mean and by 0.75 at most; 0.5 is allowed in "
            "the mean");
  EXPECT_EQ(status().replay["decision"].text("outcome"), "refuse");
  EXPECT_EQ(ask(), 0) << "nobody met it";
  const auto entries = world_.audited("rollout.refuse");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(replay(entries[0]).value().verdict, Verdict::kRollback);
}

TEST_F(Replayed, refuses_a_candidate_that_fails_or_gives_no_numbers) {
  record(100);
  const std::int64_t next = world_.register_linear(1, 0);
  ill_->illness = Illness::kGivesNan;
  start(next, kTerms);
  EXPECT_NE(status().reason.find("100 of 100 recorded requests with what is no number"),
            std::string::npos)
      << status().reason;
}

TEST_F(Replayed, refuses_when_too_little_was_recorded) {
  record(99);
  start(world_.register_linear(1, 0), kTerms);
  EXPECT_EQ(status().state, State::kRolledBack);
  EXPECT_EQ(status().reason,
            "the replay: 99 recorded requests could be put to both, 100 are asked for");
}

// A model of two tensors, which gives nothing that could be logged as a score.
class OfTwoTensors : public RolloutsTest {
 protected:
  std::int64_t register_pair(float factor) {
    using namespace testing;
    Proto graph;
    graph.message(1, node("Mul", {"a", "factor"}, {"scaled"}));
    graph.message(1, node("Add", {"scaled", "b"}, {"sum"})).bytes(2, "pair");
    graph.message(5, float_tensor("factor", {1}, {factor}));
    for (const char* input : {"a", "b"}) {
      graph.message(11, value_info(input, kOnnxFloat, {-1, 2}));
    }
    graph.message(12, value_info("sum", kOnnxFloat, {-1, 2}));
    registry::ModelVersion version;
    version.model = "pair";
    version.project = world_.context.project.str();
    version.zone = "ae";
    version.run = RunId("pair-" + std::to_string(factor));
    EXPECT_TRUE(registry::keep_onnx(*world_.blobs, model_bytes(graph, ""), version).ok());
    const auto added = world_.models->add_version(world_.context, version);
    EXPECT_TRUE(added.ok()) << added.error().message;
    return added.ok() ? added->version : 0;
  }
  void deploy_pair() {
    world_.apply("Deployment", "pair", R"({"model":"pair"})");
    const Status moved =
        world_.models->set_alias(world_.context, "pair", "champion", register_pair(1), Value());
    ASSERT_TRUE(moved.ok()) << moved.error().message;
    ASSERT_TRUE(world_.deployments->tick().ok());
  }
};

TEST_F(OfTwoTensors, is_promoted_without_the_guards_that_need_scores) {
  deploy_pair();
  world_.apply("Rollout", "pairs",
               R"({"deployment":"pair","candidate":{"version":)" +
                   std::to_string(register_pair(2)) +
                   R"(},"steps":["50%"],"guard":{"errors":"5%","floor":"100s"},)"
                   R"("step":{"min":"0s"}})");
  const auto started =
      rollouts_->start(world_.context, "pairs", [](const std::string&) { return Status(); });
  ASSERT_TRUE(started.ok()) << started.error().message;
  EXPECT_EQ(started->left_out, (std::vector<std::string>{"nans", "shift"}));
  tick();
  const std::vector<Tensor> inputs{{"a", "FP32", {1, 2}, std::string(8, '\0')},
                                   {"b", "FP32", {1, 2}, std::string(8, '\0')}};
  for (int i = 0; i < 3200; ++i) {
    const auto live = world_.deployments->find(world_.context.project, "pair").value();
    ASSERT_TRUE(world_.deployments->infer(*live, inputs, "request-" + std::to_string(i)).ok());
  }
  tick();
  const RolloutStatus ended = rollouts_->get(world_.context.project, "pairs").value();
  EXPECT_EQ(ended.state, State::kPromoted) << ended.reason;
}

TEST_F(OfTwoTensors, has_no_key_to_be_sticky_by) {
  deploy_pair();
  world_.apply("Rollout", "pairs",
               R"({"deployment":"pair","candidate":{"version":)" +
                   std::to_string(register_pair(2)) + R"(},"sticky":"customer_id"})");
  const auto refused =
      rollouts_->start(world_.context, "pairs", [](const std::string&) { return Status(); });
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("leave sticky out"), std::string::npos)
      << refused.error().message;
}

TEST(RolloutKind, replays_what_its_deployment_records) {
  storage::Object rollout;
  rollout.name = "next";
  storage::Object deployment;
  deployment.name = "fraud";
  const auto find = [&](const storage::Reference& wanted) {
    return wanted.kind == "Deployment" ? &deployment : nullptr;
  };
  const auto checked = [&](std::string_view replay, std::string_view record) -> std::string {
    rollout.spec = features::json(R"({"deployment":"fraud","candidate":{"version":7},"replay":)" +
                                  std::string(replay) + "}");
    deployment.spec = features::json(R"({"model":"fraud")" + std::string(record) + "}");
    const Status done = kind().check_beside(rollout, find);
    return done.ok() ? "" : done.error().message;
  };
  constexpr std::string_view kTerms = R"({"requests":200,"difference_max":0.05})";
  EXPECT_EQ(checked(kTerms, R"(,"record":{"requests":200})"), "");
  EXPECT_NE(checked(kTerms, R"(,"record":{"requests":199})").find("records 199"),
            std::string::npos);
  EXPECT_NE(checked(kTerms, "").find("records none"), std::string::npos);
  for (const char* wrong :
       {R"({"requests":5})", R"({"difference_max":1})", R"({"requests":0,"difference_max":1})",
        R"({"requests":5,"difference_max":-1})"}) {
    EXPECT_NE(checked(wrong, R"(,"record":{})"), "") << wrong;
  }
  for (const char* wrong : {R"({"share":"0%"})", R"({"share":"101%"})", R"({"age":"1s"})",
                            R"({"age":"91d"})", R"({"requests":10001})", R"({"shar":"1%"})"}) {
    EXPECT_NE(checked(kTerms, R"(,"record":)" + std::string(wrong)), "") << wrong;
  }
}

TEST(RolloutKind, reads_the_declaration_strictly) {
  const auto decoded = [](std::string_view spec) {
    storage::Object object;
    object.name = "next";
    object.spec = features::json(spec);
    return decode_rollout(object);
  };
  const auto full =
      decoded(R"({"deployment":"fraud","candidate":{"version":7},"steps":["shadow","1%","50%"],)"
              R"("sticky":"customer_id","guard":{"errors":"0.5%","p99":"+30%","floor":"2ms"},)"
              R"("step":{"min":"1m","max":"2h","requests":50},"alpha":"2%","approve":true})");
  ASSERT_TRUE(full.ok()) << full.error().message;
  EXPECT_EQ(full->version, 7);
  EXPECT_EQ(full->policy.steps, (std::vector<double>{0, 0.01, 0.5}));
  EXPECT_EQ(full->policy.margins.latency, 0.3);
  EXPECT_EQ(full->policy.approval, Approval::kNeeded);
  for (const char* wrong : {
           R"({"candidate":{"version":7}})",
           R"({"deployment":"fraud"})",
           R"({"deployment":"fraud","candidate":{"version":7},"steps":["5%","shadow"]})",
           R"({"deployment":"fraud","candidate":{"version":7},"steps":["5%","1%"]})",
           R"({"deployment":"fraud","candidate":{"version":7},"steps":["100%"]})",
           R"({"deployment":"fraud","candidate":{"version":7},"guard":{"p99":"20%"}})",
           R"({"deployment":"fraud","candidate":{"version":7},"guard":{"speed":"20%"}})",
           R"({"deployment":"fraud","candidate":{"version":7},"step":{"min":"2h","max":"1h"}})",
           R"({"deployment":"fraud","candidate":{"version":7},"alpha":"0%"})",
           R"({"deployment":"fraud","candidate":{"version":7},"primary":{"metric":"auc"}})",
       }) {
    EXPECT_FALSE(decoded(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace falaj::serving::rollout
