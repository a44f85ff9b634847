#include <gtest/gtest.h>

#include "serving/internal/deployments_impl.h"
#include "serving/testing/linear_version.h"

namespace falaj::serving {
namespace {

constexpr std::int64_t kMi = 1 << 20;

// As one in a process of its own.
class ApartSession final : public Session {
 public:
  explicit ApartSession(std::unique_ptr<Session> inner) : inner_(std::move(inner)) {}
  const registry::Signature& signature() const override { return inner_->signature(); }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    return inner_->run(inputs);
  }
  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    return inner_->score(matrix, columns, scores);
  }
  bool may_wait() const override { return true; }

 private:
  std::unique_ptr<Session> inner_;
};

// Loads count as 8 MiB each, whatever they take here.
class CountingRuntime final : public Runtime {
 public:
  explicit CountingRuntime(Runtime& inner) : inner_(inner) {}
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    ++loads;
    allocated += 8 * kMi;
    if (!apart) return inner_.load_bytes(model);
    return std::unique_ptr<Session>(
        std::make_unique<ApartSession>(FALAJ_TRY(inner_.load_bytes(model))));
  }
  std::string version() const override { return inner_.version(); }

  bool apart = false;
  int loads = 0;
  std::int64_t allocated = 0;

 private:
  Runtime& inner_;
};

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { limit(20 * kMi); }
  void TearDown() override { world_.deployments.reset(); }  // Before its runtime.

  void limit(std::int64_t bytes) {
    world_.deployments =
        std::make_unique<Deployments>(*world_.sql, *world_.models, *world_.online, runtime_,
                                      world_.sink, world_.audit, world_.metrics, world_.clock);
    world_.deployments->limit({2, {bytes, nullptr, [this] { return runtime_.allocated; }}});
  }
  void tick() {
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
    world_.clock.advance(Duration::seconds(2));
  }
  void add_version(const std::string& model, float weight) {
    testing::add_linear(world_, model, {weight, 1});
  }
  // A model with a deployment of its name.
  void declare(const std::string& name, const std::string& more = "") {
    add_version(name, static_cast<float>(++models_));
    redeclare(name, 1, more);
  }
  void redeclare(const std::string& name, int version, const std::string& more = "") {
    world_.apply("Deployment", name,
                 R"({"model":")" + name + R"(","version":)" + std::to_string(version) + more + "}");
  }
  DeploymentStatus status(const std::string& name) const {
    for (const DeploymentStatus& each : world_.deployments->status()) {
      if (each.name == name) return each;
    }
    return {};
  }
  // Asks as a request does.
  Result<std::int64_t> ask(const std::string& name) {
    const auto live = FALAJ_TRY(world_.deployments->find_awake(world_.context.project, name));
    Tensor input{"input", "FP32", {1, 2}, std::string(8, '\0')};
    const Inference answer = FALAJ_TRY(world_.deployments->infer(*live, {&input, 1}, "r"));
    world_.clock.advance(Duration::seconds(2));
    return answer.version;
  }
  std::string states(const std::vector<std::string>& names) const {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : " ") + status(name).state;
    return all;
  }
  bool shows(const std::string& series) {
    return world_.metrics.exposition().find(series) != std::string::npos;
  }

  testing::ServingWorld world_;
  CountingRuntime runtime_{*world_.runtime};
  int models_ = 0;
  const std::string leaves_ = R"(,"scale":{"when_full":"unload"})";
};

TEST_F(MemoryTest, what_does_not_fit_is_refused_before_it_is_loaded) {
  declare("a");
  declare("b");
  tick();
  EXPECT_EQ(status("a").memory_bytes, 8 * kMi) << "measured";
  EXPECT_EQ(world_.audited("deployment.serve").at(0).detail["memory_bytes"].as_int(), 8 * kMi);
  declare("c");
  tick();  // A guess lets it in, and what it took does not.
  EXPECT_EQ(states({"a", "b", "c"}), "ready ready failed");
  EXPECT_NE(status("c").error.find("model 'c' version 1 needs about 8.0 MiB"), std::string::npos)
      << status("c").error;
  EXPECT_EQ(runtime_.loads, 3);
  world_.clock.advance(Duration::minutes(1));
  tick();
  EXPECT_EQ(states({"a", "b", "c"}), "ready ready failed");
  EXPECT_EQ(runtime_.loads, 3) << "its need is known now: nothing was loaded";
  EXPECT_TRUE(shows("falaj_serving_memory_bytes 16777216"));
  EXPECT_TRUE(shows("falaj_serving_memory_limit_bytes 20971520"));
  EXPECT_TRUE(shows("falaj_serving_memory_refused_total 1"));
  EXPECT_EQ(ask("c").error().id, ErrorId::kModelNotReady);
  EXPECT_TRUE(ask("a").ok());

  ASSERT_TRUE(world_.deployments->unload(world_.context, "a").ok());
  ASSERT_TRUE(world_.deployments->load(world_.context, "c").ok()) << status("c").error;
  EXPECT_TRUE(ask("c").ok());
}

