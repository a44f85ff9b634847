#include <gtest/gtest.h>

#include "base/json.h"
#include "serving/internal/deployments_impl.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving {
namespace {

class VersionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    ASSERT_TRUE(world_.append("activity", "customer_id,at,amount,age\n1,2026-01-01,10,30\n").ok());
    for (int i = 1; i <= 4; ++i) world_.register_linear(static_cast<float>(i), 0);
    world_.promote(2);
  }
  void declare(const std::string& versions) {
    world_.apply("Deployment", "fraud", R"({"model":"fraud","versions":)" + versions + "}");
    tick();
  }
  void tick() {
    const Status ticked = world_.deployments->tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }
  std::shared_ptr<const LiveModel> live() const {
    return world_.deployments->find(world_.context.project, "fraud").value();
  }
  // The one that answers first, then the others.
  std::vector<std::int64_t> served() const {
    std::vector<std::int64_t> numbers{live()->version.version};
    for (const auto& other : live()->others) numbers.push_back(other->version.version);
    return numbers;
  }
  float score(std::int64_t version) const {
    const auto named = version_of(live(), version);
    if (named == nullptr) return -1;
    return world_.deployments->predict(named, {{"customer_id", features::KeyPart(1)}}, "r")->score;
  }
  using Numbers = std::vector<std::int64_t>;

  testing::ServingWorld world_;
};

TEST_F(VersionsTest, all_of_them_answer_who_names_them_and_the_alias_all_others) {
  declare(R"("all")");
  EXPECT_EQ(served(), Numbers({2, 1, 3, 4}));
  for (int version = 1; version <= 4; ++version) {
    EXPECT_EQ(score(version), static_cast<float>(version * 10 + 30));
  }
  EXPECT_EQ(version_of(live(), 5), nullptr);
  EXPECT_EQ(world_.predict(1)->version, 2);
  const DeploymentStatus status = world_.deployments->status().at(0);
  ASSERT_EQ(status.others.size(), 3U);
  EXPECT_EQ(status.others[2].version, 4);
  EXPECT_EQ(status.others[2].requests, 1U);
  EXPECT_EQ(status.requests, 2U);
}

TEST_F(VersionsTest, the_latest_or_those_of_a_list) {
  declare(R"({"latest":1})");
  EXPECT_EQ(served(), Numbers({2, 4}));
  declare(R"({"latest":9})");
  EXPECT_EQ(served(), Numbers({2, 1, 3, 4}));
  declare("[3,2,3]");
  EXPECT_EQ(served(), Numbers({2, 3}));
  world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
  tick();
  EXPECT_EQ(served(), Numbers({2}));
}

TEST_F(VersionsTest, what_did_not_change_is_not_loaded_again) {
  declare(R"({"latest":2})");
  const auto before = live();
  tick();
  EXPECT_EQ(live().get(), before.get());
  world_.promote(3);
  tick();
  EXPECT_EQ(served(), Numbers({3, 4}));
  EXPECT_EQ(version_of(live(), 4)->session, version_of(before, 4)->session);
  world_.register_linear(5, 0);
  tick();
  EXPECT_EQ(served(), Numbers({3, 4, 5})) << "the latest two, and the alias";
  EXPECT_EQ(score(5), 80);
  declare("[2,4]");
  EXPECT_EQ(served(), Numbers({3, 2, 4}));
  world_.promote(4);
  tick();
  const auto after = live();
  EXPECT_EQ(served(), Numbers({4, 2}));
  world_.promote(2);
  tick();
  EXPECT_EQ(version_of(live(), 4)->session, after->session) << "the one that served goes on";
}

TEST_F(VersionsTest, one_that_cannot_be_loaded_is_named_and_what_served_serves_on) {
  declare("[1]");
  registry::ModelVersion broken;
  broken.model = "fraud";
  broken.project = world_.context.project.str();
  broken.zone = world_.context.zone.name();
  ASSERT_TRUE(registry::keep_onnx(*world_.blobs, "this is no model", broken).ok());
  broken.run = RunId("broken");
  ASSERT_EQ(world_.models->add_version(world_.context, broken)->version, 5);
  declare("[1,5]");
  const DeploymentStatus status = world_.deployments->status().at(0);
  EXPECT_EQ(status.state, "failed");
  EXPECT_NE(status.error.find("version 5"), std::string::npos) << status.error;
  EXPECT_EQ(served(), Numbers({2, 1}));
}

TEST(Versions, are_all_or_some_or_the_latest) {
  using Which = Deployment::Versions::Which;
  const auto decoded = [](const std::string& versions) {
    storage::Object object;
    object.name = "fraud";
    object.spec = parse_json(R"({"model":"fraud","versions":)" + versions + "}").value();
    return decode_deployment(object);
  };
  EXPECT_EQ(decoded(R"("all")")->versions.which, Which::kAll);
  EXPECT_EQ(decoded(R"({"latest":2})")->versions.latest, 2);
  EXPECT_EQ(decoded("[1,3]")->versions.listed, (std::vector<std::int64_t>{1, 3}));
  for (const char* wrong : {R"("some")", "{}", R"({"latest":0})", R"({"latest":33})", "[0]",
                            R"(["1"])", "3", R"({"latset":2})"}) {
    EXPECT_FALSE(decoded(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace falaj::serving
