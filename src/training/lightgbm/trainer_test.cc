#include "training/lightgbm/trainer.h"

#include <gtest/gtest.h>

#include "training/lightgbm/model_text.h"
#include "training/testing/samples.h"

namespace falaj::training::lightgbm {
namespace {

using testing::LabelKind;

Result<Trained> train_sample(
    const TrainingData& data, const Params& params, const Report& report = [](const Value&) {}) {
  const auto names = testing::feature_names(data.columns);
  return train(testing::library(), {data, names, params, 2, report});
}

TEST(OpenLibrary, names_the_path_that_is_missing) {
  const auto opened = open_library("no/such/lib_lightgbm.so");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().id, ErrorId::kEngineUnavailable);
  EXPECT_NE(opened.error().message.find("no/such/lib_lightgbm.so"), std::string::npos);
}

TEST(Trainer, learns_and_reports_each_round) {
  const TrainingData data = testing::sample_data(3'000, 8, LabelKind::kClasses, 1);
  Params params;
  params.rounds = 20;
  std::vector<Value> lines;
  const auto trained =
      train_sample(data, params, [&](const Value& line) { lines.push_back(line); });
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  EXPECT_EQ(trained->objective, Objective::kBinary);
  EXPECT_EQ(trained->rounds, 20);
  EXPECT_GT(trained->metrics.number("auc"), 0.9);
  std::int64_t areas = 0;
  double last = 0;
  for (const Value& line : lines) {
    if (line.text("metric") == "auc") {
      EXPECT_EQ(line.integer("step"), ++areas);
    }
    if (line.has("progress")) last = line.number("progress");
  }
  EXPECT_EQ(areas, 20);
  EXPECT_DOUBLE_EQ(last, 1.0);
}

TEST(Trainer, early_stopping_keeps_the_best_round) {
  const TrainingData data = testing::sample_data(600, 6, LabelKind::kClasses, 2);
  Params params;
  params.rounds = 400;
  params.learning_rate = 0.5;
  params.min_data_in_leaf = 2;
  params.early_stopping = 10;
  double best = 1e9;
  std::int64_t best_round = 0;
  std::int64_t last_round = 0;
  const auto trained = train_sample(data, params, [&](const Value& line) {
    if (line.text("metric") != "logloss") return;
    last_round = line.integer("step");
    if (line.number("value") < best) {
      best = line.number("value");
      best_round = last_round;
    }
  });
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  EXPECT_EQ(trained->rounds, best_round);
  EXPECT_EQ(last_round, best_round + 10);
  EXPECT_NEAR(trained->metrics.number("logloss"), best, 1e-12);
  const auto model = read_model_text(trained->model_text);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->trees.size(), static_cast<std::size_t>(best_round));
}

TEST(Trainer, numbers_other_than_classes_become_a_regression) {
  const TrainingData data = testing::sample_data(2'000, 5, LabelKind::kAmounts, 3);
  const auto trained = train_sample(data, Params{});
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  EXPECT_EQ(trained->objective, Objective::kRegression);
  EXPECT_LT(trained->metrics.number("rmse"), 1.0);
  Params binary;
  binary.objective = WantedObjective::kBinary;
  const auto refused = train_sample(data, binary);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kSpineInvalid);
}

TEST(Trainer, a_label_that_never_changes_gives_a_constant) {
  TrainingData data = testing::sample_data(500, 3, LabelKind::kClasses, 4);
  for (float& label : data.train.labels) label = 0;
  const auto trained = train_sample(data, Params{});
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  const auto model = read_model_text(trained->model_text);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->trees.size(), 1u);
  EXPECT_TRUE(model->trees[0].nodes.empty());
}

TEST(Trainer, refuses_early_stopping_without_valid_rows) {
  TrainingData data = testing::sample_data(500, 3, LabelKind::kClasses, 4);
  data.valid = {};
  Params params;
  params.early_stopping = 5;
  const auto refused = train_sample(data, params);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kSpineInvalid);
}

TEST(Trainer, the_same_request_gives_the_same_bytes) {
  const TrainingData data = testing::sample_data(2'000, 6, LabelKind::kClasses, 5);
  Params params;
  params.bagging_fraction = 0.7;
  params.bagging_freq = 1;
  params.feature_fraction = 0.6;
  const auto first = train_sample(data, params);
  const auto second = train_sample(data, params);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->model_text, second->model_text);
  params.seed = 1;
  EXPECT_NE(train_sample(data, params)->model_text, first->model_text);
}

TEST(ModelText, refuses_damage_by_name_and_never_crashes) {
  const TrainingData data = testing::sample_data(500, 3, LabelKind::kClasses, 6);
  Params params;
  params.rounds = 2;
  const std::string text = train_sample(data, params)->model_text;
  ASSERT_TRUE(read_model_text(text).ok());
  EXPECT_EQ(read_model_text("").error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(read_model_text(text.substr(0, text.size() / 3)).error().id, ErrorId::kModelCorrupt);
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string copy = text;
    const auto at = copy.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return read_model_text(copy.replace(at, from.size(), to));
  };
  EXPECT_EQ(replaced("left_child=", "left_child=0 ").error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(replaced("split_feature=", "split_feature=9").error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(replaced("num_cat=0", "num_cat=1").error().code, Code::kUnimplemented);
  EXPECT_EQ(replaced("sigmoid:1", "sigmoid:2").error().code, Code::kUnimplemented);
  EXPECT_EQ(replaced("is_linear=0", "is_linear=1").error().code, Code::kUnimplemented);
}

}  // namespace
}  // namespace falaj::training::lightgbm
