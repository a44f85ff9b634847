#include "cli/rollouts.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::cli {
namespace {

TEST(RolloutChart, shows_steps_arms_and_where_harm_may_lie) {
  const Value rollout = parse_json(R"({"name":"next","deployment":"fraud","champion":1,
    "candidate":2,"state":"running","held":true,"approved":true,"steps":[0,0.01,0.5],"step":1,
    "reason":"the step of 1 % is held by hand",
    "evidence":{"champion":{"requests":990,"units":90,"errors":1,"nans":0},
                "candidate":{"requests":10,"units":9,"errors":0,"nans":0}},
    "decision":{"findings":[
      {"guard":"errors","least":-0.01,"most":0.0025,"margin":0.005,"harm":"excluded"},
      {"guard":"latency","least":-1,"most":null,"margin":0.2,"harm":"open"}]}})")
                            .value();
  const std::string chart = rollout_chart(rollout);
  EXPECT_NE(chart.find("version 1 → 2  running, held, approved"), std::string::npos) << chart;
  EXPECT_NE(chart.find("shadow ━ [1 %] ─ 50 %"), std::string::npos) << chart;
  EXPECT_NE(chart.find("990 requests"), std::string::npos) << chart;
  // Up to half of the margin: a quarter of the bar, and the margin in its middle.
  EXPECT_NE(chart.find("errors     ━━━━━━━━━━━·········┃···················"), std::string::npos)
      << chart;
  EXPECT_NE(chart.find("latency    ━━━━━━━━━━━━━━━━━━━━┃━━━━━━━━━━━━━━━━━━━"), std::string::npos)
      << chart;
  EXPECT_NE(chart.find("harm excluded"), std::string::npos) << chart;
}

TEST(RolloutChart, shows_what_the_replay_found) {
  const Value rollout = parse_json(R"({"name":"next","deployment":"fraud","champion":1,
    "candidate":2,"state":"rolled back","steps":[0],"step":0,"reason":"the replay",
    "replay":{"evidence":{"answered":500,"failed":3,"nans":1,"difference":0.125,"largest":2},
              "decision":{"outcome":"refuse"}}})")
                            .value();
  const std::string chart = rollout_chart(rollout);
  EXPECT_NE(
      chart.find("500 requests          3 failed        1 NaN  differ by 0.125 in the mean, 2 "
                 "at most: refuse"),
      std::string::npos)
      << chart;
}

TEST(RolloutChart, begins_before_anything_is_known) {
  const Value rollout = parse_json(R"({"name":"next","deployment":"fraud","champion":1,
    "candidate":2,"state":"running","held":false,"approved":false,"steps":[0],"step":0,
    "reason":"the candidate is loaded","evidence":null,"decision":null})")
                            .value();
  EXPECT_EQ(rollout_chart(rollout),
            "next  fraud  version 1 → 2  running\n  [shadow]\n  the candidate is loaded\n");
}

}  // namespace
}  // namespace falaj::cli
