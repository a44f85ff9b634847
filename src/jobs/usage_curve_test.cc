#include "jobs/usage_curve.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::jobs {
namespace {

exec::WardUsage sample(std::int64_t at_ms, std::int64_t cpu_ms, std::int64_t memory) {
  exec::WardUsage out;
  out.at = Duration::milliseconds(at_ms);
  out.cpu_time = Duration::milliseconds(cpu_ms);
  out.memory_bytes = memory;
  out.read_bytes = at_ms;
  out.written_bytes = 2 * at_ms;
  return out;
}

TEST(UsageCurve, processors_are_those_since_the_sample_before) {
  const Value value = to_value({sample(500, 250, 7), sample(1500, 2250, 9), sample(1500, 2250, 3)});
  EXPECT_EQ(to_json(value["at_seconds"]), "[0.5,1.5,1.5]");
  EXPECT_EQ(to_json(value["cpus"]), "[0.5,2.0,0.0]") << "no time has passed: nothing was used";
  EXPECT_EQ(to_json(value["memory_bytes"]), "[7,9,3]");
  EXPECT_EQ(to_json(value["written_bytes"]), "[1000,3000,3000]");
}

TEST(UsageCurve, has_columns_for_gpus_where_something_is_known_of_them) {
  UsageCurve curve = {sample(500, 0, 1), sample(1000, 0, 1)};
  EXPECT_TRUE(to_value(curve)["gpus"].is_null());
  curve[1].gpu_milli = 1050;
  const Value busy = to_value(curve);
  EXPECT_EQ(to_json(busy["gpus"]), "[null,1.05]") << "the first was before the driver answered";
  EXPECT_TRUE(busy["gpu_memory_bytes"].is_null());
  curve[0].gpu_memory_bytes = 7;
  EXPECT_EQ(to_json(to_value(curve)["gpu_memory_bytes"]), "[7,null]");
}

TEST(UsageCurve, of_nothing_has_empty_columns) {
  const Value value = to_value(UsageCurve{});
  EXPECT_EQ(to_json(value["cpus"]), "[]");
  EXPECT_EQ(to_json(value["at_seconds"]), "[]");
}

}  // namespace
}  // namespace falaj::jobs
