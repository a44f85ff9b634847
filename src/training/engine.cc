#include "training/engine.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/decode.h"
#include "base/json.h"
#include "training/export.h"
#include "training/lightgbm/library.h"
#include "training/lightgbm/model_text.h"
#include "training/lightgbm/params.h"
#include "training/lightgbm/trainer.h"
#include "training/proof.h"
#include "training/training_data.h"

namespace falaj::training {
namespace {

// Training takes this part of the progress bar, the proof the rest.
constexpr double kTrainingShare = 0.8;

Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return Error(Code::kNotFound, "cannot read " + path);
  return text;
}

Status write_text(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) {
    return Error(ErrorId::kDataFolderFull,
                 "cannot write " + path + "; free space in the data folder");
  }
  return {};
}

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

// LightGBM's own answers. Keeps a reference to the booster.
EnginePredictor predictor_of(const lightgbm::Booster& booster, const TreeModel& model) {
  const std::size_t columns = model.features;
  const std::size_t trees = model.trees.size();
  return {[&booster, columns](std::span<const float> rows) {
            return booster.scores(lightgbm::Matrix{rows, columns});
          },
          [&booster, columns, trees](std::span<const float> rows) {
            return booster.leaves(lightgbm::Matrix{rows, columns}, trees);
          }};
}

Result<Value> train_lightgbm(const EngineConfig& config, const std::string& folder,
                             const OnnxRunner& runner, const Report& report) {
  const lightgbm::Params params = FALAJ_TRY(lightgbm::params_from_value(config.params));
  const lightgbm::Library library = FALAJ_TRY(lightgbm::open_library(config.library));
  const TrainingData data =
      FALAJ_TRY(read_training_data(config.data, config.features, config.label));
  const lightgbm::Trained trained = FALAJ_TRY(
      lightgbm::train(library, {data, config.features, params, config.threads, scaled(report)}));
  const TreeModel model = FALAJ_TRY(lightgbm::read_model_text(trained.model_text));
  const std::string onnx_path = folder + "/model.onnx";
  FALAJ_TRY(write_text(folder + "/model.txt", trained.model_text));
  FALAJ_TRY(write_text(onnx_path, onnx::write_trees(to_onnx_trees(model), metadata_of(config))));

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
      prove_equal({model, onnx_path, predictor_of(booster, model), runner, real.values,
                   config.verify_rows, static_cast<std::uint64_t>(params.seed), progress}));
  if (proof.mismatches > 0) {
    std::remove(onnx_path.c_str());
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
  return result;
}

Status run(const std::string& folder, const OnnxRunner& onnx, const Report& report) {
  const Value value = FALAJ_TRY(parse_json(FALAJ_TRY(read_text(folder + "/train.json"))));
  const EngineConfig config = FALAJ_TRY(engine_config_from_value(value));
  const Value result = FALAJ_TRY(train_lightgbm(config, folder, onnx, report));
  return write_text(folder + "/result.json", to_pretty_json(result));
}

}  // namespace

Value to_value(const EngineConfig& config) {
  Value value;
  value["data"] = config.data;
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
  Fields fields(value, "train.json");
  EngineConfig config;
  config.data = FALAJ_TRY(fields.required_text("data"));
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
    return Error(ErrorId::kMissingField, "train.json: features is empty; a model needs one");
  }
  return config;
}

Status run_engine(const std::string& folder, const OnnxRunner& onnx, const Report& report) {
  const Status status = run(folder, onnx, report);
  if (status.ok()) return status;
  // The parent gets the code and the message from here; the log is for people.
  Value error;
  error["code"] = to_string(status.error().id);
  error["message"] = status.error().message;
  FALAJ_TRY(write_text(folder + "/error.json", to_json(error)));
  return status;
}

}  // namespace falaj::training
