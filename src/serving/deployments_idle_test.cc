#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "serving/internal/deployments_impl.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

using Rest = Slot::Rest;

TEST(Rest, comes_in_two_steps_after_the_declared_time_and_ends_with_a_request) {
  const Duration idle = Duration::minutes(10);
  const Timestamp now = Timestamp::from_seconds(1'780'000'000);
  const auto ago = [now](std::int64_t minutes) { return now - Duration::minutes(minutes); };
  EXPECT_EQ(rest_of(idle, ago(9), now, Rest::kAwake), Rest::kAwake);
  EXPECT_EQ(rest_of(idle, ago(10), now, Rest::kAwake), Rest::kDrowsy);
  EXPECT_EQ(rest_of(idle, ago(11), now, Rest::kDrowsy), Rest::kAsleep);
  EXPECT_EQ(rest_of(idle, ago(1), now, Rest::kDrowsy), Rest::kAwake) << "somebody asked";
  EXPECT_EQ(rest_of(idle, ago(1), now, Rest::kAsleep), Rest::kAsleep) << "until somebody asks";
  EXPECT_EQ(rest_of(Duration{}, ago(1'000'000), now, Rest::kAwake), Rest::kAwake);
  EXPECT_EQ(rest_of(Duration{}, ago(11), now, Rest::kAsleep), Rest::kAwake) << "not declared now";
  EXPECT_EQ(rest_of(idle, ago(0), now, Rest::kWaking), Rest::kAwake);
}

// Counts what is loaded, and holds it while it is told to.
class HeldRuntime final : public Runtime {
 public:
  explicit HeldRuntime(Runtime& inner) : inner_(inner) {}
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    {
      MutexLock lock(mutex_);
      ++loads_;
      changed_.notify_all();
      changed_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return !held_; });
    }
    return inner_.load_bytes(model);
  }
  std::string version() const override { return inner_.version(); }

  void hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void release() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void wait_for_loads(int count) {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() FALAJ_REQUIRES(mutex_) { return loads_ >= count; });
  }
  int loads() {
    MutexLock lock(mutex_);
    return loads_;
  }

 private:
  Runtime& inner_;
  Mutex mutex_;
  CondVar changed_;
  int loads_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool held_ FALAJ_GUARDED_BY(mutex_) = false;
};

class IdleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.deployments =
        std::make_unique<Deployments>(*world_.sql, *world_.models, *world_.online, runtime_,
                                      world_.sink, world_.audit, world_.metrics, world_.clock);
    world_.apply_customers();
    ASSERT_TRUE(world_.append("activity", "customer_id,at,amount,age\n1,2026-01-01,10,30\n").ok());
    declare(R"({"model":"fraud","scale":{"idle":"10m"}})");
    world_.promote(world_.register_linear(1, 0));
    tick();
    ASSERT_EQ(status().state, "ready");
  }
  void TearDown() override { world_.deployments.reset(); }  // Before its runtime.

  void declare(const std::string& spec) { world_.apply("Deployment", "fraud", spec); }
  void tick() {
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }
  void fall_asleep() {
    world_.clock.advance(Duration::minutes(11));
    tick();
    tick();
    ASSERT_EQ(status().state, "idle");
  }
  DeploymentStatus status() const { return world_.deployments->status().at(0); }
  bool is_idle() const { return world_.deployments->is_idle(world_.context.project, "fraud"); }
  Result<std::shared_ptr<const LiveModel>> wake(Timestamp deadline = Timestamp::max()) const {
    return world_.deployments->find_awake(world_.context.project, "fraud", deadline);
  }
  bool shows(const std::string& series) {
    return world_.metrics.exposition().find(series) != std::string::npos;
  }

  testing::ServingWorld world_;
  HeldRuntime runtime_{*world_.runtime};
};