TEST_F(MemoryTest, a_file_whose_size_alone_is_too_much_is_never_opened) {
  limit(kMi);
  declare("a");
  tick();
  EXPECT_EQ(status("a").state, "failed");
  EXPECT_EQ(runtime_.loads, 0);
}

TEST_F(MemoryTest, a_new_version_that_does_not_fit_leaves_the_old_one_serving) {
  declare("a");
  declare("b");
  tick();
  add_version("a", 7);
  redeclare("a", 2);
  tick();
  EXPECT_EQ(status("a").version, 1);
  EXPECT_EQ(status("a").state, "failed");
  EXPECT_EQ(ask("a").value(), 1);
  EXPECT_EQ(world_.audited("deployment.fail").at(0).detail["still_serving"].as_int(), 1);
}

TEST_F(MemoryTest, what_is_declared_no_more_gives_its_memory_back) {
  declare("a");
  declare("b");
  tick();
  ASSERT_TRUE(world_.deployments->unload(world_.context, "a").ok());
  ASSERT_TRUE(world_.deployments->unload(world_.context, "b").ok());
  declare("c");
  declare("d");
  tick();
  EXPECT_EQ(states({"c", "d"}), "ready ready");
}

TEST_F(MemoryTest, more_models_than_fit_take_turns_and_the_least_recently_used_leaves) {
  for (const char* name : {"a", "b", "c"}) declare(name, leaves_);
  tick();
  EXPECT_EQ(states({"a", "b", "c"}), "ready ready idle") << "it comes when somebody asks";
  EXPECT_EQ(status("c").error, "");
  EXPECT_EQ(status("c").memory_bytes, 8 * kMi) << "what it will need";
  EXPECT_TRUE(world_.deployments->unready().empty());
  ASSERT_TRUE(ask("b").ok());
  ASSERT_TRUE(ask("a").ok());
  const std::weak_ptr<Session> session =
      world_.deployments->find(world_.context.project, "b").value()->session;
  ASSERT_TRUE(ask("c").ok()) << status("c").error;
  EXPECT_EQ(states({"a", "b", "c"}), "ready idle ready");
  EXPECT_TRUE(session.expired()) << "its memory is given back";
  ASSERT_TRUE(ask("b").ok());
  EXPECT_EQ(states({"a", "b", "c"}), "idle ready ready");
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(states({"a", "b", "c"}), "idle ready ready") << "nobody asked";
  EXPECT_TRUE(shows(R"(falaj_serving_memory_unloads_total{project="pay",deployment="b"} 1)"));
  EXPECT_TRUE(shows("falaj_serving_memory_bytes 16777216"));
  const auto idle = world_.audited("deployment.idle");
  ASSERT_EQ(idle.size(), 3U) << "c never came, b and a left";
  EXPECT_EQ(idle[1].detail["reason"].as_string(), "memory");
}

TEST_F(MemoryTest, one_that_stays_is_not_unloaded_and_comes_first) {
  declare("a", leaves_);
  declare("b", leaves_);
  tick();
  declare("z");
  tick();
  EXPECT_EQ(states({"a", "b", "z"}), "idle ready ready");
  declare("y");
  tick();
  EXPECT_EQ(states({"a", "b", "y", "z"}), "idle idle ready ready");
  EXPECT_EQ(ask("a").error().id, ErrorId::kModelNotReady) << "nobody leaves for it";
  EXPECT_NE(status("a").error.find("needs about"), std::string::npos);
  EXPECT_EQ(status("a").state, "idle") << "asked again later, it may find room";
  limit(20 * kMi);  // As after a start.
  tick();
  EXPECT_EQ(states({"a", "b", "y", "z"}), "idle idle ready ready");
}

TEST_F(MemoryTest, one_at_work_does_not_leave) {
  for (const char* name : {"a", "b", "c"}) declare(name, leaves_);
  tick();
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(ask(name).ok());
    world_.clock.advance(Duration::seconds(-2));
  }
  EXPECT_FALSE(ask("c").ok());
  EXPECT_EQ(states({"a", "b", "c"}), "ready ready idle");
  world_.clock.advance(Duration::seconds(1));
  EXPECT_TRUE(ask("c").ok());
}

