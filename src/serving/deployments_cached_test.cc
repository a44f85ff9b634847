// Deployments that keep their answers: what is a hit, what is dropped, what is counted.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "serving/deployments.h"
#include "serving/internal/deployments_impl.h"
#include "serving/testing/drained.h"
#include "serving/testing/held_session.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

using testing::ServingWorld;
using Cache = Inference::Cache;

class CachedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    declare(R"("cache":{"bytes":"1Mi"})");
  }
  void declare(const std::string& more) {
    world_.apply("Deployment", "fraud", R"({"model":"fraud",)" + more + "}");
  }
  void tick() { ASSERT_TRUE(world_.deployments->tick().ok()); }
  void serve(std::int64_t version) {
    world_.promote(version);
    tick();
  }
  std::shared_ptr<const LiveModel> live() const {
    return world_.deployments->find(world_.context.project, "fraud").value();
  }
  static InferJob job(float amount, const std::string& tenant = "ann") {
    InferJob made;
    const std::array<float, 2> row{amount, 1};
    made.inputs = {{"input", "FP32", {1, 2}, std::string(8, '\0')}};
    std::memcpy(made.inputs[0].bytes.data(), row.data(), 8);
    static int asked = 0;
    made.request_id = "req" + std::to_string(++asked);
    made.tenant = tenant;
    return made;
  }
  Result<Inference> ask(InferJob asked) const {
    std::optional<Result<Inference>> answer;
    world_.deployments->infer(live(), std::move(asked),
                              [&](Result<Inference> got) { answer = std::move(got); });
    return std::move(answer).value();
  }
  // How it was answered, with what.
  std::pair<Cache, float> answer(float amount, const std::string& tenant = "ann") const {
    const Result<Inference> got = ask(job(amount, tenant));
    EXPECT_TRUE(got.ok()) << got.error().message;
    return {got->cache, testing::value_of(got->outputs[0])};
  }
  DeploymentStatus status() const { return world_.deployments->status().at(0); }

  ServingWorld world_;
};

using Got = std::pair<Cache, float>;

TEST_F(CachedTest, answers_an_equal_question_without_the_model_and_counts_it_so) {
  serve(world_.register_linear(2, 5));
  EXPECT_EQ(answer(10), Got(Cache::kMiss, 26));
  EXPECT_EQ(answer(10), Got(Cache::kHit, 26));
  EXPECT_EQ(answer(11), Got(Cache::kMiss, 28));
  EXPECT_EQ(status().requests, 3U);
  EXPECT_EQ(status().rows, 2U) << "a row that was kept was not predicted";
  EXPECT_EQ(status().cache_hits, 1U);
  EXPECT_EQ(status().cache_misses, 2U);
  EXPECT_GT(status().cache_hit_seconds, 0);
  EXPECT_EQ(testing::drained(world_.sink).size(), 3U) << "monitors see every answer";
}

TEST_F(CachedTest, keeps_nothing_unless_it_is_declared) {
  declare(R"("alias":"champion")");
  serve(world_.register_linear(2, 5));
  EXPECT_EQ(answer(10), Got(Cache::kNone, 26));
  EXPECT_EQ(answer(10), Got(Cache::kNone, 26));
  EXPECT_EQ(status().cache_hits + status().cache_misses, 0U);
}

TEST_F(CachedTest, a_caller_has_its_own_answers_unless_the_project_shares_them) {
  serve(world_.register_linear(2, 5));
  EXPECT_EQ(answer(10, "ann").first, Cache::kMiss);
  EXPECT_EQ(answer(10, "bob").first, Cache::kMiss);
  EXPECT_EQ(answer(10, "bob").first, Cache::kHit);
  declare(R"("cache":{"bytes":"1Mi","shared":"project"})");
  tick();
  EXPECT_EQ(answer(10, "ann").first, Cache::kMiss) << "what was one caller's stays so";
  EXPECT_EQ(answer(10, "bob").first, Cache::kHit);
}

TEST_F(CachedTest, another_version_never_gives_the_answers_of_the_one_before) {
  const std::int64_t first = world_.register_linear(2, 5);
  const std::int64_t second = world_.register_linear(3, 5);
  serve(first);
  EXPECT_EQ(answer(10), Got(Cache::kMiss, 26));
  serve(second);
  EXPECT_EQ(answer(10), Got(Cache::kMiss, 36));
  EXPECT_EQ(answer(10), Got(Cache::kHit, 36));
  serve(first);
  EXPECT_EQ(answer(10), Got(Cache::kHit, 26)) << "a rollback finds what it had";
}

