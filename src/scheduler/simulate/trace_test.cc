#include "scheduler/simulate/trace.h"

#include <gtest/gtest.h>

namespace falaj::scheduler::simulate {
namespace {

TEST(Trace, reads_the_published_table) {
  const auto trace = parse_trace(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-09-04 10:30:41,2240194.0,8,17921552.0,7f04ca\n"
      "2017-09-03 10:30:41,5.5,1,5.5,6214e9\r\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->jobs.size(), 2u);
  EXPECT_EQ(trace->jobs[0].duration, Duration::milliseconds(5500)) << "sorted by submission";
  EXPECT_EQ(trace->jobs[1].gpus, 8);
  EXPECT_EQ(trace->tenants[trace->jobs[1].tenant], "7f04ca");
  EXPECT_EQ(trace->refused_rows, 0);
}

TEST(Trace, refuses_garbage_rows_with_line_and_reason_and_keeps_the_rest) {
  const auto trace = parse_trace(
      "submit,duration,gpus,tenant,name\n"
      "2026-01-01T00:00:00Z,60,1,vision,resnet\n"
      "yesterday,60,1,vision,x\n"
      "2026-01-01T00:00:00Z,-3,1,vision,x\n"
      "2026-01-01T00:00:00Z,nan,1,vision,x\n"
      "2026-01-01T00:00:00Z,1e300,1,vision,x\n"
      "2026-01-01T00:00:00Z,60,0,vision,x\n"
      "2026-01-01T00:00:00Z,60,1.5,vision,x\n"
      "2026-01-01T00:00:00Z,60,1,,x\n"
      "2026-01-01T00:00:00Z,60,1,\xff\xfe,x\n"
      "\n"
      "2026-01-01T00:00:00Z\n" +
      std::string(5000, 'x') + "\n");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->jobs.size(), 1u);
  EXPECT_EQ(trace->names[trace->jobs[0].name], "resnet");
  EXPECT_EQ(trace->refused_rows, 10);
  ASSERT_EQ(trace->refused.size(), 10u);
  EXPECT_EQ(trace->refused[0].line, 3);
  EXPECT_EQ(trace->refused[0].reason, "no time of submission: \"yesterday\"");
  EXPECT_NE(trace->refused[1].reason.find("duration"), std::string::npos);
  EXPECT_NE(trace->refused[4].reason.find("GPUs"), std::string::npos);
  EXPECT_EQ(trace->refused[6].reason, "no tenant");
  EXPECT_EQ(trace->refused[9].line, 13);
}

TEST(Trace, says_what_is_wrong_with_a_file_that_is_none) {
  EXPECT_EQ(parse_trace("a,b,c\n1,2,3\n").error().id, ErrorId::kMalformedTable);
  EXPECT_EQ(parse_trace("").error().id, ErrorId::kMalformedTable);
  EXPECT_EQ(parse_trace("submit,duration,gpus,tenant\n").error().id, ErrorId::kAllRowsRejected);
  const auto rows = parse_trace("submit,duration,gpus,tenant\n2026-01-01,1,1,a\n2026-01-01,1,1,a\n",
                                {.rows_max = 1});
  EXPECT_EQ(rows.error().id, ErrorId::kBodyTooLarge);
}

TEST(Trace, keeps_only_the_first_refusals_but_counts_all) {
  std::string csv = "submit,duration,gpus,tenant\n2026-01-01,1,1,a\n";
  for (int i = 0; i < 1000; ++i) csv += "garbage\n";
  const auto trace = parse_trace(csv);
  EXPECT_EQ(trace->refused_rows, 1000);
  EXPECT_EQ(trace->refused.size(), kRefusedRowsKept);
}

TEST(Trace, is_read_back_as_it_was_written) {
  const auto trace = parse_trace(
      "submit,duration,gpus,tenant,name\n2026-01-01T00:00:01.5Z,0.25,1,a,n\n"
      "2026-01-02,86400,16,b,\n");
  const auto again = parse_trace(to_csv(*trace));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->jobs, trace->jobs);
  EXPECT_EQ(again->tenants, trace->tenants);
}

}  // namespace
}  // namespace falaj::scheduler::simulate
