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

TEST(UsageCurve, of_nothing_has_empty_columns) {
  const Value value = to_value(UsageCurve{});
  EXPECT_EQ(to_json(value["cpus"]), "[]");
  EXPECT_EQ(to_json(value["at_seconds"]), "[]");
}

}  // namespace
}  // namespace falaj::jobs
