#include "api/inference/nv_metrics.h"

#include <gtest/gtest.h>

namespace falaj::api {
namespace {

serving::DeploymentStatus fraud() {
  serving::DeploymentStatus status;
  status.project = "payments";
  status.name = "fraud";
  status.version = 3;
  status.requests = 10;
  status.errors = 2;
  status.refused = 4;
  status.rows = 80;
  status.joined = 3;
  status.cache_hits = 1;
  status.seconds_total = 0.5;
  status.waiting = 5;
  status.phases[static_cast<std::size_t>(serving::Phase::kFeatures)] = {8, 0.000'010};
  status.phases[static_cast<std::size_t>(serving::Phase::kBatch)] = {8, 0.000'005};
  status.phases[static_cast<std::size_t>(serving::Phase::kExecute)] = {8, 0.25};
  return status;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(NvMetrics, have_the_names_and_units_that_boards_ask_for) {
  const std::string text = nv_metrics(std::vector{fraud()});
  const std::string labels = R"({model="fraud",version="3",project="payments"} )";
  EXPECT_TRUE(has_line(text, "# TYPE nv_inference_request_success counter"));
  EXPECT_TRUE(has_line(text, "nv_inference_request_success" + labels + "8"));
  EXPECT_TRUE(has_line(text, "nv_inference_count" + labels + "80"));
  EXPECT_TRUE(has_line(text, "nv_inference_exec_count" + labels + "4"));
  EXPECT_TRUE(has_line(text, "nv_inference_request_duration_us" + labels + "500000"));
  EXPECT_TRUE(has_line(text, "nv_inference_compute_input_duration_us" + labels + "15"));
  EXPECT_TRUE(has_line(text, "nv_inference_compute_infer_duration_us" + labels + "250000"));
  EXPECT_TRUE(has_line(text, "# TYPE nv_inference_pending_request_count gauge"));
  EXPECT_TRUE(has_line(text, "nv_inference_pending_request_count" + labels + "5"));
  EXPECT_TRUE(has_line(text, "nv_cache_num_hits_per_model" + labels + "1"));
}

TEST(NvMetrics, tell_failures_apart_under_one_type) {
  const std::string text = nv_metrics(std::vector{fraud()});
  const std::string series = R"(nv_inference_request_failure{model="fraud",version="3",)";
  EXPECT_TRUE(has_line(text, series + R"(project="payments",reason="BACKEND"} 2)"));
  EXPECT_TRUE(has_line(text, series + R"(project="payments",reason="REJECTED"} 4)"));
  const std::string type = "# TYPE nv_inference_request_failure";
  EXPECT_EQ(text.find(type), text.rfind(type));
}

TEST(NvMetrics, are_none_while_nothing_serves) {
  EXPECT_EQ(nv_metrics({}), "");
  serving::DeploymentStatus loading = fraud();
  loading.version = 0;
  EXPECT_EQ(nv_metrics(std::vector{loading}), "");
  EXPECT_EQ(nv_metrics(std::vector{loading, fraud()}), nv_metrics(std::vector{fraud()}));
}

}  // namespace
}  // namespace falaj::api
