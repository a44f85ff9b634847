#include "training/engine.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "table/io.h"
#include "training/testing/samples.h"

namespace falaj::training {
namespace {

using testing::LabelKind;

class EngineTest : public ::testing::Test {
 protected:
  EngineConfig config(LabelKind kind = LabelKind::kClasses) {
    data_ = parquet(testing::sample_batch(3'000, 6, kind, 21));
    EngineConfig config;
    config.features = testing::feature_names(6);
    config.label = "label";
    config.engine = "lightgbm";
    config.params["rounds"] = 12;
    config.verify_rows = 5'000;
    config.library = FALAJ_LIGHTGBM;
    config.training_set = "abc123";
    return config;
  }

  static std::string parquet(const table::Batch& batch) {
    TextWriter out;
    const auto written = table::write_table(out, table::Format::kParquet, batch);
    EXPECT_TRUE(written.ok()) << written.error().message;
    return out.take();
  }

  Result<EngineOutput> run(const EngineConfig& config,
                           const OnnxRunner& runner = testing::walking_runner()) {
    return run_engine(config, TextReader(data_), runner,
                      [this](const Value& v) { lines_.push_back(v); });
  }

  std::string data_;
  std::vector<Value> lines_;
};

TEST_F(EngineTest, leaves_a_model_its_graph_and_the_proof) {
  const auto output = run(config());
  ASSERT_TRUE(output.ok()) << output.error().message;
  const Value& result = output->result;
  EXPECT_EQ(result.text("objective"), "binary");
  EXPECT_GT(result["metrics"].number("auc"), 0.85);
  EXPECT_EQ(result["proof"].integer("mismatches", -1), 0);
  EXPECT_GE(result["proof"].integer("rows"), 5'000);
  EXPECT_EQ(result["signature"]["inputs"].as_array()[0]["shape"].as_array()[1].as_int(), 6);
  EXPECT_EQ(result.integer("rows_valid"), 600);
  EXPECT_FALSE(output->model_text.empty());
  const std::string& onnx = output->model_onnx;
  EXPECT_NE(onnx.find("abc123"), std::string::npos) << "the training set is in the metadata";
  EXPECT_NE(onnx.find(R"(["f0","f1")"), std::string::npos);
  double last = 0;
  for (const Value& line : lines_) {
    if (!line.has("progress")) continue;
    EXPECT_GE(line.number("progress"), last);
    last = line.number("progress");
  }
  EXPECT_DOUBLE_EQ(last, 1.0);
}

TEST_F(EngineTest, the_same_config_gives_the_same_bytes) {
  const auto first = run(config());
  const auto again = run(config());
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->model_text, again->model_text);
  EXPECT_EQ(first->model_onnx, again->model_onnx);
  EXPECT_EQ(to_json(first->result), to_json(again->result));
}

TEST_F(EngineTest, a_regression_has_one_output) {
  const auto output = run(config(LabelKind::kAmounts));
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->result.text("objective"), "regression");
  EXPECT_EQ(output->result["signature"]["outputs"].as_array().size(), 1u);
}

TEST_F(EngineTest, a_graph_that_answers_otherwise_leaves_nothing_to_register) {
  const auto status = run(config(),
                          [](std::string_view, std::span<const float> rows,
                             std::size_t columns) -> Result<std::vector<float>> {
                            return std::vector<float>(rows.size() / columns, 0.5f);
                          });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().id, ErrorId::kOnnxMismatch);
}

TEST_F(EngineTest, says_which_column_is_missing_or_textual) {
  EngineConfig wrong = config();
  wrong.features.push_back("no_such");
  EXPECT_EQ(run(wrong).error().id, ErrorId::kSchemaMismatch);
  wrong = config();
  wrong.features.push_back("split");
  const auto textual = run(wrong);
  EXPECT_EQ(textual.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(textual.error().message.find("split"), std::string::npos);
}

TEST_F(EngineTest, refuses_a_label_that_is_missing_in_a_row) {
  table::Batch batch = testing::sample_batch(50, 6, LabelKind::kClasses, 1);
  for (std::size_t c = 0; c < 6; ++c) batch.columns[c].push_double(0);
  batch.columns[6].push_null();
  batch.columns[7].push_string("train");
  const EngineConfig wanted = config();
  data_ = parquet(batch);
  EXPECT_EQ(run(wanted).error().id, ErrorId::kSpineInvalid);
}

TEST_F(EngineTest, refuses_a_damaged_config_and_damaged_data) {
  EXPECT_FALSE(engine_config_from_value(*parse_json(R"({"label": "x"})")).ok());
  const EngineConfig wanted = config();
  data_.resize(data_.size() / 2);
  EXPECT_EQ(run(wanted).error().id, ErrorId::kMalformedTable);
}

}  // namespace
}  // namespace falaj::training