TEST_F(IdleTest, a_model_that_nobody_asks_is_unloaded_and_the_next_request_loads_it) {
  ASSERT_TRUE(world_.predict(1).ok());
  const std::weak_ptr<Session> session = wake().value()->session;
  world_.clock.advance(Duration::minutes(9));
  tick();
  EXPECT_FALSE(is_idle());
  world_.clock.advance(Duration::minutes(2));
  tick();
  EXPECT_TRUE(is_idle()) << "a warning first: it still answers";
  EXPECT_TRUE(world_.deployments->may_wait("fraud"));
  EXPECT_TRUE(world_.deployments->may_wait(world_.context.project.str() + ".fraud"));
  EXPECT_FALSE(world_.deployments->may_wait("other.fraud"));
  EXPECT_FALSE(world_.deployments->may_wait("myfraud"));
  EXPECT_TRUE(world_.deployments->find(world_.context.project, "fraud").ok());
  tick();
  EXPECT_TRUE(session.expired()) << "its memory is given back";
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(runtime_.loads(), 1) << "nobody loads it but who asks";
  EXPECT_EQ(status().state, "idle");
  EXPECT_EQ(status().version, 1);
  EXPECT_TRUE(world_.deployments->unready().empty());
  EXPECT_EQ(world_.predict(1).error().id, ErrorId::kModelNotReady) << "find() never loads";
  EXPECT_EQ(world_.audited("deployment.idle").size(), 1U);

  const auto live = wake();
  ASSERT_TRUE(live.ok()) << live.error().message;
  EXPECT_FALSE(is_idle());
  EXPECT_FALSE(world_.deployments->may_wait("fraud"));
  EXPECT_EQ(world_.predict(1)->score, 40);
  EXPECT_EQ(status().state, "ready");
  EXPECT_EQ(runtime_.loads(), 2);
  EXPECT_TRUE(shows(R"(falaj_serving_idle_wakes_total{project="pay",deployment="fraud"} 1)"));
  EXPECT_TRUE(shows(R"(falaj_serving_idle_unloads_total{project="pay",deployment="fraud"} 1)"));
  EXPECT_TRUE(
      shows(R"(falaj_serving_idle_held_seconds_count{project="pay",deployment="fraud"} 1)"));
  tick();
  EXPECT_EQ(status().state, "ready") << "the time counts from when it was loaded";
}

TEST_F(IdleTest, a_request_before_it_is_unloaded_keeps_it) {
  world_.clock.advance(Duration::minutes(11));
  tick();
  ASSERT_TRUE(is_idle());
  ASSERT_TRUE(world_.predict(1).ok());
  tick();
  EXPECT_FALSE(is_idle());
  EXPECT_EQ(status().state, "ready");
  EXPECT_EQ(runtime_.loads(), 1);
}

TEST_F(IdleTest, many_who_ask_at_once_wait_for_one_load) {
  fall_asleep();
  runtime_.hold();
  std::atomic<int> answered = 0;
  std::vector<std::thread> asking;
  for (int i = 0; i < 8; ++i) {
    asking.emplace_back([&] {
      if (wake().ok()) ++answered;
    });
  }
  runtime_.wait_for_loads(2);
  EXPECT_EQ(answered, 0);
  EXPECT_TRUE(is_idle()) << "who comes now waits off the event loop too";
  runtime_.release();
  for (std::thread& each : asking) each.join();
  EXPECT_EQ(answered, 8);
  EXPECT_EQ(runtime_.loads(), 2);
  EXPECT_TRUE(shows(R"(falaj_serving_idle_wakes_total{project="pay",deployment="fraud"} 1)"));
}

TEST_F(IdleTest, who_waits_for_it_does_so_to_its_deadline) {
  fall_asleep();
  runtime_.hold();
  std::thread first([this] { EXPECT_TRUE(wake().ok()); });
  runtime_.wait_for_loads(2);
  EXPECT_EQ(wake(world_.clock.now()).error().id, ErrorId::kOverloaded);
  EXPECT_EQ(wake(world_.clock.now() + Duration::milliseconds(1)).error().id, ErrorId::kOverloaded);
  runtime_.release();
  first.join();
  EXPECT_TRUE(wake(world_.clock.now()).ok()) << "nothing to wait for";
}

TEST_F(IdleTest, what_is_loaded_is_what_is_wanted_by_then) {
  fall_asleep();
  world_.promote(world_.register_linear(2, 0));
  tick();
  EXPECT_EQ(status().state, "idle");
  EXPECT_EQ(wake().value()->version.version, 2);
}

