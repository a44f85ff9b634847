// What one prediction costs inside the server: the runtime's short cut alone, and the whole of
// entity id → features → score → log. Run by hand: the end-to-end figure is in bench/.
#include <benchmark/benchmark.h>

#include <fstream>

#include "serving/testing/random_trees.h"
#include "serving/testing/serving_world.h"
#include "serving/trees/probe_rows.h"
#include "serving/trees/trees_runtime.h"

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
  const auto live = world().deployments->find(ProjectName("pay"), "fraud").value();
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
    if (state.thread_index() == 0 && (state.iterations() & 0x3FF) == 0) {
      world().sink.drain([](const Prediction&) {});
    }
  }
}
BENCHMARK(predict_by_entity)->Threads(1)->Threads(2)->UseRealTime();

// One call with so many trees and rows: our own code (up to kTreeRowsMax rows) and ONNX Runtime.
void score_trees(benchmark::State& state, Runtime& runtime) {
  testing::TreesShape shape;
  shape.trees = static_cast<std::size_t>(state.range(0));
  if (shape.trees >= 2000) shape.splits = 254;
  const auto rows = static_cast<std::size_t>(state.range(1));
  const onnx::Trees trees = testing::random_trees(shape, 1);
  const auto session = runtime.load_bytes(onnx::write_trees(trees, {})).value();
  const std::vector<float> matrix = probe_rows(trees, rows * 64, 2);
  std::vector<float> scores;
  std::size_t at = 0;
  for (auto _ : state) {
    const std::size_t cells = rows * trees.features;
    const auto part = std::span<const float>(matrix).subspan(at * cells, cells);
    at = (at + 1) % 64;
    if (!session->score(part, trees.features, scores).ok()) state.SkipWithError("score failed");
    benchmark::DoNotOptimize(scores.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
const std::vector<std::vector<std::int64_t>> kSizes{{20, 100, 2000}, {1, 16, 256, 4096}};
void own_trees(benchmark::State& state) {
  static telemetry::Metrics metrics;
  static const auto runtime = with_own_trees(
      open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value(), 1, metrics);
  score_trees(state, *runtime);
}
BENCHMARK(own_trees)->ArgsProduct(kSizes);
void onnx_runtime_trees(benchmark::State& state) { score_trees(state, *world().runtime); }
BENCHMARK(onnx_runtime_trees)->ArgsProduct(kSizes);

}  // namespace
}  // namespace falaj::serving
