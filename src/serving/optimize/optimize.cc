#include "serving/optimize/optimize.h"

#include <algorithm>

#include "onnx/optimize/fp16.h"
#include "onnx/optimize/int8.h"
#include "onnx/optimize/prune.h"
#include "onnx/optimize/static_int8.h"
#include "onnx/optimize/trim.h"

namespace falaj::serving {
namespace {

// What a search may use up of the allowed loss: the rows that judge are others.
constexpr double kSearchShare = 0.8;

// Rows that calibration looks at: their values between nodes are held in memory.
constexpr std::size_t kCalibrationRows = 1024;

struct Rows {
  std::vector<float> matrix;
  std::vector<float> labels;
};

// Every other row, from the first or the second on.
Rows half_of(const OptimizeRequest& request, std::size_t width, std::size_t from) {
  Rows out;
  for (std::size_t row = from; (row + 1) * width <= request.matrix.size(); row += 2) {
    const auto cells = request.matrix.subspan(row * width, width);
    out.matrix.insert(out.matrix.end(), cells.begin(), cells.end());
    if (!request.known.labels.empty()) out.labels.push_back(request.known.labels[row]);
  }
  return out;
}

// The original on some rows, and what others are against it.
class Reference {
 public:
  static Result<Reference> make(const Session& session, const OptimizeRequest& request, Rows rows,
                                std::size_t width) {
    Reference made(request, std::move(rows), width);
    made.answers_ = FALAJ_TRY(answers_of(session, made.rows_.matrix));
    return made;
  }
  std::span<const float> matrix() const { return rows_.matrix; }
  std::size_t count() const { return rows_.matrix.size() / width_; }

  Status look_at(const Session& other, onnx::Evidence& evidence) const {
    const Answers theirs = FALAJ_TRY(answers_of(other, rows_.matrix));
    evidence.difference = FALAJ_TRY(compare(answers_, theirs));
    if (rows_.labels.empty()) return {};
    evidence.quality =
        onnx::Quality{request_->known.metric, quality_of(answers_), quality_of(theirs)};
    return {};
  }

 private:
  Reference(const OptimizeRequest& request, Rows rows, std::size_t width)
      : request_(&request), rows_(std::move(rows)), width_(width) {}
  double quality_of(const Answers& answers) const {
    return request_->known.measure(scores_of(answers, count()), rows_.labels);
  }

  const OptimizeRequest* request_;
  Rows rows_;
  std::size_t width_;
  Answers answers_;
};

bool is_allowed(const onnx::Evidence& evidence, const onnx::Allowed& allowed) {
  return evidence.difference.mean <= kSearchShare * allowed.mean &&
         evidence.difference.worst <= kSearchShare * allowed.worst &&
         (!evidence.quality || evidence.quality->loss() <= kSearchShare * allowed.loss);
}

Result<onnx::Optimized> trimmed(Runtime& runtime, const OptimizeRequest& request,
                                const Reference& seen) {
  const onnx::Trees trees = FALAJ_TRY(onnx::read_trees(request.model));
  FALAJ_TRY(onnx::check_forest(trees));
  const auto fits = [&](const onnx::Trees& fewer) -> Result<bool> {
    const onnx::Optimized made = FALAJ_TRY(onnx::with_trees(request.model, fewer));
    const auto session = FALAJ_TRY(runtime.load_bytes(made.bytes));
    onnx::Evidence evidence;
    FALAJ_TRY(seen.look_at(*session, evidence));
    return is_allowed(evidence, request.allowed);
  };
  const onnx::Trees fewer = FALAJ_TRY(onnx::trim(trees, fits));
  return onnx::with_trees(request.model, fewer);
}

// The ranges of the values between nodes, seen on some rows.
Result<onnx::Optimized> calibrated(Runtime& runtime, const OptimizeRequest& request,
                                   std::span<const float> matrix, std::size_t width) {
  const onnx::Watched watched = FALAJ_TRY(onnx::watch_ranges(request.model));
  onnx::Ranges ranges;
  if (!watched.values.empty()) {
    const auto session = FALAJ_TRY(runtime.load_bytes(watched.bytes));
    const auto rows = matrix.first(std::min(matrix.size(), kCalibrationRows * width));
    const Answers answers = FALAJ_TRY(answers_of(*session, rows));
    // The watched ones are the last outputs.
    const std::size_t first = answers.floats.size() - watched.values.size();
    for (std::size_t i = 0; i < watched.values.size(); ++i) {
      ranges[watched.values[i]].see(answers.floats[first + i]);
    }
  }
  return onnx::static_int8(request.model, ranges);
}

Result<onnx::Optimized> rewritten(const OptimizeRequest& request) {
  switch (request.method) {
    case OptimizeMethod::kInt8:
      return onnx::dynamic_int8(request.model);
    case OptimizeMethod::kHalf:
      return onnx::half_weights(request.model);
    case OptimizeMethod::kPruneUnits:
      return onnx::prune_units(request.model, request.share);
    case OptimizeMethod::kPruneWeights:
      return onnx::prune_weights(request.model, request.share);
    case OptimizeMethod::kStaticInt8:
    case OptimizeMethod::kTrim:
      break;
  }
  return Error{Code::kInternal, "this method looks at rows"};
}

Status judge_variant(Runtime& runtime, const OptimizeRequest& request, const Session& before,
                     const Reference& unseen, OptimizeOutcome& out) {
  out.evidence.changes = out.made.changed.size();
  out.evidence.bytes_before = request.model.size();
  out.evidence.bytes_after = out.made.bytes.size();
  if (out.evidence.changes != 0) {
    const auto after = FALAJ_TRY(runtime.load_bytes(out.made.bytes));
    FALAJ_TRY(unseen.look_at(*after, out.evidence));
    out.evidence.speed = FALAJ_TRY(measure(before, *after, unseen.matrix(), request.trial));
    out.rows_judged = unseen.count();
  }
  out.verdict = onnx::judge(out.evidence, request.allowed, request.goal);
  return {};
}

}  // namespace

Result<OptimizeOutcome> optimize(Runtime& runtime, const OptimizeRequest& request) {
  const auto before = FALAJ_TRY(runtime.load_bytes(request.model));
  const std::size_t width = FALAJ_TRY(row_width(before->signature()));
  const std::size_t rows = request.matrix.size() / width;
  if (rows < 2 || (!request.known.labels.empty() && request.known.labels.size() != rows)) {
    return Error{Code::kInvalidArgument,
                 "a model is judged by two rows at least, each with its "
                 "label where there are labels"};
  }
  OptimizeOutcome out;
  Rows judging{{request.matrix.begin(), request.matrix.end()}, request.known.labels};
  if (request.method == OptimizeMethod::kTrim || request.method == OptimizeMethod::kStaticInt8) {
    const Reference seen =
        FALAJ_TRY(Reference::make(*before, request, half_of(request, width, 0), width));
    out.made = FALAJ_TRY(request.method == OptimizeMethod::kTrim
                             ? trimmed(runtime, request, seen)
                             : calibrated(runtime, request, seen.matrix(), width));
    judging = half_of(request, width, 1);
  } else {
    out.made = FALAJ_TRY(rewritten(request));
  }
  const Reference unseen = FALAJ_TRY(Reference::make(*before, request, std::move(judging), width));
  FALAJ_TRY(judge_variant(runtime, request, *before, unseen, out));
  return out;
}

}  // namespace falaj::serving