TEST_F(CachedTest, the_arms_of_a_rollout_have_their_own_answers) {
  serve(world_.register_linear(2, 5));
  EXPECT_EQ(answer(10), Got(Cache::kMiss, 26));
  const std::int64_t second = world_.register_linear(3, 5);
  auto split = std::make_shared<rollout::Split>();
  split->share = 1;
  split->tensors = rollout::Split::Tensors::kFit;
  split->candidate =
      world_.deployments->prepare(world_.context.project, "fraud", second, nullptr).value();
  split->counters =
      std::make_shared<rollout::StepCounters>(rollout::StepKind::kShared, std::vector<float>{});
  ASSERT_TRUE(world_.deployments->share(world_.context.project, "fraud", 1, split).ok());
  EXPECT_EQ(answer(10), Got(Cache::kMiss, 36));
  EXPECT_EQ(answer(10), Got(Cache::kHit, 36));
  rollout::Evidence evidence;
  split->counters->observe(world_.clock.now(), evidence);
  EXPECT_EQ(evidence.whole.candidate.units, 2);
  std::int64_t timed = 0;
  for (const auto& bin : evidence.whole.candidate.latency) timed += bin.count;
  EXPECT_EQ(timed, 1) << "a kept answer is an answer, and no evidence of speed";
  split->stopped = true;
  EXPECT_EQ(answer(10), Got(Cache::kHit, 26));
}

TEST_F(CachedTest, failures_are_not_kept) {
  serve(world_.register_linear(2, 5));
  InferJob wrong = job(1);
  wrong.inputs[0].shape = {1, 3};
  wrong.inputs[0].bytes.resize(12);
  EXPECT_FALSE(ask(wrong).ok());
  EXPECT_FALSE(ask(wrong).ok());
  EXPECT_EQ(status().errors, 2U);
  EXPECT_EQ(status().cache_hits, 0U);
  EXPECT_EQ(live()->cached->answers->bytes(), 0U);
}

TEST_F(CachedTest, is_dropped_when_someone_is_erased_and_when_who_may_ask_changes) {
  serve(world_.register_linear(2, 5));
  tick();  // Has seen the grants as they are.
  const auto kept = [&] {
    EXPECT_EQ(answer(10).first, Cache::kMiss);
    EXPECT_EQ(answer(10).first, Cache::kHit);
  };
  kept();
  world_.deployments->drop_answers(ProjectName("another"));
  EXPECT_EQ(answer(10).first, Cache::kHit);
  world_.deployments->drop_answers(world_.context.project);
  kept();
  world_.apply("Grant", "g", R"({"to":["user:ann"],"roles":["viewer"]})");
  tick();
  kept();
  tick();
  EXPECT_EQ(answer(10).first, Cache::kHit) << "nothing has changed since";
  ASSERT_TRUE(world_.deployments->unload(world_.context, "fraud").ok());
  ASSERT_TRUE(world_.deployments->load(world_.context, "fraud").ok());
  kept();
  world_.deployments->forget(world_.context.project, "fraud");
  tick();
  kept();
}

// Another size is declared, and the model of that declaration cannot be had: what serves goes on
// with the cache from before.
TEST_F(CachedTest, is_dropped_too_when_a_reload_failed) {
  const std::int64_t first = world_.register_linear(2, 5);
  const std::string other_size =
      R"("cache":{"bytes":"2Mi"},"alias":"nobody","scale":{"idle":"1h"})";
  const auto fill = [&] {
    EXPECT_EQ(answer(10).first, Cache::kMiss);
    EXPECT_EQ(answer(10).first, Cache::kHit);
  };
  for (const std::string& more : {other_size, std::string(R"("alias":"nobody")")}) {
    declare(R"("cache":{"bytes":"1Mi"})");
    serve(first);
    world_.deployments->drop_answers(world_.context.project);
    declare(more);
    tick();
    ASSERT_EQ(live()->cached->answers->bytes_max(), 1U << 20);
    fill();
    world_.deployments->drop_answers(world_.context.project);
    fill();
    const char* role = more == other_size ? "viewer" : "editor";  // Another one each time.
    world_.apply("Grant", "g", std::string(R"({"to":["user:ann"],"roles":[")") + role + "\"]}");
    tick();
    fill();
    world_.deployments->forget(world_.context.project, "another");
    fill();
  }
  declare(other_size);
  tick();
  const auto held = live();
  EXPECT_GT(held->cached->answers->bytes(), 0U);
  world_.clock.advance(Duration::hours(2));
  tick();
  tick();
  EXPECT_EQ(status().state, "idle");
  EXPECT_EQ(held->cached->answers->bytes(), 0U);
}

