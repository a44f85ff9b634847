#include "training/engine.h"

#include <utility>

#include "base/decode.h"
#include "base/json.h"
#include "training/export.h"
#include "training/lightgbm/library.h"
#include "training/lightgbm/model_text.h"
#include "training/lightgbm/params.h"
#include "training/lightgbm/predictor.h"
#include "training/lightgbm/trainer.h"
#include "training/proof.h"
#include "training/training_data.h"

namespace falaj::training {
namespace {

// Training takes this part of the progress bar, the proof the rest.
constexpr double kTrainingShare = 0.8;

// Scales the trainer's own 0–1 into its share.
Report scaled(const Report& report) {
  return [report](const Value& line) {
    if (!line.has("progress")) return report(line);
    Value scaled_line;
    scaled_line["progress"] = line.number("progress") * kTrainingShare;
    report(scaled_line);
  };
}

Value tensor(const char* name, const char* datatype, Value::Array shape) {
  Value value;
  value["name"] = name;
  value["datatype"] = datatype;
  value["shape"] = std::move(shape);
  return value;
}

Value signature_of(const TreeModel& model, const std::vector<std::string>& features) {
  Value names = Value::array();
  for (const std::string& name : features) names.push(name);
  Value value;
  value["inputs"].push(tensor("input", "FP32", {-1, Value(model.features)}));
  if (model.objective == Objective::kBinary) {
    value["outputs"].push(tensor("label", "INT64", {-1}));
    value["outputs"].push(tensor("probabilities", "FP32", {-1, 2}));
  } else {
    value["outputs"].push(tensor("variable", "FP32", {-1, 1}));
  }
  value["features"] = names;
  return value;
}

onnx::Metadata metadata_of(const EngineConfig& config) {
  Value names = Value::array();
  for (const std::string& name : config.features) names.push(name);
  return {{"producer", "falaj"},
          {"engine", config.engine},
          {"features", to_json(names)},
          {"label", config.label},
          {"training_set", config.training_set}};
}

Result<EngineOutput> train_lightgbm(const EngineConfig& config, const ByteReader& file,
                                    const OnnxRunner& runner, const Report& report) {
  const lightgbm::Params params = FALAJ_TRY(lightgbm::params_from_value(config.params));
  const lightgbm::Library library = FALAJ_TRY(lightgbm::open_library(config.library));
  const TrainingData data = FALAJ_TRY(read_training_data(file, config.features, config.label));
  const lightgbm::Trained trained = FALAJ_TRY(
      lightgbm::train(library, {data, config.features, params, config.threads, scaled(report)}));
  const TreeModel model = FALAJ_TRY(lightgbm::read_model_text(trained.model_text));
  const std::string graph = onnx::write_trees(to_onnx_trees(model), metadata_of(config));

  const auto progress = [&](double share) {
    Value line;
    line["progress"] = kTrainingShare + (1 - kTrainingShare) * share;
    report(line);
  };
  // The saved text is what is proven, not the model in memory it came from.
  lightgbm::Booster booster = FALAJ_TRY(lightgbm::Booster::load(library, trained.model_text));
  booster.set_threads(config.threads);
  const Rows& real = data.valid.count() > 0 ? data.valid : data.train;
  const Proof proof = FALAJ_TRY(
      prove_equal({model, graph, lightgbm::predictor_of(booster, model), runner, real.values,
                   config.verify_rows, static_cast<std::uint64_t>(params.seed), progress}));
  if (proof.mismatches > 0) {
    return Error(ErrorId::kOnnxMismatch, "the ONNX graph differs from LightGBM on " +
                                             std::to_string(proof.mismatches) + " of " +
                                             std::to_string(proof.rows) + " rows (" +
                                             proof.first_mismatch + "); nothing is registered");
  }
  Value result;
  result["objective"] = model.objective == Objective::kBinary ? "binary" : "regression";
  result["rounds"] = trained.rounds;
  result["rows_train"] = Value(data.train.count());
  result["rows_valid"] = Value(data.valid.count());
  result["metrics"] = trained.metrics;
  result["proof"] = to_value(proof);
  result["signature"] = signature_of(model, config.features);
  return EngineOutput{std::move(result), trained.model_text, graph};
}

}  // namespace

Value to_value(const EngineConfig& config) {
  Value value;
  value["features"] = Value::array();
  for (const std::string& name : config.features) value["features"].push(name);
  value["label"] = config.label;
  value["engine"] = config.engine;
  value["params"] = config.params;
  value["threads"] = config.threads;
  value["verify_rows"] = config.verify_rows;
  value["library"] = config.library;
  value["training_set"] = config.training_set;
  return value;
}

Result<EngineConfig> engine_config_from_value(const Value& value) {
  Fields fields(value, "training order");
  EngineConfig config;
  config.features = FALAJ_TRY(fields.texts("features"));
  config.label = FALAJ_TRY(fields.required_text("label"));
  config.engine = FALAJ_TRY(fields.choice("engine", {"lightgbm"}));
  config.params = fields.any("params");
  config.threads = FALAJ_TRY(fields.integer("threads", config.threads, 1, 256));
  config.verify_rows =
      FALAJ_TRY(fields.integer("verify_rows", config.verify_rows, 1'000, 10'000'000));
  config.library = FALAJ_TRY(fields.required_text("library"));
  config.training_set = FALAJ_TRY(fields.text("training_set"));
  FALAJ_TRY(fields.finish());
  if (config.features.empty()) {
    return Error(ErrorId::kMissingField, "training order: features is empty; a model needs one");
  }
  return config;
}

Result<EngineOutput> run_engine(const EngineConfig& config, const ByteReader& data,
                                const OnnxRunner& onnx, const Report& report) {
  return train_lightgbm(config, data, onnx, report);
}

}  // namespace falaj::training
