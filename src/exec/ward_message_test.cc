#include "exec/internal/ward_message.h"

#include <gtest/gtest.h>

namespace falaj::exec::internal {
namespace {

WardRequest a_start() {
  WardRequest request;
  request.number = 7;
  request.op = WardOp::kStart;
  request.id = "01J-2";
  request.spec.argv = {"/bin/sh", "-c", "echo \"grüße\"\n"};
  request.spec.env = {{"PATH", "/bin"}, {"EMPTY", ""}};
  request.spec.work_dir = "/";
  request.spec.log_path = "/somewhere/log";
  request.spec.limits.memory_bytes_max = 1 << 20;
  request.spec.limits.cpus_max = 1.5;
  request.spec.limits.disk_bytes_max = 3 << 20;
  request.spec.limits.disk_folders = {"/checkpoints/r1"};
  request.spec.limits.run_time_max = Duration::hours(3);
  request.spec.sandbox.enabled = true;
  request.spec.sandbox.interfaces = true;
  request.spec.sandbox.read_write = {"/data"};
  request.spec.sandbox.required = {"landlock"};
  request.spec.gpus = 0b101;
  return request;
}

TEST(WardMessage, a_request_survives_the_wire) {
  const auto read = parse_request(to_text(a_start()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, a_start());
}

TEST(WardMessage, a_reply_survives_the_wire) {
  WardReply reply;
  reply.number = 3;
  Ward ward;
  ward.id = "a.b:c_d-E";
  ward.started_at = Timestamp::from_seconds(1'780'000'000);
  ward.usage = {Duration::seconds(1), Duration::milliseconds(5), 1, 2, 3};
  ward.protections = {"seccomp"};
  reply.wards.push_back(ward);
  ward.id = "ended";
  WardEnd end;
  end.reason = WardEndReason::kOutOfMemory;
  end.code = 9;
  end.detail = "why";
  end.memory_peak_bytes = 4096;
  ward.end = end;
  reply.wards.push_back(ward);
  reply.more = true;
  reply.curve = {ward.usage, ward.usage};
  reply.curve[1].gpu_milli = 1500;
  reply.curve[1].gpu_memory_bytes = 7;
  const auto read = parse_reply(to_text(reply));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, reply);
  WardReply refusal;
  refusal.number = 4;
  refusal.error = Error(Code::kConflict, "it runs");
  EXPECT_EQ(parse_reply(to_text(refusal)).value(), refusal);
}

TEST(WardMessage, the_bytes_of_a_ward_are_those_of_its_text) {
  WardReply reply;
  Ward ward;
  ward.id = "a";
  ward.end = WardEnd{WardEndReason::kNotStarted, 0, std::string(1000, '\x01')};
  reply.wards = {ward};
  const std::size_t one = to_text(reply).size();
  reply.wards.push_back(ward);
  EXPECT_EQ(to_text(reply).size() - one, text_bytes(ward));
  EXPECT_GT(text_bytes(ward), 6000u);
}

TEST(WardMessage, what_is_cut_is_still_text) {
  EXPECT_EQ(shortened("grüße", 10), "grüße");
  EXPECT_EQ(shortened("grüße", 4), "grü");
  EXPECT_EQ(shortened("grüße", 3), "gr");
}

TEST(WardMessage, refuses_what_is_out_of_bounds) {
  const auto refused = [](void (*spoil)(WardRequest&)) {
    WardRequest request = a_start();
    spoil(request);
    return !parse_request(to_text(request)).ok();
  };
  EXPECT_TRUE(refused([](WardRequest& r) { r.number = 0; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.id = ""; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.id = "a/b"; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.id = std::string(129, 'a'); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.argv.clear(); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.argv[0] = "sh"; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.argv[1] = std::string("a\0b", 3); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.argv[1] = std::string(2 << 20, 'a'); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.env.emplace_back("A=B", ""); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.env.emplace_back("", ""); }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.work_dir = "here"; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.log_path = ""; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.limits.cpus_max = -1; }));
  EXPECT_TRUE(refused([](WardRequest& r) { r.spec.limits.memory_bytes_max = -1; }));
  EXPECT_FALSE(refused([](WardRequest&) {}));
  EXPECT_FALSE(parse_request(R"({"n":1,"op":"rule"})").ok());
  EXPECT_FALSE(parse_request(R"({"n":1,"op":"stop","id":"a","extra":1})").ok());
  EXPECT_FALSE(parse_request("[]").ok());
  EXPECT_FALSE(parse_request("").ok());
}

TEST(Frames, are_cut_wherever_the_bytes_were) {
  const std::string bytes = frame_of("one") + frame_of("") + frame_of(std::string(70'000, 'x'));
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}, bytes.size()}) {
    FrameReader frames;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      frames.feed(std::string_view(bytes).substr(at, step));
      for (auto next = frames.next(); next.ok() && *next; next = frames.next()) {
        got.push_back(**next);
      }
    }
    EXPECT_EQ(got, (std::vector<std::string>{"one", "", std::string(70'000, 'x')}));
  }
}

TEST(Frames, over_the_limit_are_refused_before_they_come) {
  FrameReader frames;
  frames.feed(std::string("\x01\x00\x10\x00", 4));
  EXPECT_FALSE(frames.next().ok());
}

}  // namespace
}  // namespace falaj::exec::internal
