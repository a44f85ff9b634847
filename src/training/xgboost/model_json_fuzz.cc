// Any bytes as XGBoost's JSON of a model: refused with a reason, or trees that are safe to walk.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "training/testing/walkable.h"
#include "training/xgboost/model_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = falaj::training::xgboost::read_model_json(text);
  if (!model.ok()) {
    FALAJ_CHECK(!model.error().message.empty());
    return 0;
  }
  falaj::training::testing::check_walkable(model->trees);
  FALAJ_CHECK(model->leaf_of_node.size() == model->trees.trees.size());
  for (std::size_t i = 0; i < model->leaf_of_node.size(); ++i) {
    const auto leaves = static_cast<std::int64_t>(model->trees.trees[i].leaves.size());
    for (const std::int32_t leaf : model->leaf_of_node[i]) FALAJ_CHECK(leaf < leaves);
  }
  return 0;
}
