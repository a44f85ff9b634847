#include "serving/optimize/trial.h"

#include <algorithm>
#include <cstring>

namespace falaj::serving {
namespace {

constexpr std::size_t kPieceRows = 1024;

Tensor tensor_of(const registry::TensorSpec& spec, std::span<const float> cells, std::size_t rows) {
  Tensor tensor{spec.name, spec.datatype, spec.shape, {}};
  tensor.shape[0] = static_cast<std::int64_t>(rows);
  tensor.bytes.assign(reinterpret_cast<const char*>(cells.data()), cells.size_bytes());
  return tensor;
}

void add_answers(const std::vector<Tensor>& outputs, Answers& answers) {
  std::size_t floats = 0;
  std::size_t others = 0;
  for (const Tensor& output : outputs) {
    if (output.datatype != "FP32") {
      if (others == answers.others.size()) answers.others.emplace_back();
      answers.others[others++] += output.bytes;
      continue;
    }
    if (floats == answers.floats.size()) answers.floats.emplace_back();
    std::vector<float>& into = answers.floats[floats++];
    const std::size_t count = output.bytes.size() / sizeof(float);
    if (count == 0) continue;
    into.resize(into.size() + count);
    std::memcpy(into.data() + into.size() - count, output.bytes.data(), count * sizeof(float));
  }
}

// The requests of a trial, made before the clock runs.
std::vector<Tensor> batches_of(const registry::TensorSpec& spec, std::span<const float> matrix,
                               std::size_t width, std::size_t batch) {
  const std::size_t rows = matrix.size() / width;
  batch = std::clamp<std::size_t>(batch, 1, rows);
  constexpr std::size_t kBatchesMax = 256;
  std::vector<Tensor> out;
  for (std::size_t at = 0; at + batch <= rows && out.size() < kBatchesMax; at += batch) {
    out.push_back(tensor_of(spec, matrix.subspan(at * width, batch * width), batch));
  }
  return out;
}

class Runner {
 public:
  Runner(const Session& session, std::span<const Tensor> batches, const TrialOptions& options)
      : session_(session), batches_(batches), options_(options) {}

  // Rows a second over one slice.
  Result<double> slice() {
    const std::int64_t begin = options_.now_ns();
    std::int64_t rows = 0;
    std::int64_t took = 0;
    do {
      const Tensor& batch = batches_[next_];
      next_ = (next_ + 1) % batches_.size();
      FALAJ_TRY(session_.run({&batch, 1}));
      rows += batch.shape[0];
      took = options_.now_ns() - begin;
    } while (took < options_.slice_ns);
    return static_cast<double>(rows) * 1e9 / static_cast<double>(std::max<std::int64_t>(took, 1));
  }

 private:
  const Session& session_;
  std::span<const Tensor> batches_;
  const TrialOptions& options_;
  std::size_t next_ = 0;
};

}  // namespace

Result<std::size_t> row_width(const registry::Signature& signature) {
  const Error other(ErrorId::kTensorMismatch,
                    "the model has other inputs than one of floats [rows, columns …] whose columns "
                    "are known: rows of a table do not fit it");
  if (signature.inputs.size() != 1) return other;
  const registry::TensorSpec& input = signature.inputs.front();
  if (input.datatype != "FP32" || input.shape.size() < 2 || input.shape[0] != -1) return other;
  std::size_t width = 1;
  for (const std::int64_t size : std::span(input.shape).subspan(1)) {
    if (size <= 0 || size > (1 << 24) || width > (1 << 24)) return other;
    width *= static_cast<std::size_t>(size);
  }
  return width;
}

Result<Answers> answers_of(const Session& session, std::span<const float> matrix) {
  const std::size_t width = FALAJ_TRY(row_width(session.signature()));
  const std::size_t rows = matrix.size() / width;
  Answers answers;
  for (std::size_t at = 0; at < rows; at += kPieceRows) {
    const std::size_t count = std::min(kPieceRows, rows - at);
    const Tensor input = tensor_of(session.signature().inputs.front(),
                                   matrix.subspan(at * width, count * width), count);
    add_answers(FALAJ_TRY(session.run({&input, 1})), answers);
  }
  return answers;
}

std::vector<float> scores_of(const Answers& answers, std::size_t rows) {
  std::vector<float> scores;
  if (rows == 0 || answers.floats.empty()) return scores;
  const std::vector<float>& all = answers.floats.front();
  const std::size_t width = all.size() / rows;
  for (std::size_t row = 0; width > 0 && row < rows; ++row) {
    scores.push_back(all[row * width + width - 1]);
  }
  return scores;
}

Result<onnx::Difference> compare(const Answers& before, const Answers& after) {
  if (before.floats.size() != after.floats.size() || before.others.size() != after.others.size() ||
      before.floats.empty()) {
    return Error{ErrorId::kTensorMismatch,
                 "the two models have different outputs, or none of floats"};
  }
  onnx::Difference worst;
  for (std::size_t i = 0; i < before.floats.size(); ++i) {
    worst = onnx::worse_of(worst, onnx::difference(before.floats[i], after.floats[i]));
  }
  return worst;
}

Result<onnx::Speed> measure(const Session& before, const Session& after,
                            std::span<const float> matrix, const TrialOptions& options) {
  const std::size_t width = FALAJ_TRY(row_width(before.signature()));
  if (matrix.size() < width) return Error{Code::kInvalidArgument, "there are no rows to measure"};
  const std::vector<Tensor> batches =
      batches_of(before.signature().inputs.front(), matrix, width, options.batch);
  Runner first(before, batches, options);
  Runner second(after, batches, options);
  FALAJ_TRY(first.slice());
  FALAJ_TRY(second.slice());
  std::vector<double> old_speeds;
  std::vector<double> new_speeds;
  onnx::Speed speed;
  for (std::size_t round = 0; round < std::max<std::size_t>(options.rounds, 1); ++round) {
    const bool new_begins = round % 2 == 1;
    if (new_begins) new_speeds.push_back(FALAJ_TRY(second.slice()));
    old_speeds.push_back(FALAJ_TRY(first.slice()));
    if (!new_begins) new_speeds.push_back(FALAJ_TRY(second.slice()));
    if (new_speeds.back() > old_speeds.back()) ++speed.won;
  }
  speed.rounds = old_speeds.size();
  speed.before = onnx::median(std::move(old_speeds));
  speed.after = onnx::median(std::move(new_speeds));
  return speed;
}

}  // namespace falaj::serving
