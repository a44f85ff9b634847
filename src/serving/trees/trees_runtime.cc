#include "serving/trees/trees_runtime.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "serving/trees/compiled_trees.h"
#include "serving/trees/probe_rows.h"

namespace falaj::serving {
namespace {

constexpr std::uint64_t kProbeSeed = 8;
constexpr std::size_t kProbeRowsMax = 1024;
constexpr std::size_t kProbeRowsMin = 128;
constexpr std::size_t kProbeWalks = 200'000;  // Rows × trees, so that a large model loads soon.
constexpr std::size_t kSingleProbes = 16;

const telemetry::MetricInfo kLoaded{
    "falaj_serving_models_loaded_total",
    "Models loaded, by what answers a few rows: trees (own code), onnxruntime, or differed (own "
    "code was dropped because it did not agree with ONNX Runtime).",
    telemetry::MetricKind::kCounter,
    {"scorer"}};

template <class T>
Tensor tensor_of(const std::string& name, const char* datatype, std::vector<std::int64_t> shape,
                 std::span<const T> values) {
  Tensor tensor{name, datatype, std::move(shape), {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return tensor;
}

class TreesSession final : public Session, private RowExplainer {
 public:
  TreesSession(std::unique_ptr<Session> inner, CompiledTrees trees)
      : inner_(std::move(inner)), trees_(std::move(trees)) {}

  const registry::Signature& signature() const override { return inner_->signature(); }

  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    if (columns != trees_.columns() || matrix.size() % columns != 0 ||
        matrix.size() > columns * kTreeRowsMax) {
      return inner_->score(matrix, columns, scores);
    }
    scores.clear();
    for (std::size_t at = 0; at < matrix.size(); at += columns) {
      scores.push_back(trees_.score(matrix.subspan(at, columns)));
    }
    return {};
  }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    if (inputs.size() != 1 || !fits(inputs[0])) return inner_->run(inputs);
    const auto rows = static_cast<std::size_t>(inputs[0].shape[0]);
    std::vector<float> matrix(rows * trees_.columns());  // The bytes need not be aligned.
    if (!matrix.empty()) {
      std::memcpy(matrix.data(), inputs[0].bytes.data(), inputs[0].bytes.size());
    }
    return answers(matrix, rows);
  }

  const RowExplainer* explainer() const override { return trees_.explains() ? this : nullptr; }

  // Whether both give the same bits on every row. An error when `inner` could not be asked.
  Result<bool> agrees(std::span<const float> rows) const {
    const std::size_t columns = trees_.columns();
    const std::size_t count = rows.size() / columns;
    const Tensor input =
        tensor_of(signature().inputs[0].name, "FP32",
                  {static_cast<std::int64_t>(count), static_cast<std::int64_t>(columns)}, rows);
    const std::vector<Tensor> theirs = FALAJ_TRY(inner_->run({&input, 1}));
    const std::vector<Tensor> ours = answers(rows, count);
    if (theirs.size() != ours.size()) return false;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].name != theirs[i].name || ours[i].datatype != theirs[i].datatype ||
          ours[i].shape != theirs[i].shape || ours[i].bytes != theirs[i].bytes) {
        return false;
      }
    }
    // One row at a time takes other paths, there and here.
    std::vector<float> expected;
    for (std::size_t row = 0; row < std::min(count, kSingleProbes); ++row) {
      const std::span<const float> cells = rows.subspan(row * columns, columns);
      FALAJ_TRY(inner_->score(cells, columns, expected));
      const float got = trees_.score(cells);
      if (std::memcmp(&got, expected.data(), sizeof(got)) != 0) return false;
    }
    return true;
  }

  std::unique_ptr<Session> give_up() { return std::move(inner_); }

 private:
  Scale scale() const override { return trees_.is_logistic() ? Scale::kLogOdds : Scale::kSum; }
  std::size_t explained_features() const override { return trees_.columns(); }
  std::size_t explained_column() const override { return trees_.width() - 1; }
  double base() const override { return trees_.base(); }
  Status explain(std::span<const float> row, std::span<double> contributions,
                 const std::function<bool()>& late) const override {
    return trees_.explain(row, contributions, late);
  }

  bool fits(const Tensor& input) const {
    const auto columns = static_cast<std::int64_t>(trees_.columns());
    return input.name == signature().inputs[0].name && input.datatype == "FP32" &&
           input.shape.size() == 2 && input.shape[1] == columns && input.shape[0] > 0 &&
           input.shape[0] <= static_cast<std::int64_t>(kTreeRowsMax) &&
           input.bytes.size() ==
               static_cast<std::size_t>(input.shape[0]) * trees_.columns() * sizeof(float);
  }

  std::vector<Tensor> answers(std::span<const float> matrix, std::size_t rows) const {
    const std::size_t width = trees_.width();
    std::vector<float> scores(rows * width);
    std::vector<std::int64_t> labels(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const CompiledTrees::Answer answer =
          trees_.answer(matrix.subspan(row * trees_.columns(), trees_.columns()));
      std::copy_n(answer.scores.begin(), width,
                  scores.begin() + static_cast<std::ptrdiff_t>(row * width));
      labels[row] = answer.label;
    }
    const auto count = static_cast<std::int64_t>(rows);
    std::vector<Tensor> outputs;
    for (const registry::TensorSpec& spec : signature().outputs) {
      if (spec.datatype == "INT64") {
        outputs.push_back(tensor_of<std::int64_t>(spec.name, "INT64", {count}, labels));
      } else {
        outputs.push_back(
            tensor_of<float>(spec.name, "FP32", {count, static_cast<std::int64_t>(width)}, scores));
      }
    }
    return outputs;
  }

  std::unique_ptr<Session> inner_;
  CompiledTrees trees_;
};