TEST_F(MemoryTest, memory_that_becomes_free_brings_back_what_was_used_last) {
  for (const char* name : {"a", "b", "c", "d"}) declare(name, leaves_);
  tick();
  for (const char* name : {"c", "d", "a", "b"}) ASSERT_TRUE(ask(name).ok());
  EXPECT_EQ(states({"a", "b", "c", "d"}), "ready ready idle idle");
  ASSERT_TRUE(world_.deployments->unload(world_.context, "a").ok());
  const int loads = runtime_.loads;
  tick();
  EXPECT_EQ(states({"b", "c", "d"}), "ready idle ready");
  EXPECT_EQ(runtime_.loads, loads + 1);
  EXPECT_TRUE(shows(R"(falaj_serving_memory_prefetches_total{project="pay",deployment="d"} 1)"));
}

TEST_F(MemoryTest, a_moved_version_is_fetched_before_the_others) {
  for (const char* name : {"a", "b", "c", "d"}) declare(name, leaves_);
  tick();
  for (const char* name : {"c", "d", "a", "b"}) ASSERT_TRUE(ask(name).ok());
  add_version("c", 9);
  redeclare("c", 2, leaves_);
  ASSERT_TRUE(world_.deployments->unload(world_.context, "a").ok());
  tick();
  EXPECT_EQ(states({"b", "c", "d"}), "ready ready idle");
  EXPECT_EQ(status("c").version, 2);
}

TEST_F(MemoryTest, a_candidate_of_a_rollout_makes_others_leave_too) {
  declare("a");
  declare("b", leaves_);
  tick();
  add_version("a", 5);
  const auto candidate = world_.deployments->prepare(world_.context.project, "a", 2, nullptr);
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  EXPECT_EQ(states({"a", "b"}), "ready idle");
}

TEST_F(MemoryTest, one_in_a_process_of_its_own_is_counted_by_its_file) {
  runtime_.apart = true;
  declare("a");
  tick();
  const registry::ModelVersion version = world_.models->get(world_.context.project, "a", 1).value();
  EXPECT_EQ(status("a").memory_bytes,
            budget::guessed_need(world_.models->onnx_bytes(version).value()))
      << "what this process allocated meanwhile is not the model's";
}

TEST_F(MemoryTest, what_serves_already_needs_no_room_again) {
  limit(28 * kMi);
  add_version("a", 3);
  declare("a", R"(,"versions":"all")");
  declare("b", leaves_);
  tick();
  EXPECT_EQ(states({"a", "b"}), "ready ready");
  EXPECT_EQ(status("a").memory_bytes, 16 * kMi);
  add_version("a", 9);
  tick();
  EXPECT_EQ(states({"a", "b"}), "ready idle") << "one that leaves is enough: " << status("a").error;
  EXPECT_EQ(status("a").memory_bytes, 24 * kMi);
}

TEST_F(MemoryTest, a_fallback_that_stays_needs_no_room_again) {
  limit(28 * kMi);
  add_version("cheap", 3);
  const std::string fallback = R"(,"fallback":{"model":"cheap","version":1})";
  declare("a", fallback);
  declare("b", leaves_);
  tick();
  EXPECT_EQ(states({"a", "b"}), "ready ready");
  add_version("a", 9);
  redeclare("a", 2, fallback);
  tick();
  EXPECT_EQ(states({"a"}), "ready") << status("a").error;
  EXPECT_EQ(status("a").version, 2) << "room for one more is enough";
}

TEST(Scale, says_whether_it_leaves_when_memory_is_full) {
  using WhenFull = Deployment::WhenFull;
  const auto decoded = [](const std::string& scale) {
    storage::Object object;
    object.name = "fraud";
    object.spec = parse_json(R"({"model":"fraud")" + scale + "}").value();
    return decode_deployment(object);
  };
  EXPECT_EQ(decoded("")->when_full, WhenFull::kStay);
  EXPECT_EQ(decoded(R"(,"scale":{"idle":"10m"})")->when_full, WhenFull::kUnload);
  EXPECT_EQ(decoded(R"(,"scale":{"idle":"10m","when_full":"stay"})")->when_full, WhenFull::kStay);
  EXPECT_EQ(decoded(R"(,"scale":{"when_full":"unload"})")->when_full, WhenFull::kUnload);
  EXPECT_FALSE(decoded(R"(,"scale":{"when_full":"maybe"})").ok());
}

}  // namespace
}  // namespace falaj::serving