TEST_F(CachedTest, one_of_another_version_is_dropped_with_it) {
  const std::int64_t first = world_.register_linear(2, 5);
  world_.register_linear(3, 5);
  declare(R"("cache":{"bytes":"1Mi"},"versions":"all")");
  serve(first);
  declare(R"("cache":{"bytes":"2Mi"},"versions":"all","alias":"nobody")");
  tick();
  const auto other = live()->others.at(0);
  const auto ask_other = [&] {
    std::optional<Result<Inference>> got;
    world_.deployments->infer(other, job(10), [&](Result<Inference> each) { got = each; });
    return (*got)->cache;
  };
  EXPECT_EQ(ask_other(), Cache::kMiss);
  EXPECT_EQ(ask_other(), Cache::kHit);
  world_.deployments->drop_answers(world_.context.project);
  EXPECT_EQ(ask_other(), Cache::kMiss);
}

TEST_F(CachedTest, takes_another_size_and_none_without_a_load) {
  serve(world_.register_linear(2, 5));
  const std::shared_ptr<Session> session = live()->session;
  EXPECT_EQ(answer(10).first, Cache::kMiss);
  declare(R"("cache":{"bytes":"2Mi"})");
  tick();
  EXPECT_EQ(live()->cached->answers->bytes_max(), 2U << 20);
  EXPECT_EQ(answer(10).first, Cache::kMiss);
  declare(R"("alias":"champion")");
  tick();
  EXPECT_EQ(answer(10).first, Cache::kNone);
  EXPECT_EQ(live()->session, session);
}

// Requests of one model whose first run is held.
class HeldTest : public CachedTest {
 protected:
  void SetUp() override {
    CachedTest::SetUp();
    serve(world_.register_linear(2, 5));
    auto held = std::make_shared<LiveModel>(*live());
    held->session = session_;
    held->batcher = std::make_shared<batching::Batcher>(
        session_, batching::BatcherOptions{4, 1, monotonic_nanos});
    held_ = held;
  }
  void begin(float value, std::vector<Result<Inference>>& answers) {
    InferJob job;
    job.inputs = {testing::row(value)};
    world_.deployments->infer(held_, std::move(job), [&answers](Result<Inference> got) {
      answers.push_back(std::move(got));
    });
  }
  std::shared_ptr<testing::HeldSession> session_ = std::make_shared<testing::HeldSession>();
  std::shared_ptr<const LiveModel> held_;
};

TEST_F(HeldTest, equal_requests_at_once_run_the_model_once) {
  std::vector<Result<Inference>> first;
  std::thread runner([&] { begin(7, first); });
  session_->wait_for_first();
  std::vector<Result<Inference>> others;
  for (int i = 0; i < 5; ++i) begin(7, others);
  EXPECT_TRUE(others.empty()) << "they wait, and no thread with them";
  session_->release();
  runner.join();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0]->cache, Cache::kMiss);
  ASSERT_EQ(others.size(), 5U);
  for (const auto& each : others) {
    EXPECT_EQ(each->cache, Cache::kJoined);
    EXPECT_EQ(testing::value_of(each->outputs[0]), 7);
  }
  EXPECT_EQ(session_->runs().size(), 1U);
  EXPECT_EQ(status().joined, 5U);
}

TEST_F(HeldTest, who_waits_for_one_that_fails_runs_by_itself) {
  std::vector<Result<Inference>> first;
  std::thread runner([&] { begin(-1, first); });
  session_->wait_for_first();
  std::vector<Result<Inference>> others;
  begin(-1, others);
  begin(-1, others);
  session_->release();
  runner.join();
  EXPECT_FALSE(first.at(0).ok());
  ASSERT_EQ(others.size(), 2U);
  EXPECT_FALSE(others[1].ok());
  EXPECT_EQ(session_->runs().size(), 3U) << "a failure is nobody else's";
}

TEST(DecodeCache, is_strict) {
  const auto decode = [](std::string_view cache) {
    storage::Object object;
    object.kind = "Deployment";
    object.name = "fraud";
    object.spec = parse_json(R"({"model":"m","cache":)" + std::string(cache) + "}").value();
    return decode_deployment(object);
  };
  EXPECT_EQ(decode(R"({"bytes":"64Mi"})")->cache.bytes, 64U << 20);
  EXPECT_EQ(decode(R"({"bytes":"64Mi"})")->cache.shared, Deployment::Cache::Shared::kCaller);
  EXPECT_EQ(decode(R"({"bytes":"1Gi","shared":"project"})")->cache.shared,
            Deployment::Cache::Shared::kProject);
  EXPECT_EQ(decode("{}").error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(decode(R"({"bytes":"1Ki"})").error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(decode(R"({"bytes":"100Gi"})").error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(decode(R"({"size":"1Mi"})").error().id, ErrorId::kUnknownField);
  EXPECT_FALSE(decode(R"({"bytes":"1Mi","shared":"everyone"})").ok());
  EXPECT_FALSE(decode(R"("64Mi")").ok());
}

}  // namespace
}  // namespace falaj::serving