// Whether the runtime sees the same inputs and outputs as our reader does.
bool same_signature(const onnx::Trees& trees, const registry::Signature& signature) {
  const bool classifier = trees.ensemble == onnx::Ensemble::kClassifier;
  if (signature.inputs.size() != 1 || signature.outputs.size() != (classifier ? 2U : 1U)) {
    return false;
  }
  const registry::TensorSpec& input = signature.inputs[0];
  const registry::TensorSpec& scores = signature.outputs.back();
  return input.name == trees.input && input.datatype == "FP32" && input.shape.size() == 2 &&
         input.shape[0] < 0 && input.shape[1] == static_cast<std::int64_t>(trees.features) &&
         scores.name == trees.scores && scores.datatype == "FP32" &&
         (!classifier ||
          (signature.outputs[0].name == trees.label && signature.outputs[0].datatype == "INT64"));
}

class TreesRuntime final : public Runtime {
 public:
  TreesRuntime(std::unique_ptr<Runtime> inner, unsigned threads, telemetry::Metrics& metrics)
      : inner_(std::move(inner)), threads_(threads), metrics_(metrics) {
    metrics.declare(kLoaded);
  }

  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    std::unique_ptr<Session> session = FALAJ_TRY(inner_->load_bytes(model));
    return with_trees(std::move(session), model);
  }
  std::string version() const override { return inner_->version(); }

 private:
  void count(const char* scorer) { metrics_.counter(kLoaded, {scorer}).add(); }

  std::unique_ptr<Session> with_trees(std::unique_ptr<Session> session, std::string_view model) {
    const Result<onnx::Trees> trees = onnx::read_trees(model);
    Result<CompiledTrees> compiled =
        trees.ok() ? CompiledTrees::compile(*trees) : Result<CompiledTrees>(trees.error());
    if (!compiled.ok() || threads_ > 1 || !same_signature(*trees, session->signature())) {
      log::debug("model left to onnx runtime",
                 {{"reason", compiled.ok() ? "threads or signature" : compiled.error().message}});
      count("onnxruntime");
      return session;
    }
    const std::size_t per_row = std::max<std::size_t>(1, trees->treeids.size() / 32);
    const std::size_t rows = std::clamp(kProbeWalks / per_row, kProbeRowsMin, kProbeRowsMax);
    auto own = std::make_unique<TreesSession>(std::move(session), std::move(compiled).value());
    const Result<bool> agreed = own->agrees(probe_rows(*trees, rows, kProbeSeed));
    if (agreed.ok() && *agreed) {
      count("trees");
      return own;
    }
    log::warn("own trees dropped: they do not agree with onnx runtime",
              {{"trees", trees->treeids.back() + 1},
               {"reason", agreed.ok() ? "another answer" : agreed.error().message}});
    count("differed");
    return own->give_up();
  }

  std::unique_ptr<Runtime> inner_;
  const unsigned threads_;
  telemetry::Metrics& metrics_;
};

}  // namespace

std::unique_ptr<Runtime> with_own_trees(std::unique_ptr<Runtime> inner, unsigned threads,
                                        telemetry::Metrics& metrics) {
  return std::make_unique<TreesRuntime>(std::move(inner), threads, metrics);
}

}  // namespace falaj::serving