TEST_F(IdleTest, one_that_cannot_be_loaded_again_says_why_and_is_tried_like_any_other) {
  fall_asleep();
  registry::ModelVersion broken;
  broken.model = "fraud";
  broken.project = world_.context.project.str();
  broken.zone = world_.context.zone.name();
  ASSERT_TRUE(registry::keep_onnx(*world_.blobs, "this is no model", broken).ok());
  broken.run = RunId("broken");
  world_.promote(world_.models->add_version(world_.context, broken)->version);
  EXPECT_EQ(wake().error().id, ErrorId::kModelNotReady);
  EXPECT_EQ(status().state, "failed");
  EXPECT_FALSE(is_idle());
  world_.promote(1);
  tick();
  EXPECT_EQ(status().state, "ready");
}

TEST_F(IdleTest, one_that_is_declared_to_stay_is_loaded_at_the_next_look) {
  fall_asleep();
  declare(R"({"model":"fraud"})");
  tick();
  EXPECT_EQ(status().state, "ready");
  world_.clock.advance(Duration::hours(1000));
  tick();
  tick();
  EXPECT_EQ(status().state, "ready");
}

TEST_F(IdleTest, unloading_and_loading_by_hand_go_before) {
  fall_asleep();
  ASSERT_TRUE(world_.deployments->unload(world_.context, "fraud").ok());
  EXPECT_FALSE(is_idle());
  EXPECT_FALSE(wake().ok()) << "until somebody loads it";
  ASSERT_TRUE(world_.deployments->load(world_.context, "fraud").ok());
  fall_asleep();
  ASSERT_TRUE(world_.deployments->load(world_.context, "fraud").ok());
  EXPECT_EQ(status().state, "ready");
}

TEST_F(IdleTest, the_champion_of_a_rollout_stays) {
  const auto split = std::make_shared<rollout::Split>();
  ASSERT_TRUE(world_.deployments->share(world_.context.project, "fraud", 1, split).ok());
  world_.clock.advance(Duration::minutes(11));
  tick();
  tick();
  EXPECT_EQ(status().state, "ready");
  EXPECT_FALSE(is_idle());
}

// As one in a process of its own.
class WaitingSession final : public Session {
 public:
  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor>) const override {
    return Error(Code::kUnimplemented, "");
  }
  Status score(std::span<const float>, std::size_t, std::vector<float>&) const override {
    return Error(Code::kUnimplemented, "");
  }
  bool may_wait() const override { return true; }

 private:
  registry::Signature signature_;
};

TEST_F(IdleTest, whatever_may_answer_is_asked_whether_it_waits) {
  const auto waits_with = [this](const std::shared_ptr<LiveModel>& candidate) {
    const auto split = std::make_shared<rollout::Split>();
    split->candidate = candidate;
    EXPECT_TRUE(world_.deployments->share(world_.context.project, "fraud", 1, split).ok());
    return world_.deployments->may_wait("fraud");
  };
  const std::shared_ptr<const LiveModel> live = wake().value();
  const auto waiting = std::make_shared<LiveModel>(*live);
  waiting->session = std::make_shared<WaitingSession>();
  const auto candidate = std::make_shared<LiveModel>(*live);
  EXPECT_FALSE(waits_with(candidate));
  EXPECT_TRUE(waits_with(waiting));
  candidate->fallback = waiting;
  EXPECT_TRUE(waits_with(candidate));
  const auto with_others = std::make_shared<LiveModel>(*live);
  with_others->others = {live, waiting};
  EXPECT_TRUE(waits_with(with_others));
  ASSERT_TRUE(world_.deployments->share(world_.context.project, "fraud", 1, nullptr).ok());
  EXPECT_FALSE(world_.deployments->may_wait("fraud"));
}

TEST(Scale, has_a_time_within_bounds) {
  const auto decoded = [](const std::string& idle) {
    storage::Object object;
    object.name = "fraud";
    object.spec["model"] = "fraud";
    object.spec["scale"]["idle"] = idle;
    return decode_deployment(object);
  };
  EXPECT_EQ(decoded("10m")->idle, Duration::minutes(10));
  EXPECT_EQ(decoded("1s")->idle, Duration::seconds(1));
  for (const char* wrong : {"0s", "999ms", "366d", "soon"}) {
    EXPECT_FALSE(decoded(wrong).ok()) << wrong;
  }
  storage::Object other;
  other.name = "fraud";
  other.spec["model"] = "fraud";
  other.spec["scale"]["idel"] = "10m";
  EXPECT_FALSE(decode_deployment(other).ok());
}

}  // namespace
}  // namespace falaj::serving
