#include "telemetry/trace.h"

#include <gtest/gtest.h>

#include <set>

namespace falaj::telemetry {
namespace {

constexpr std::string_view kExample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Trace, reads_and_writes_traceparent) {
  const auto context = parse_traceparent(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_EQ(to_traceparent(*context), kExample);
}

TEST(Trace, a_later_version_is_read_as_far_as_known) {
  std::string later(kExample);
  later[1] = '1';
  EXPECT_TRUE(parse_traceparent(later).has_value());
  EXPECT_TRUE(parse_traceparent(later + "-more").has_value());
  EXPECT_FALSE(parse_traceparent(later + "more").has_value());
  EXPECT_EQ(to_traceparent(*parse_traceparent(later)), kExample);
}

TEST(Trace, refuses_what_the_standard_refuses) {
  for (const std::string_view text :
       {"", "00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"}) {
    EXPECT_FALSE(parse_traceparent(text).has_value()) << text;
  }
}

TEST(Trace, a_child_keeps_the_journey_and_changes_the_hop) {
  const TraceContext parent = new_trace();
  const TraceContext child = child_of(parent);
  EXPECT_EQ(child.trace_id, parent.trace_id);
  EXPECT_NE(child.span_id, parent.span_id);
  EXPECT_EQ(parse_traceparent(to_traceparent(child)), child);
}

TEST(Trace, request_ids_are_unique_and_checked) {
  std::set<std::string> ids;
  for (int i = 0; i < 1'000; ++i) ids.insert(new_request_id());
  EXPECT_EQ(ids.size(), 1'000u);
  EXPECT_EQ(check_request_id(*ids.begin()), RequestIdCheck::kTakenOver);
  EXPECT_EQ(check_request_id("a.b_c:d-9"), RequestIdCheck::kTakenOver);
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"),
                                 std::string("a\r\nX: y"), std::string("é")}) {
    EXPECT_EQ(check_request_id(bad), RequestIdCheck::kRefused);
  }
}

}  // namespace
}  // namespace falaj::telemetry
