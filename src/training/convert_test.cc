#include "training/convert.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "onnx/trees.h"
#include "training/testing/samples.h"
#include "training/xgboost/model_json.h"

namespace falaj::training {
namespace {

const std::string kFolder =
    std::string(FALAJ_LIGHTGBM).substr(0, std::string(FALAJ_LIGHTGBM).rfind('/'));

// Two trees, written by hand as XGBoost writes them: a split at 0 whose missing go right, and one
// whose left child splits again. Numbers that are no integers keep their
// exponent: XGBoost tells them apart.
constexpr std::string_view kHandMade = R"({"version":[3,2,0],"learner":{
    "learner_model_param":{"base_score":"[2.5E-1]","num_class":"0","num_feature":"2",
                           "num_target":"1","boost_from_average":"1"},
    "objective":{"name":"binary:logistic","reg_loss_param":{"scale_pos_weight":"1"}},
    "attributes":{},"feature_names":[],"feature_types":[],
    "gradient_booster":{"name":"gbtree","model":{
      "gbtree_model_param":{"num_parallel_tree":"1","num_trees":"2"},
      "iteration_indptr":[0,1,2],"tree_info":[0,0],
      "cats":{"enc":[],"feature_segments":[],"sorted_idx":[]},
      "trees":[
        {"id":0,"base_weights":[0.0E0,-0.5E0,0.75E0],"categories":[],"categories_nodes":[],
         "categories_segments":[],"categories_sizes":[],"default_left":[0,0,0],
         "left_children":[1,-1,-1],"loss_changes":[1.0E0,0.0E0,0.0E0],"parents":[2147483647,0,0],
         "right_children":[2,-1,-1],"split_conditions":[0.0E0,-0.5E0,0.75E0],
         "split_indices":[0,0,0],
         "split_type":[0,0,0],"sum_hessian":[2.0E0,1.0E0,1.0E0],
         "tree_param":{"num_deleted":"0","num_feature":"2","num_nodes":"3","size_leaf_vector":"1"}},
        {"id":1,"base_weights":[0.0E0,0.0E0,0.125E0,-1.0E0,1.0E0],"categories":[],
         "categories_nodes":[],"categories_segments":[],
         "categories_sizes":[],"default_left":[1,0,0,0,0],
         "left_children":[1,3,-1,-1,-1],"loss_changes":[1.0E0,1.0E0,0.0E0,0.0E0,0.0E0],
         "parents":[2147483647,0,0,1,1],
         "right_children":[2,4,-1,-1,-1],"split_conditions":[1.5E0,-3.25E0,0.125E0,-1.0E0,1.0E0],
         "split_indices":[1,0,0,0,0],"split_type":[0,0,0,0,0],
         "sum_hessian":[2.0E0,1.0E0,1.0E0,1.0E0,1.0E0],
         "tree_param":{"num_deleted":"0","num_feature":"2","num_nodes":"5","size_leaf_vector":"1"}}
      ]}}}})";

Value hand_made() { return *parse_json(kHandMade); }

Value& tree_of(Value& model, std::size_t index) {
  return model["learner"]["gradient_booster"]["model"]["trees"].as_array()[index];
}

Result<Converted> convert(std::string_view text) {
  const OnnxRunner runner = testing::walking_runner();
  return convert_saved({text, Saved::kXgboostJson, kFolder, runner, 5'000});
}

TEST(Convert, xgboosts_json_answers_as_xgboost_does) {
  const auto made = convert(kHandMade);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->proof.integer("mismatches", -1), 0);
  EXPECT_GE(made->proof.integer("rows"), 5'000);
  EXPECT_EQ(made->proof.integer("rows_aimed"), 12) << "four at each of three splits";
  const onnx::Trees trees = onnx::read_trees(made->onnx).value();
  EXPECT_EQ(trees.features, 2u);
  const float zero = trees.values.front();
  EXPECT_LT(zero, 0) << "x < 0 is x ≤ the float below it";
  EXPECT_EQ(zero, -std::numeric_limits<float>::denorm_min());
}

TEST(Convert, a_graph_that_differs_is_never_given_out) {
  const OnnxRunner off = [](std::string_view onnx, std::span<const float> matrix,
                            std::size_t columns) -> Result<std::vector<float>> {
    auto scores = FALAJ_TRY(testing::walking_runner()(onnx, matrix, columns));
    scores.back() += 0.01f;
    return scores;
  };
  const auto made = convert_saved({kHandMade, Saved::kXgboostJson, kFolder, off, 5'000});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().id, ErrorId::kOnnxMismatch);
}

TEST(Convert, what_xgboost_can_and_we_cannot_is_refused_by_name) {
  Value poisson = hand_made();
  poisson["learner"]["objective"]["name"] = "count:poisson";
  Value dart = hand_made();
  dart["learner"]["gradient_booster"]["name"] = "dart";
  Value classes = hand_made();
  classes["learner"]["learner_model_param"]["num_class"] = "3";
  Value categories = hand_made();
  tree_of(categories, 0)["categories"].push(1);
  for (const Value* model : {&poisson, &dart, &classes, &categories}) {
    const auto made = convert(to_json(*model));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::kUnimplemented) << made.error().message;
  }
}

TEST(Convert, a_tree_that_leads_astray_is_damaged) {
  const auto broken = [](const char* list, std::size_t at, Value value) {
    Value model = hand_made();
    tree_of(model, 1)[list].as_array()[at] = std::move(value);
    return xgboost::read_model_json(to_json(model));
  };
  for (const auto& read : {broken("left_children", 0, 0), broken("left_children", 0, 99),
                           broken("left_children", 0, 2), broken("left_children", 1, -1),
                           broken("left_children", 0, -7), broken("split_indices", 0, 2),
                           broken("split_indices", 0, -1), broken("split_conditions", 0, "x"),
                           broken("split_conditions", 0, 1e300), broken("default_left", 0, 2),
                           broken("default_left", 0, nullptr), broken("right_children", 0, 0.5)}) {
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().id, ErrorId::kModelCorrupt) << read.error().message;
  }
  EXPECT_FALSE(xgboost::read_model_json("{}").ok());
  EXPECT_FALSE(xgboost::read_model_json("{").ok());
}

TEST(Convert, a_missing_library_is_said) {
  const OnnxRunner runner = testing::walking_runner();
  const auto made =
      convert_saved({kHandMade, Saved::kXgboostJson, "/no/such/folder", runner, 5'000});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().id, ErrorId::kEngineUnavailable);
}

}  // namespace
}  // namespace falaj::training
