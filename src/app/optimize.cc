#include "app/optimize.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "app/onnx_runner.h"
#include "onnx/foreign.h"
#include "serving/optimize/optimize.h"
#include "serving/trees/trees_runtime.h"
#include "telemetry/metrics.h"
#include "training/engine.h"
#include "training/quality.h"

namespace falaj::app {
namespace {

constexpr std::size_t kCellsMax = std::size_t{1} << 26;

// The columns that feed the model: by the names it carries, or all that are numbers in their order.
Result<std::vector<const table::Column*>> columns_of(const cli::OptimizeWork& work,
                                                     const registry::Signature& signature,
                                                     std::size_t width) {
  std::vector<const table::Column*> columns;
  for (const std::string& feature : signature.features) {
    const table::Column* column = work.rows.find(feature);
    if (column == nullptr) {
      return Error{ErrorId::kSchemaMismatch,
                   "the rows have no column '" + feature + "', which the model reads"};
    }
    columns.push_back(column);
  }
  if (signature.features.empty()) {
    for (std::size_t i = 0; i < work.rows.columns.size(); ++i) {
      const table::Column& column = work.rows.columns[i];
      const bool number = column.type() != table::Type::kString;
      if (number && work.rows.schema.fields[i].name != work.label) columns.push_back(&column);
    }
  }
  if (columns.size() == width) return columns;
  return Error{ErrorId::kSchemaMismatch, "the rows give " + std::to_string(columns.size()) +
                                             " numbers, the model reads " + std::to_string(width)};
}

Result<std::vector<float>> matrix_of(const cli::OptimizeWork& work,
                                     const registry::Signature& signature) {
  const std::size_t width = FALAJ_TRY(serving::row_width(signature));
  const auto columns = FALAJ_TRY(columns_of(work, signature, width));
  const std::size_t rows = std::min(work.rows.rows(), kCellsMax / width);
  std::vector<float> matrix;
  matrix.reserve(rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    for (const table::Column* column : columns) {
      matrix.push_back(static_cast<float>(column->number_at(row)));
    }
  }
  return matrix;
}

Result<serving::KnownLabels> labels_of(const cli::OptimizeWork& work, std::size_t rows) {
  serving::KnownLabels known;
  if (work.label.empty()) return known;
  const table::Column* column = work.rows.find(work.label);
  if (column == nullptr) {
    return Error{ErrorId::kSchemaMismatch, "the rows have no column '" + work.label + "'"};
  }
  bool binary = true;
  for (std::size_t row = 0; row < rows; ++row) {
    const double label = column->number_at(row);
    if (!std::isfinite(label)) {
      return Error{ErrorId::kSchemaMismatch, "the label '" + work.label + "' of row " +
                                                 std::to_string(row + 1) + " is no number"};
    }
    binary = binary && (label == 0 || label == 1);
    known.labels.push_back(static_cast<float>(label));
  }
  if (binary) {
    known.measure = [](std::span<const float> scores, std::span<const float> labels) {
      return training::auc(scores, std::vector<std::uint8_t>(labels.begin(), labels.end()));
    };
    return known;
  }
  known.metric = onnx::Quality::Metric::kRmse;
  known.measure = [](std::span<const float> scores, std::span<const float> labels) {
    return training::rmse(std::vector<double>(scores.begin(), scores.end()), labels);
  };
  return known;
}

serving::OptimizeMethod method_of(cli::OptimizeMethod method) {
  switch (method) {
    case cli::OptimizeMethod::kInt8:
      return serving::OptimizeMethod::kInt8;
    case cli::OptimizeMethod::kStaticInt8:
      return serving::OptimizeMethod::kStaticInt8;
    case cli::OptimizeMethod::kHalf:
      return serving::OptimizeMethod::kHalf;
    case cli::OptimizeMethod::kPruneUnits:
      return serving::OptimizeMethod::kPruneUnits;
    case cli::OptimizeMethod::kPruneWeights:
      return serving::OptimizeMethod::kPruneWeights;
    case cli::OptimizeMethod::kTrim:
      return serving::OptimizeMethod::kTrim;
  }
  return serving::OptimizeMethod::kInt8;
}

Value finite(double value) { return std::isfinite(value) ? Value(value) : Value(); }

Value nodes_of(const onnx::Optimized& made) {
  Value nodes;
  nodes["changed"] = Value::array();
  nodes["left"] = Value::array();
  for (const onnx::NodeChange& change : made.changed) {
    Value row;
    row["node"] = change.node;
    row["op"] = change.op;
    row["what"] = change.what;
    row["bytes_before"] = change.bytes_before;
    row["bytes_after"] = change.bytes_after;
    nodes["changed"].push(std::move(row));
  }
  for (const onnx::NodeLeft& left : made.left) {
    Value row;
    row["node"] = left.node;
    row["op"] = left.op;
    row["why"] = left.why;
    nodes["left"].push(std::move(row));
  }
  return nodes;
}

Value report_of(const serving::OptimizeOutcome& outcome, const cli::OptimizeTerms& terms) {
  const onnx::Evidence& evidence = outcome.evidence;
  Value report = nodes_of(outcome.made);
  report["verdict"] = outcome.verdict.keep ? "keep" : "refuse";
  report["reasons"] = Value::array();
  for (const std::string& reason : outcome.verdict.reasons) report["reasons"].push(reason);
  report["bytes"]["before"] = evidence.bytes_before;
  report["bytes"]["after"] = evidence.bytes_after;
  report["rows"] = outcome.rows_judged;
  if (evidence.changes == 0) return report;
  report["difference"]["mean"] = finite(evidence.difference.mean);
  report["difference"]["worst"] = finite(evidence.difference.worst);
  report["difference"]["spread"] = finite(evidence.difference.spread);
  report["allowed"]["mean"] = terms.allow_mean;
  report["allowed"]["worst"] = terms.allow_worst;
  report["speed"]["before"] = static_cast<std::int64_t>(std::llround(evidence.speed.before));
  report["speed"]["after"] = static_cast<std::int64_t>(std::llround(evidence.speed.after));
  report["speed"]["ratio"] = finite(evidence.speed.ratio());
  report["speed"]["batch"] = terms.batch;
  report["speed"]["rounds"] = evidence.speed.rounds;
  report["speed"]["won"] = evidence.speed.won;
  if (evidence.quality) {
    report["quality"]["metric"] = onnx::to_string(evidence.quality->metric);
    report["quality"]["before"] = finite(evidence.quality->before);
    report["quality"]["after"] = finite(evidence.quality->after);
    report["quality"]["loss"] = finite(evidence.quality->loss());
    report["allowed"]["loss"] = terms.allow_loss;
  }
  return report;
}

}  // namespace

Result<cli::OptimizeDone> optimize(const cli::OptimizeWork& work) {
  FALAJ_TRY(onnx::check_foreign(work.model));
  telemetry::Metrics metrics;
  const auto runtime = serving::with_own_trees(small_runtime(), 1, metrics);
  const auto session = FALAJ_TRY(runtime->load_bytes(work.model));
  const std::vector<float> matrix = FALAJ_TRY(matrix_of(work, session->signature()));
  const std::size_t width = FALAJ_TRY(serving::row_width(session->signature()));
  serving::OptimizeRequest request;
  request.model = work.model;
  request.method = method_of(work.terms.method);
  request.share = work.terms.share;
  request.matrix = matrix;
  request.known = FALAJ_TRY(labels_of(work, matrix.size() / width));
  request.allowed = {work.terms.allow_mean, work.terms.allow_worst, work.terms.allow_loss};
  request.goal = work.terms.smaller ? onnx::Goal::kSmaller : onnx::Goal::kFaster;
  request.trial.batch = static_cast<std::size_t>(work.terms.batch);
  request.trial.now_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  serving::OptimizeOutcome outcome = FALAJ_TRY(serving::optimize(*runtime, request));
  cli::OptimizeDone done;
  done.report = report_of(outcome, work.terms);
  if (outcome.verdict.keep) done.bytes = std::move(outcome.made.bytes);
  return done;
}

}  // namespace falaj::app
