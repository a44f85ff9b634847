#include "training/lightgbm/trainer.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "training/quality.h"

namespace falaj::training::lightgbm {
namespace {

Result<Objective> choose_objective(const TrainingData& data, WantedObjective wanted) {
  if (wanted == WantedObjective::kRegression) return Objective::kRegression;
  if (data.label_is_binary) return Objective::kBinary;
  if (wanted == WantedObjective::kAuto) return Objective::kRegression;
  const auto is_class = [](float label) { return label == 0 || label == 1; };
  if (!std::all_of(data.train.labels.begin(), data.train.labels.end(), is_class) ||
      !std::all_of(data.valid.labels.begin(), data.valid.labels.end(), is_class)) {
    return Error(ErrorId::kSpineInvalid,
                 "objective binary needs labels of 0 and 1; use objective regression or map the "
                 "label in its source");
  }
  return Objective::kBinary;
}

double area(std::span<const double> scores, std::span<const float> labels) {
  std::vector<float> narrow(scores.size());
  std::vector<std::uint8_t> classes(labels.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    narrow[i] = static_cast<float>(scores[i]);
    classes[i] = labels[i] > 0.5f ? 1 : 0;
  }
  return auc(narrow, classes);
}

double loss(Objective objective, std::span<const double> scores, std::span<const float> labels) {
  return objective == Objective::kBinary ? logloss(scores, labels) : rmse(scores, labels);
}

void report_metric(const Report& report, const char* metric, std::int64_t step, double value) {
  Value line;
  line["metric"] = metric;
  line["step"] = step;
  line["value"] = value;
  report(line);
}

// LightGBM refuses names with JSON's special characters: then its own numbering stays.
bool are_plain(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    });
  });
}

// Watches the valid rows over the rounds.
class Watch {
 public:
  Watch(const TrainRequest& request, Objective objective)
      : request_(request), objective_(objective) {}

  enum class Verdict : std::uint8_t { kContinue, kStop };

  Result<Verdict> after_round(const Booster& booster, std::int64_t round) {
    // The area needs a sort: on large valid sets only now and then.
    constexpr std::size_t kSortEachRoundMax = 20'000;
    const std::vector<float>& labels = request_.data.valid.labels;
    const std::vector<double> scores = FALAJ_TRY(booster.valid_scores());
    const double now = loss(objective_, scores, labels);
    const bool binary = objective_ == Objective::kBinary;
    report_metric(request_.report, binary ? "logloss" : "rmse", round, now);
    if (binary && (labels.size() <= kSortEachRoundMax || round % 10 == 0)) {
      report_metric(request_.report, "auc", round, area(scores, labels));
    }
    if (now < best_loss_) {
      best_loss_ = now;
      best_round_ = round;
    }
    const std::int64_t patience = request_.params.early_stopping;
    return patience > 0 && round - best_round_ >= patience ? Verdict::kStop : Verdict::kContinue;
  }

  std::int64_t best_round() const { return best_round_; }

 private:
  const TrainRequest& request_;
  const Objective objective_;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::int64_t best_round_ = 1;
};

// Returns the number of rounds to keep.
Result<std::int64_t> boost(Booster& booster, const TrainRequest& request, Objective objective) {
  Watch watch(request, objective);
  const std::int64_t wanted = request.params.rounds;
  std::int64_t done = 0;
  for (std::int64_t round = 1; round <= wanted; ++round) {
    const Booster::Step step = FALAJ_TRY(booster.train_one_round());
    if (step == Booster::Step::kNothingLeftToSplit) {
      done = std::max<std::int64_t>(done, 1);  // The first round leaves a constant behind.
      break;
    }
    done = round;
    Value progress;
    progress["progress"] = static_cast<double>(round) / static_cast<double>(wanted);
    request.report(progress);
    if (request.data.valid.count() == 0) continue;
    if (FALAJ_TRY(watch.after_round(booster, round)) == Watch::Verdict::kStop) break;
  }
  return request.params.early_stopping > 0 ? std::min(done, watch.best_round()) : done;
}

Result<Value> measure(const Library& library, const Trained& trained, const TrainRequest& request) {
  const bool has_valid = request.data.valid.count() > 0;
  const Rows& rows = has_valid ? request.data.valid : request.data.train;
  Booster booster = FALAJ_TRY(Booster::load(library, trained.model_text));
  booster.set_threads(request.threads);
  const std::vector<double> scores =
      FALAJ_TRY(booster.scores(Matrix{rows.values, request.data.columns}));
  const std::string prefix = has_valid ? "" : "train_";
  Value metrics = Value::object();
  if (trained.objective == Objective::kBinary) metrics[prefix + "auc"] = area(scores, rows.labels);
  metrics[prefix + (trained.objective == Objective::kBinary ? "logloss" : "rmse")] =
      loss(trained.objective, scores, rows.labels);
  return metrics;
}

}  // namespace

Result<Trained> train(const Library& library, const TrainRequest& request) {
  const TrainingData& data = request.data;
  if (request.params.early_stopping > 0 && data.valid.count() == 0) {
    return Error(ErrorId::kSpineInvalid,
                 "early_stopping needs valid rows and the training set has none; declare "
                 "split: {valid: 20%} or set early_stopping: 0");
  }
  Trained trained;
  trained.objective = FALAJ_TRY(choose_objective(data, request.params.objective));
  const std::string params = to_text(request.params, trained.objective, request.threads);
  Dataset train_set = FALAJ_TRY(Dataset::create(library, Matrix{data.train.values, data.columns},
                                                data.train.labels, params, nullptr));
  if (are_plain(request.features)) FALAJ_TRY(train_set.set_feature_names(request.features));
  std::optional<Dataset> valid_set;
  if (data.valid.count() > 0) {
    valid_set = FALAJ_TRY(Dataset::create(library, Matrix{data.valid.values, data.columns},
                                          data.valid.labels, params, &train_set));
  }
  Booster booster =
      FALAJ_TRY(Booster::create(library, train_set, valid_set ? &*valid_set : nullptr, params));
  trained.rounds = FALAJ_TRY(boost(booster, request, trained.objective));
  trained.model_text = FALAJ_TRY(booster.save(static_cast<int>(trained.rounds)));
  trained.metrics = FALAJ_TRY(measure(library, trained, request));
  return trained;
}

}  // namespace falaj::training::lightgbm
