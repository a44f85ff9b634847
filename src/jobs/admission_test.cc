#include "jobs/admission.h"

#include <gtest/gtest.h>

namespace falaj::jobs {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);
constexpr std::int64_t kGi = std::int64_t{1} << 30;

Candidate job(const std::string& id, std::uint64_t sequence, std::int64_t cpu_milli) {
  Candidate out;
  out.id = JobId(id);
  out.sequence = sequence;
  out.project = "pay";
  out.request.resources = {cpu_milli, kGi / 2, 0};
  out.queued_at = kNow - Duration::minutes(10);
  out.run_max = Duration::hours(1);
  return out;
}

Candidate running(Candidate candidate, Duration since = Duration::minutes(1)) {
  candidate.stage = Stage::kRunning;
  candidate.started_at = kNow - since;
  return candidate;
}

Scene scene(std::vector<Candidate> jobs) {
  Scene out;
  out.machine = {2000, 4 * kGi, 0, 1};
  out.jobs = std::move(jobs);
  return out;
}

std::vector<std::string> admitted(const Scene& scene, const Verdict& verdict) {
  std::vector<std::string> out;
  for (const auto& place : verdict.admit) out.push_back(scene.jobs[place.job].id.str());
  return out;
}

const Why& why(const Verdict& verdict, std::size_t job) {
  for (const auto& [index, reason] : verdict.hold) {
    if (index == job) return reason;
  }
  static const Why kNone;
  return kNone;
}

TEST(Admission, who_came_first_starts_and_the_others_are_told_why_not) {
  const Scene s = scene({job("b", 2, 1000), job("a", 1, 1000), job("c", 3, 1000)});
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(admitted(s, v), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(why(v, 2).code, "capacity");
  EXPECT_EQ(why(v, 2).constraint, "cpu");
  EXPECT_NE(why(v, 2).text.find("1 cpu more must be free"), std::string::npos) << why(v, 2).text;
  EXPECT_GT(why(v, 2).latest, kNow);
}

// Nobody is advised to ask for nothing.
TEST(Admission, less_is_advised_only_to_who_would_still_ask_for_something) {
  const auto change = [](std::int64_t taken, std::int64_t wanted) {
    const Scene s = scene({running(job("a", 1, taken)), job("b", 2, wanted)});
    return why(judge(s, kNow), 1).change;
  };
  EXPECT_EQ(change(2000, 1000), "the end of jobs that run");
  EXPECT_EQ(change(1000, 2000), "1 cpu less asked for");
  EXPECT_EQ(change(1500, 600), "0.100 cpu less asked for");
}

TEST(Admission, a_wait_is_told_in_seconds_when_it_takes_seconds) {
  Scene s = scene({running(job("a", 1, 2000)), job("b", 2, 1000)});
  s.jobs[0].p50 = Duration::milliseconds(1200);
  s.jobs[0].p90 = s.jobs[0].run_max = Duration::milliseconds(3100);
  const std::string text = why(judge(s, kNow), 1).text;
  EXPECT_NE(text.find("; starts in 1s to 4s"), std::string::npos) << text;
}

TEST(Admission, a_higher_priority_goes_first) {
  Scene s = scene({job("a", 1, 2000), job("b", 2, 2000)});
  s.jobs[1].request.priority = 10;
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"b"}));
}

TEST(Admission, a_deadline_that_is_near_goes_first_among_its_priority) {
  Scene s = scene({job("a", 1, 2000), job("b", 2, 2000)});
  s.jobs[1].request.deadline = kNow + Duration::days(2);
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"a"}));
  s.jobs[1].request.deadline = kNow + Duration::minutes(70);
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"b"}));
  s.jobs[0].request.priority = 1;
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"a"}));
}

TEST(Admission, dependencies_and_engines_wait_their_turn) {
  Scene s = scene({job("a", 1, 100), job("b", 2, 100), job("c", 3, 100)});
  s.jobs[0].unmet = 2;
  s.jobs[0].waits_for = JobId("z");
  s.jobs[1].runs = s.jobs[2].runs = Runs::kEngine;
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(admitted(s, v), (std::vector<std::string>{"b"}));
  EXPECT_EQ(why(v, 0).code, "dependency");
  EXPECT_EQ(why(v, 0).text, "waits for job z and 1 more, which must succeed first");
  EXPECT_NE(why(v, 2).text.find("1 training job"), std::string::npos) << why(v, 2).text;
}

TEST(Admission, a_queue_takes_no_more_than_its_quota) {
  Scene s = scene({running(job("a", 1, 1000)), job("b", 2, 1000), job("c", 3, 1000)});
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "small";
  queue.cpu = {1000, 0, kNoLimit};
  s.queues = {queue};
  s.jobs[0].request.queue = s.jobs[1].request.queue = "small";
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(admitted(s, v), (std::vector<std::string>{"c"})) << "the default queue borrows";
  EXPECT_EQ(why(v, 1).code, "quota");
  EXPECT_EQ(why(v, 1).constraint, "queue pay/small: cpu");
}

