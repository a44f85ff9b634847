// serving/testing/linear_version.h — one more version of a model, which adds up weighted columns.
#pragma once

#include <string>
#include <vector>

#include "serving/testing/serving_world.h"

namespace falaj::serving::testing {

// Returns its number.
inline std::int64_t add_linear(ServingWorld& world, const std::string& model,
                               const std::vector<float>& weights) {
  registry::ModelVersion version;
  version.model = model;
  version.project = world.context.project.str();
  version.zone = "ae";
  EXPECT_TRUE(registry::keep_onnx(*world.blobs, linear_onnx(weights, 0), version).ok());
  const auto columns = static_cast<std::int64_t>(weights.size());
  version.signature.inputs = {{"input", "FP32", {-1, columns}}};
  version.signature.outputs = {{"score", "FP32", {-1, 1}}};
  version.run = RunId("run-" + std::to_string(++world.registered));
  return world.models->add_version(world.context, version)->version;
}

}  // namespace falaj::serving::testing
