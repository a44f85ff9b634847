#include "serving/model_import.h"

#include <gtest/gtest.h>

#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

class OptimizedImport : public ::testing::Test {
 protected:
  // As the confined process answers: what the runtime reads from the file.
  Result<Inspected> inspect(std::string_view model) {
    Inspected out;
    out.signature = FALAJ_TRY(world_.runtime->load_bytes(model))->signature();
    return out;
  }
  Result<registry::ModelVersion> add(const std::string& onnx, std::int64_t from) {
    return import_.add(world_.context, "fraud", {onnx, "", from});
  }

  testing::ServingWorld world_;
  ModelImport import_{*world_.models, *world_.blobs,
                      [this](std::string_view model) { return inspect(model); }, "test"};
};

TEST_F(OptimizedImport, names_its_origin_and_can_stand_in_for_it) {
  const std::int64_t first = world_.register_linear(2, 1, "set-1");
  const auto made = add(testing::linear_onnx({1.9F, 1}, 1, R"(["amount","age"])"), first);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->version, first + 1);
  EXPECT_EQ(made->training_set, "set-1");
  EXPECT_EQ(made->feature_service, "svc");
  const auto kept = world_.models->get(world_.context.project, "fraud", made->version).value();
  const auto origin = world_.models->get(world_.context.project, "fraud", first).value();
  const Value shown = to_value(kept);
  EXPECT_EQ(shown.integer("optimized_from"), first);
  EXPECT_EQ(shown["proof"]["optimized_from"].text("onnx"), origin.onnx_sha256);
  EXPECT_FALSE(to_value(origin).has("optimized_from"));
  const auto entries = world_.audited("model.register");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].detail["proof"]["optimized_from"].integer("version"), first);
}

TEST_F(OptimizedImport, refuses_what_cannot_stand_in_for_its_origin) {
  const std::int64_t first = world_.register_linear(2, 1);
  const std::string fits = testing::linear_onnx({1, 1}, 1, R"(["amount","age"])");
  for (const std::string& other :
       {testing::linear_onnx({1, 1, 1}, 1), testing::linear_onnx({1, 1}, 1),
        testing::linear_onnx({1, 1}, 1, R"(["age","amount"])"),
        testing::identity_onnx(testing::kOnnxFloat, {-1, 2})}) {
    const auto refused = add(other, first);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().id, ErrorId::kModelFormatRefused) << refused.error().message;
  }
  EXPECT_EQ(world_.audited("model.refused").size(), 4u);
  EXPECT_EQ(add(fits, first + 5).error().id, ErrorId::kModelNotFound);
  EXPECT_EQ(world_.models->versions(world_.context.project, "fraud")->size(), 1u);
  EXPECT_FALSE(to_value(add(fits, 0).value()).has("optimized_from"));
}

TEST_F(OptimizedImport, stays_in_the_zone_of_its_origin) {
  const std::int64_t first = world_.register_linear(2, 1);
  security::RequestContext elsewhere = world_.context;
  elsewhere.zone = Zone("other");
  const std::string fits = testing::linear_onnx({1, 1}, 1, R"(["amount","age"])");
  const auto refused = import_.add(elsewhere, "fraud", {fits, "", first});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace falaj::serving