// Somebody lowers the quota of a queue whose jobs run: nobody is stopped for that alone, nobody
// else of it starts, and what it has too much now is a loan, which its owner gets back.
TEST(Admission, a_quota_lowered_under_running_jobs_stops_nobody_and_admits_nobody) {
  Scene s = scene({running(job("a", 1, 1000), Duration::hours(2)),
                   running(job("b", 2, 1000), Duration::hours(1)), job("c", 3, 100)});
  QueueSpec lowered;
  lowered.project = "pay";
  lowered.name = "lowered";
  lowered.cpu = {2100, 0, kNoLimit};
  s.machine.cpu_milli = 2100;
  s.queues = {lowered};
  for (Candidate& each : s.jobs) each.request.queue = "lowered";
  EXPECT_EQ(admitted(s, judge(s, kNow)), std::vector<std::string>{"c"}) << "before";
  s.queues[0].cpu = {1000, 1050, kNoLimit};  // Half of what runs, and the rest may be borrowed.
  Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.preempt.empty() && v.resize.empty() && v.admit.empty());
  EXPECT_EQ(why(v, 2).code, "quota");
  EXPECT_EQ(why(v, 2).constraint, "queue pay/lowered: cpu");
  s.queues[0].cpu = {500, 0, kNoLimit};  // Less than each of them holds, and nothing borrowed.
  v = judge(s, kNow);
  EXPECT_TRUE(v.preempt.empty() && v.admit.empty()) << "what runs goes on";
  EXPECT_EQ(why(v, 2).code, "quota");
  EXPECT_EQ(why(v, 2).change, "1.600 cpu more for queue pay/lowered");
  EXPECT_LT(why(v, 2).latest, Timestamp::max()) << "it starts when they have ended";
  // To whom the difference was given claims it: one of them leaves, not both.
  QueueSpec owner = lowered;
  owner.name = "owner";
  owner.cpu = {1000, 0, kNoLimit};
  s.queues = {lowered, owner};
  s.queues[0].cpu = {1100, 900, kNoLimit};
  s.jobs.push_back(job("d", 4, 1000));
  s.jobs[3].request.queue = "owner";
  v = judge(s, kNow);
  EXPECT_EQ(v.preempt.size(), 1u);
  ASSERT_EQ(v.claim.size(), 1u);
  EXPECT_EQ(v.claim[0].job, 3u);
  EXPECT_EQ(why(v, 2).code, "quota") << why(v, 2).text;
}

TEST(Admission, each_of_a_line_is_told_what_would_admit_it_and_when) {
  Scene s = scene({running(job("a", 1, 100)), job("b", 2, 100), job("c", 3, 100)});
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "small";
  queue.cpu = {100, 0, kNoLimit};
  s.queues = {queue};
  for (Candidate& each : s.jobs) each.request.queue = "small";
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(why(v, 1).change, "0.100 cpu more for queue pay/small");
  EXPECT_EQ(why(v, 2).change, "0.200 cpu more for queue pay/small");
  EXPECT_EQ(why(v, 1).earliest, kNow + Duration::hours(1)) << why(v, 1).text;
  EXPECT_EQ(why(v, 2).latest, kNow + Duration::hours(2)) << why(v, 2).text;
  s.queues[0].cpu.nominal = 300;
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"b", "c"}));
}

TEST(Admission, what_is_a_queues_own_is_cleared_for_it) {
  Scene s = scene({running(job("a", 1, 2000), Duration::hours(2)), job("b", 2, 2000)});
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "own";
  queue.cpu = {2000, kNoLimit, kNoLimit};
  s.queues = {queue};
  s.jobs[1].request.queue = "own";
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.preempt, std::vector<std::size_t>{0});
  ASSERT_EQ(v.claim.size(), 1u);
  EXPECT_EQ(v.claim[0].job, 1u);
  s.jobs[0].stage = Stage::kStopping;
  s.jobs[1].stage = Stage::kClaimed;
  const Verdict next = judge(s, kNow);
  EXPECT_TRUE(next.preempt.empty());
  EXPECT_TRUE(next.admit.empty()) << "its place is not free yet";
  s.jobs.erase(s.jobs.begin());
  EXPECT_EQ(admitted(s, judge(s, kNow)), (std::vector<std::string>{"b"}));
}

TEST(Admission, gives_devices_to_one_job_only) {
  Scene s = scene({job("a", 1, 100), job("b", 2, 100), job("c", 3, 100)});
  s.machine.gpus = 2;
  for (Candidate& each : s.jobs) each.request.resources.gpus = 1;
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 2u);
  EXPECT_EQ(v.admit[0].gpus & v.admit[1].gpus, 0);
  EXPECT_EQ(why(v, 2).constraint, "gpu");
}

