// What one prediction costs inside the server: the runtime's short cut alone, and the whole of
// entity id → features → score → log. Run by hand: the end-to-end figure is in bench/.
#include <benchmark/benchmark.h>

#include <fstream>

#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

testing::ServingWorld& world() {
  static auto* const made = [] {
    auto* fresh = new testing::ServingWorld;
    fresh->apply_customers();
    static_cast<void>(fresh->append("activity", "customer_id,at,amount,age\n1,2026-01-01,10,30\n"));
    fresh->apply("Deployment", "fraud", R"({"model":"fraud"})");
    fresh->promote(fresh->register_linear(2, 1));
    static_cast<void>(fresh->deployments->tick());
    return fresh;
  }();
  return *made;
}

void score_one_row(benchmark::State& state) {
  const auto live = world().deployments->find_named("fraud").value();
  const std::vector<float> row{10, 30};
  std::vector<float> scores;
  for (auto _ : state) {
    if (!live->session->score(row, 2, scores).ok()) state.SkipWithError("score failed");
    benchmark::DoNotOptimize(scores.data());
  }
}
BENCHMARK(score_one_row)->Threads(1)->Threads(2)->UseRealTime();

void find_live_model(benchmark::State& state) {
  const ProjectName project("pay");
  for (auto _ : state) benchmark::DoNotOptimize(world().deployments->find(project, "fraud"));
}
BENCHMARK(find_live_model)->Threads(1)->Threads(2)->UseRealTime();

void predict_by_entity(benchmark::State& state) {
  for (auto _ : state) {
    if (!world().predict(1).ok()) state.SkipWithError("predict failed");
    if (state.thread_index() == 0 && (state.iterations() & 0x3FF) == 0) world().sink.drain();
  }
}
BENCHMARK(predict_by_entity)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace falaj::serving
