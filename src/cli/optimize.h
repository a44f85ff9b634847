// cli/optimize.h — models optimize: a smaller or faster form of a model, kept only when it proves
// to be one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/commands.h"
#include "table/batch.h"

namespace falaj::cli {

enum class OptimizeMethod : std::uint8_t {
  kInt8,
  kStaticInt8,
  kHalf,
  kPruneUnits,
  kPruneWeights,
  kTrim
};

// What is tried, and what is asked of it (onnx/optimize/gate.h).
struct OptimizeTerms {
  OptimizeMethod method = OptimizeMethod::kInt8;
  double share = 0;  // To prune.
  double allow_mean = 0.02;
  double allow_worst = 0.5;
  double allow_loss = 0.002;
  bool smaller = false;  // Enough that it is smaller; else it must be faster.
  std::int64_t batch = 64;
};

struct OptimizeWork {
  OptimizeTerms terms;
  std::string model;  // ONNX bytes.
  table::Batch rows;
  std::string label;  // A column of `rows`; "": none.
};
struct OptimizeDone {
  Value report;
  std::string bytes;  // Of the variant; "" when it is refused.
};
// By `app`, which has the runtime.
using Optimizer = std::function<Result<OptimizeDone>(const OptimizeWork& work)>;

// As typed.
struct OptimizeChoice {
  std::string model;         // Registered; "": `file`.
  std::int64_t version = 0;  // 0: the newest.
  std::string file;
  bool int8 = false;
  bool static_int8 = false;
  bool fp16 = false;
  bool trim = false;
  double prune = 0;
  double prune_weights = 0;
  std::string rows;          // CSV, Parquet or Arrow file.
  std::string training_set;  // Or a frozen set of the server.
  std::string keep_if = "faster";
  std::string out;
  bool enlist = false;  // --register.
  std::string label;
  OptimizeTerms terms;
};

// FJ-1016 when the words do not fit together: no or two methods, sources of rows, models.
Result<OptimizeTerms> optimize_terms(const OptimizeChoice& choice);
// The report as a table for a person. Pure.
std::string optimize_text(const Value& report);

// Tries it, prints what came of it, and on "keep" writes --out and registers. FJ-0006 when it is
// refused, so that a script sees it.
Status optimize_model(const Session& session, const OptimizeChoice& choice,
                      const Optimizer& optimizer);

}  // namespace falaj::cli