TEST(Admission, a_machine_that_shrank_under_its_jobs_admits_nobody) {
  Scene s = scene({running(job("a", 1, 4000)), job("b", 2, 100)});
  EXPECT_TRUE(judge(s, kNow).admit.empty());
}

TEST(Admission, a_queue_that_was_deleted_is_the_projects_default) {
  Scene s = scene({job("a", 1, 1000)});
  s.jobs[0].request.queue = "gone";
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
}

TEST(Admission, refuses_what_could_never_start) {
  Scene s = scene({});
  EXPECT_TRUE(check_possible(s, job("a", 1, 2000)).ok());
  const Error large = check_possible(s, job("a", 1, 2001)).error();
  EXPECT_EQ(large.id, ErrorId::kOutOfRange);
  EXPECT_NE(large.message.find("2.001 cpu"), std::string::npos) << large.message;
  EXPECT_NE(large.message.find("2 cpu, 4.0 GiB"), std::string::npos) << large.message;
  Candidate gpu = job("a", 1, 100);
  gpu.request.resources.gpus = 1;
  EXPECT_FALSE(check_possible(s, gpu).ok());
  Candidate memory = job("a", 1, 100);
  memory.request.resources.memory_bytes = 5 * kGi;
  EXPECT_FALSE(check_possible(s, memory).ok());
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "small";
  queue.cpu = {500, 0, kNoLimit};
  s.queues = {queue};
  Candidate queued = job("a", 1, 1000);
  queued.request.queue = "small";
  EXPECT_NE(check_possible(s, queued).error().message.find("queue pay/small lacks 0.500 cpu"),
            std::string::npos)
      << check_possible(s, queued).error().message;
  queued.request.queue = "smal";
  EXPECT_EQ(check_possible(s, queued).error().id, ErrorId::kObjectNotFound);
  EXPECT_NE(check_possible(s, queued).error().message.find("small"), std::string::npos);
}

TEST(Admission, knows_this_machine) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.cpu_milli, 1000);
  EXPECT_GT(machine.memory_bytes, std::int64_t{64} << 20);
}

TEST(Admission, a_queue_says_whom_it_pushes_out_and_how_long_its_own_are_safe) {
  Scene s = scene({running(job("a", 1, 2000), Duration::minutes(20)), job("b", 2, 2000)});
  QueueSpec own;
  own.project = "pay";
  own.name = "own";
  own.cpu = {2000, kNoLimit, kNoLimit};
  QueueSpec guests;
  guests.project = "pay";
  guests.name = "guests";
  s.queues = {own, guests};
  s.jobs[0].request.queue = "guests";
  s.jobs[1].request.queue = "own";
  EXPECT_EQ(judge(s, kNow).preempt.size(), 1u);
  s.queues[1].min_run = Duration::minutes(30);
  EXPECT_TRUE(judge(s, kNow).preempt.empty()) << "it has not run long enough";
  s.queues[1].min_run = {};
  s.queues[0].reclaim = scheduler::Reclaim::kNever;
  EXPECT_TRUE(judge(s, kNow).preempt.empty());
}

TEST(Admission, who_came_later_gives_way_in_a_queue_that_says_so) {
  Scene s = scene({job("a", 1, 2000), running(job("b", 2, 2000), Duration::minutes(20))});
  s.jobs[0].queued_at = kNow - Duration::minutes(30);
  QueueSpec own;
  own.project = "pay";
  own.name = "own";
  s.queues = {own};
  for (Candidate& each : s.jobs) each.request.queue = "own";
  EXPECT_TRUE(judge(s, kNow).preempt.empty());
  s.queues[0].within = scheduler::WithinQueue::kSubmittedLater;
  EXPECT_EQ(judge(s, kNow).preempt, std::vector<std::size_t>{1});
  s.jobs[0].request.priority = -1;
  EXPECT_TRUE(judge(s, kNow).preempt.empty()) << "a higher priority does not";
  s.jobs[0].request.priority = 0;
  s.jobs[0].queued_at = kNow;
  EXPECT_TRUE(judge(s, kNow).preempt.empty()) << "nor who came first";
}

TEST(Admission, a_job_that_would_cost_more_than_its_cap_does_not_start) {
  Scene s = scene({job("a", 1, 2000)});
  s.policy.prices.micros_per_cpu_hour = 1'000'000;
  s.jobs[0].request.cost_cap = 1'500'000;
  Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty());
  EXPECT_EQ(why(v, 0).constraint, "cost_cap");
  EXPECT_EQ(why(v, 0).text.substr(0, 54), "it would probably cost 0.50 more than its cost_cap; do");
  EXPECT_EQ(check_possible(s, s.jobs[0]).error().id, ErrorId::kOutOfRange);
  s.jobs[0].run_max = Duration::minutes(45);
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
}

}  // namespace
}  // namespace falaj::jobs
