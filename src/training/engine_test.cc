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
    const std::string data = folder_.path() + "/data.parquet";
    const auto written =
        table::write_file(data, table::Format::kParquet, testing::sample_batch(3'000, 6, kind, 21));
    EXPECT_TRUE(written.ok()) << written.error().message;
    EngineConfig config;
    config.data = data;
    config.features = testing::feature_names(6);
    config.label = "label";
    config.engine = "lightgbm";
    config.params["rounds"] = 12;
    config.verify_rows = 5'000;
    config.library = FALAJ_LIGHTGBM;
    config.training_set = "abc123";
    return config;
  }

  Status run(const EngineConfig& config, const OnnxRunner& runner = testing::walking_runner()) {
    testing::write_bytes(path("train.json"), to_json(to_value(config)));
    return run_engine(folder_.path(), runner, [this](const Value& v) { lines_.push_back(v); });
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  testing::TempFolder folder_;
  std::vector<Value> lines_;
};

TEST_F(EngineTest, leaves_a_model_its_graph_and_the_proof) {
  const Status status = run(config());
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto result = parse_json(testing::read_bytes(path("result.json")));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->text("objective"), "binary");
  EXPECT_GT((*result)["metrics"].number("auc"), 0.85);
  EXPECT_EQ((*result)["proof"].integer("mismatches", -1), 0);
  EXPECT_GE((*result)["proof"].integer("rows"), 5'000);
  EXPECT_EQ((*result)["signature"]["inputs"].as_array()[0]["shape"].as_array()[1].as_int(), 6);
  EXPECT_EQ(result->integer("rows_valid"), 600);
  EXPECT_FALSE(testing::read_bytes(path("model.txt")).empty());
  const std::string onnx = testing::read_bytes(path("model.onnx"));
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
  ASSERT_TRUE(run(config()).ok());
  const std::string model = testing::read_bytes(path("model.txt"));
  const std::string onnx = testing::read_bytes(path("model.onnx"));
  const std::string result = testing::read_bytes(path("result.json"));
  ASSERT_TRUE(run(config()).ok());
  EXPECT_EQ(testing::read_bytes(path("model.txt")), model);
  EXPECT_EQ(testing::read_bytes(path("model.onnx")), onnx);
  EXPECT_EQ(testing::read_bytes(path("result.json")), result);
}

TEST_F(EngineTest, a_regression_has_one_output) {
  const Status status = run(config(LabelKind::kAmounts));
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto result = parse_json(testing::read_bytes(path("result.json")));
  EXPECT_EQ(result->text("objective"), "regression");
  EXPECT_EQ((*result)["signature"]["outputs"].as_array().size(), 1u);
}

TEST_F(EngineTest, a_graph_that_answers_otherwise_leaves_nothing_to_register) {
  const Status status = run(config(),
                            [](const std::string&, std::span<const float> rows,
                               std::size_t columns) -> Result<std::vector<float>> {
                              return std::vector<float>(rows.size() / columns, 0.5f);
                            });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().id, ErrorId::kOnnxMismatch);
  EXPECT_TRUE(testing::read_bytes(path("model.onnx")).empty());
  EXPECT_TRUE(testing::read_bytes(path("result.json")).empty());
  const auto error = parse_json(testing::read_bytes(path("error.json")));
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->text("code"), "FJ-4006");
}

TEST_F(EngineTest, says_which_column_is_missing_or_textual) {
  EngineConfig wrong = config();
  wrong.features.push_back("no_such");
  EXPECT_EQ(run(wrong).error().id, ErrorId::kSchemaMismatch);
  wrong = config();
  wrong.features.push_back("split");
  const Status textual = run(wrong);
  EXPECT_EQ(textual.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(textual.error().message.find("split"), std::string::npos);
}

TEST_F(EngineTest, refuses_a_label_that_is_missing_in_a_row) {
  table::Batch batch = testing::sample_batch(50, 6, LabelKind::kClasses, 1);
  for (std::size_t c = 0; c < 6; ++c) batch.columns[c].push_double(0);
  batch.columns[6].push_null();
  batch.columns[7].push_string("train");
  EngineConfig wrong = config();
  wrong.data = path("unlabelled.parquet");
  ASSERT_TRUE(table::write_file(wrong.data, table::Format::kParquet, batch).ok());
  EXPECT_EQ(run(wrong).error().id, ErrorId::kSpineInvalid);
}

TEST_F(EngineTest, refuses_a_damaged_config_and_damaged_data) {
  testing::write_bytes(path("train.json"), R"({"data": "x")");
  const auto none = [](const Value&) {};
  EXPECT_FALSE(run_engine(folder_.path(), testing::walking_runner(), none).ok());
  EngineConfig truncated = config();
  const std::string bytes = testing::read_bytes(truncated.data);
  testing::write_bytes(truncated.data, bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(run(truncated).error().id, ErrorId::kMalformedTable);
}

}  // namespace
}  // namespace falaj::training
