// Where jobs may be: as the scheduler sees it, and as commands get it.
#include <gtest/gtest.h>

#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

using testing::kGi;

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

Candidate job(const std::string& id, std::uint64_t sequence, const Constraints& asked = {}) {
  Candidate out;
  out.id = JobId(id);
  out.sequence = sequence;
  out.project = "pay";
  out.request.resources = {1000, kGi / 8, 0};
  out.request.placement = asked;
  out.queued_at = kNow - Duration::minutes(10);
  out.run_max = Duration::hours(1);
  return out;
}

Candidate gpu_job(const std::string& id, std::uint64_t sequence, const GpuChoice& gpu) {
  Constraints asked;
  asked.gpu = gpu;
  Candidate out = job(id, sequence, asked);
  out.request.resources.gpus = 1;
  return out;
}

Scene scene(std::vector<Candidate> jobs) {
  Scene out;
  out.machine = {4000, 4 * kGi, 2, 1};
  out.machine.node.labels = {{"disk", "ssd"}, {"spot", "yes"}};
  out.machine.node.gpu_model = "a100";
  out.machine.node.gpu_memory_bytes = 40 * kGi;
  out.machine.node.mig = scheduler::MigGeometry::kA100;
  out.jobs = std::move(jobs);
  return out;
}

void start(Scene& s, const Verdict& verdict) {
  for (const auto& place : verdict.admit) {
    Candidate& candidate = s.jobs[place.job];
    candidate.stage = Stage::kRunning;
    candidate.started_at = kNow;
    candidate.gpus = place.gpus;
    candidate.numa = place.numa;
    candidate.mig_start = place.mig_start;
  }
}

std::string refusal(const Scene& s, const Candidate& candidate) {
  const Status possible = check_possible(s, candidate);
  return possible.ok() ? "" : possible.error().message;
}

Why why(const Verdict& verdict, std::size_t job) {
  for (const auto& [index, reason] : verdict.hold) {
    if (index == job) return reason;
  }
  return {};
}

TEST(Placement, labels_that_no_machine_has_are_refused) {
  const Scene s = scene({});
  Constraints asked;
  asked.labels = {{"disk", "ssd"}};
  EXPECT_EQ(refusal(s, job("a", 1, asked)), "");
  asked.labels = {{"disk", "ssd"}, {"room", "3"}};
  EXPECT_NE(refusal(s, job("a", 1, asked)).find("does not have the label room=3"),
            std::string::npos)
      << refusal(s, job("a", 1, asked));
  asked.labels = {{"disk", "hdd"}};
  EXPECT_NE(refusal(s, job("a", 1, asked)), "") << "the key alone is not the label";
  asked.labels = {};
  asked.not_labels = {{"room", "3"}};
  EXPECT_EQ(refusal(s, job("a", 1, asked)), "");
  asked.not_labels = {{"spot", "yes"}};
  EXPECT_NE(refusal(s, job("a", 1, asked)).find("has the label spot=yes"), std::string::npos);
}

TEST(Placement, a_label_that_is_taken_away_holds_those_who_wait) {
  Constraints asked;
  asked.labels = {{"disk", "ssd"}};
  Scene s = scene({job("a", 1, asked)});
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  s.machine.node.labels.clear();
  const Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty());
  EXPECT_EQ(why(v, 0).code, "label");
  EXPECT_EQ(why(v, 0).constraint, "label disk=ssd");
}

TEST(Placement, a_gpu_that_nobody_offers_is_refused) {
  const Scene s = scene({});
  EXPECT_EQ(refusal(s, gpu_job("a", 1, {{"h100", "a100"}})), "");
  EXPECT_NE(refusal(s, gpu_job("a", 1, {{"h100"}})).find("model h100"), std::string::npos);
  GpuChoice large;
  large.memory_bytes = 80 * kGi;
  EXPECT_NE(refusal(s, gpu_job("a", 1, large)).find("40.0 GiB each"), std::string::npos)
      << refusal(s, gpu_job("a", 1, large));
  GpuChoice instance;
  instance.mig = scheduler::MigProfile::k3g;
  EXPECT_EQ(refusal(s, gpu_job("a", 1, instance)), "");
  instance.memory_bytes = 21 * kGi;
  EXPECT_NE(refusal(s, gpu_job("a", 1, instance)), "") << "half of the memory is 20 GiB";
  Scene whole = s;
  whole.machine.node.mig = scheduler::MigGeometry::kNone;
  instance.memory_bytes = 0;
  EXPECT_NE(refusal(whole, gpu_job("a", 1, instance)).find("not cut into instances"),
            std::string::npos);
  Candidate many = job("a", 1);
  many.request.resources.gpus = 3;
  EXPECT_NE(refusal(s, many), "");
}

TEST(Placement, instances_of_one_gpu_do_not_overlap_and_are_remembered) {
  GpuChoice instance;
  instance.mig = scheduler::MigProfile::k3g;
  Scene s =
      scene({gpu_job("a", 1, instance), gpu_job("b", 2, instance), gpu_job("c", 3, instance)});
  s.machine.gpus = 1;
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 2u);
  EXPECT_NE(v.admit[0].mig_start, v.admit[1].mig_start);
  EXPECT_EQ(v.admit[0].mig_start % 4, 0);
  start(s, v);
  EXPECT_TRUE(judge(s, kNow).admit.empty()) << "both halves are taken";
  s.jobs.erase(s.jobs.begin());
  const Verdict next = judge(s, kNow);
  ASSERT_EQ(next.admit.size(), 1u);
  EXPECT_EQ(next.admit[0].mig_start, v.admit[0].mig_start) << "the half that came free";
}

TEST(Placement, parts_of_one_gpu_sum_to_one) {
  GpuChoice part;
  part.fraction_milli = 400;
  Scene s = scene({gpu_job("a", 1, part), gpu_job("b", 2, part), gpu_job("c", 3, part)});
  s.machine.gpus = 1;
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 2u);
  EXPECT_EQ(v.admit[0].gpus, v.admit[1].gpus);
  start(s, v);
  s.machine.gpus = 0;  // The device is gone under them.
  EXPECT_TRUE(judge(s, kNow).admit.empty());
}

TEST(Placement, an_instance_whose_device_is_gone_is_nowhere) {
  GpuChoice instance;
  instance.mig = scheduler::MigProfile::k3g;
  Scene s = scene({gpu_job("a", 1, instance), job("b", 2)});
  start(s, judge(s, kNow));
  s.jobs.push_back(job("c", 3));
  s.machine.gpus = 0;
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  s.machine.gpus = 1;
  s.jobs[0].mig_start = kNowhere;
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  s.jobs[2] = gpu_job("c", 3, instance);
  EXPECT_TRUE(judge(s, kNow).admit.empty()) << "it may be anywhere on its device";
  s.jobs[0].mig_start = 0;
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
}

TEST(Placement, gpus_that_are_near_each_other_are_given_together) {
  Candidate two = job("a", 1);
  two.request.resources.gpus = 2;
  Scene s = scene({two});
  s.machine.gpus = 4;
  s.machine.node.gpu_islands = {0b1010, 0b0101};
  EXPECT_EQ(judge(s, kNow).admit.at(0).gpus, 0b1010);
}

TEST(Placement, a_numa_node_has_so_many_processors_and_gpus) {
  Constraints asked;
  asked.numa = true;
  Candidate candidate = job("a", 1, asked);
  candidate.request.resources = {2000, kGi / 8, 1};
  Scene s = scene({candidate});
  s.machine.node.numa_gpus = {0, 0b11};
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 1u);
  EXPECT_EQ(v.admit[0].numa, 1) << "where the GPUs are";
  candidate.request.resources.cpu_milli = 3000;
  EXPECT_NE(refusal(s, candidate), "") << "four processors are two and two";
}

TEST(Placement, data_that_may_not_be_here_holds_the_job_and_is_named) {
  Constraints asked;
  asked.data = {{"ledger", {"ae-fin"}}, {"prices", {"eu"}}};
  Scene s = scene({job("a", 1, asked)});
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  s.jobs[0].barred = {1};
  const Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty());
  EXPECT_EQ(why(v, 0).code, "zone");
  EXPECT_NE(why(v, 0).text.find("'prices' may be in eu"), std::string::npos) << why(v, 0).text;
  s.jobs[0].stage = Stage::kClaimed;
  s.jobs[0].started_at = kNow;
  EXPECT_EQ(judge(s, kNow).release, std::vector<std::size_t>{0}) << "also when a place is kept";
  s.jobs[0].barred.clear();
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
}

TEST(Placement, jobs_that_avoid_each_other_are_never_there_together) {
  Constraints noisy;
  noisy.tags = {"noisy"};
  Constraints quiet;
  quiet.avoid = {"noisy"};
  Scene s = scene({job("a", 1, noisy), job("b", 2, quiet)});
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 1u);
  start(s, v);
  const Verdict next = judge(s, kNow);
  EXPECT_TRUE(next.admit.empty());
  EXPECT_EQ(why(next, 1).code, "company");
  EXPECT_EQ(why(next, 1).constraint, "job a") << why(next, 1).text;
  s.jobs[1].project = "shop";
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u) << "tags are a project's own";
}

TEST(Placement, who_is_kept_apart_and_lacks_room_is_told_both) {
  Constraints asked;
  asked.tags = {"db"};
  Candidate there = job("a", 1, asked);
  there.request.resources.cpu_milli = 3000;
  Scene s = scene({there});
  start(s, judge(s, kNow));
  Constraints apart;
  apart.avoid = {"db"};
  Candidate next = job("b", 2, apart);
  next.request.resources.cpu_milli = 2000;
  s.jobs.push_back(next);
  const Why told = why(judge(s, kNow), 1);
  EXPECT_EQ(told.code, "capacity");
  EXPECT_NE(told.text.find("1 cpu more must be free, and it waits for job a to end"),
            std::string::npos)
      << told.text;
  EXPECT_NE(told.change.find("the end of job a"), std::string::npos);
}

TEST(Placement, a_job_runs_beside_those_it_is_near_to) {
  Constraints cache;
  cache.tags = {"cache"};
  Constraints reader;
  reader.near = {"cache"};
  Scene s = scene({job("a", 1, reader)});
  EXPECT_EQ(refusal(s, s.jobs[0]), "") << "that one may come yet";
  const Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty());
  EXPECT_EQ(why(v, 0).constraint, "tag cache") << why(v, 0).text;
  s.jobs.push_back(job("b", 2, cache));
  start(s, judge(s, kNow));
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
}

TEST(Placement, past_the_tags_that_are_told_apart_nobody_is_near_to_a_stranger) {
  std::vector<Candidate> jobs;
  const auto add = [&](const std::string& tag, const std::string& near) {
    Constraints asked;
    if (!tag.empty()) asked.tags = {tag};
    if (!near.empty()) asked.near = {near};
    jobs.push_back(job("j" + std::to_string(jobs.size()), jobs.size() + 1, asked));
    jobs.back().request.resources.cpu_milli = 10;
    jobs.back().request.resources.memory_bytes = 0;
  };
  // Those who have the tags run, those who are near to them wait.
  for (std::size_t i = 0; i <= kSoughtTagsMax + 1; ++i) add("tag" + std::to_string(i), "");
  Scene s = scene(jobs);
  start(s, judge(s, kNow));
  for (const Candidate& each : s.jobs) ASSERT_EQ(each.stage, Stage::kRunning);
  jobs = s.jobs;
  for (std::size_t i = 0; i <= kSoughtTagsMax + 1; ++i) add("", "tag" + std::to_string(i));
  s.jobs = jobs;
  EXPECT_EQ(judge(s, kNow).admit.size(), kSoughtTagsMax) << "the last two share a bit";
  s.jobs = {jobs.front(), jobs.back()};
  EXPECT_TRUE(judge(s, kNow).admit.empty()) << "nor is anybody near to a tag that no job has";
}

TEST(Placement, of_an_array_so_many_run_at_a_time) {
  Scene s = scene({job("a", 1), job("b", 2), job("c", 3)});
  for (Candidate& each : s.jobs) {
    each.request.array = "one";
    each.request.running_max = 2;
  }
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(v.admit.size(), 2u);
  EXPECT_EQ(why(v, 2).constraint, "running_max");
  s.jobs[2].request.array = "two";
  EXPECT_EQ(judge(s, kNow).admit.size(), 3u);
}

TEST(Placement, nothing_starts_that_would_run_into_maintenance) {
  Scene s = scene({job("a", 1)});
  s.machine.node.maintenance = {{kNow + Duration::minutes(30), kNow + Duration::hours(2)}};
  const Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty());
  EXPECT_EQ(why(v, 0).code, "maintenance");
  EXPECT_EQ(why(v, 0).change, "a time_max below 30m") << why(v, 0).text;
  s.jobs[0].run_max = Duration::minutes(20);
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  EXPECT_TRUE(judge(s, kNow + Duration::hours(1)).admit.empty());
  EXPECT_EQ(judge(s, kNow + Duration::hours(2)).admit.size(), 1u);
  s.jobs[0].run_max = Duration::hours(1);
  s.jobs[0].p50 = s.jobs[0].p90 = Duration::minutes(5);
  EXPECT_TRUE(judge(s, kNow).admit.empty()) << "that others were quick is no promise";
  s.machine.node.closed = true;
  EXPECT_NE(why(judge(s, kNow), 0).text.find("is closed"), std::string::npos);
}

TEST(Placement, a_hot_machine_takes_nothing_new_and_says_so) {
  Scene s = scene({job("runs", 1), job("waits", 2)});
  s.machine.gpus = 0;
  s.jobs[0].stage = Stage::kRunning;
  s.jobs[0].started_at = kNow - Duration::hours(1);
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u);
  s.machine.node.hot = true;
  const Verdict v = judge(s, kNow);
  EXPECT_TRUE(v.admit.empty() && v.preempt.empty()) << "what runs goes on";
  EXPECT_EQ(why(v, 1).code, "hot");
  EXPECT_EQ(why(v, 1).constraint, "temperature");
  EXPECT_EQ(why(v, 1).change, "a Node whose temperature is normal");
  EXPECT_NE(why(v, 1).text.find("too hot for more work"), std::string::npos) << why(v, 1).text;
  EXPECT_TRUE(check_possible(s, s.jobs[1]).ok()) << "it may wait for that";
  s.machine.node.closed = true;
  EXPECT_EQ(why(judge(s, kNow), 1).code, "maintenance") << "to cool down would not do";
}

TEST(Placement, who_has_just_saved_leaves_first) {
  Scene s = scene({job("a", 1), job("b", 2), job("c", 3)});
  s.machine.cpu_milli = 2000;
  s.machine.gpus = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    s.jobs[i].stage = Stage::kRunning;
    s.jobs[i].started_at = kNow - Duration::minutes(45);
  }
  QueueSpec own;
  own.project = "pay";
  own.name = "own";
  own.cpu = {1000, kNoLimit, kNoLimit};
  s.queues = {own};
  s.jobs[2].request.queue = "own";
  for (const std::size_t saved : {std::size_t{0}, std::size_t{1}}) {
    s.jobs[0].checkpoint = s.jobs[1].checkpoint = {};
    s.jobs[saved].checkpoint = kNow - Duration::minutes(1);
    EXPECT_EQ(judge(s, kNow).preempt, std::vector<std::size_t>{saved});
  }
  s.jobs[1].checkpoint = {};
  s.jobs[0].request.saving.every = Duration::minutes(11);
  EXPECT_EQ(judge(s, kNow).preempt, std::vector<std::size_t>{0}) << "by what it says";
  s.jobs[0].request.saving.restart = Duration::hours(2);
  EXPECT_EQ(judge(s, kNow).preempt, std::vector<std::size_t>{1}) << "the way back counts";
}

TEST(Placement, a_way_back_that_is_said_to_be_long_counts_no_more_than_was_run) {
  Candidate boasts = job("boasts", 1);
  boasts.request.saving.restart = Duration::days(30);
  Candidate modest = job("modest", 2);
  Scene s = scene({boasts, modest});
  s.machine.cpu_milli = 2000;
  start(s, judge(s, kNow - Duration::minutes(30)));
  s.jobs[0].started_at = kNow - Duration::minutes(11);
  s.jobs[1].started_at = kNow - Duration::hours(2);
  Candidate urgent = job("urgent", 3);
  urgent.request.priority = 5;
  s.jobs.push_back(urgent);
  EXPECT_EQ(judge(s, kNow).preempt, std::vector<std::size_t>{0})
      << "twice eleven minutes are less than two hours";
}

TEST(Placement, what_was_stored_and_cannot_be_read_holds_the_job) {
  Value stored;
  stored["labels"]["disk"] = "ssd";
  EXPECT_EQ(constraints_from_stored(stored).unreadable, "");
  stored["of_a_later_version"] = true;
  const Constraints read = constraints_from_stored(stored);
  EXPECT_NE(read.unreadable.find("of_a_later_version"), std::string::npos) << read.unreadable;
  EXPECT_NE(constraints_from_stored(Value("text")).unreadable, "");
  Value request;
  request["placement"] = stored;
  EXPECT_EQ(request_from_stored(request).placement, read);
  const Scene s = scene({job("a", 1, read), job("b", 2)});
  const Verdict v = judge(s, kNow);
  ASSERT_EQ(v.admit.size(), 1u);
  EXPECT_EQ(v.admit[0].job, 1u);
  EXPECT_NE(why(v, 0).text.find("cannot be read"), std::string::npos) << why(v, 0).text;
}

TEST(Placement, quota_of_a_model_is_that_of_the_machines_gpus) {
  Scene s = scene({gpu_job("a", 1, {}), gpu_job("b", 2, {})});
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "q";
  queue.gpu_models["a100"] = {1000, 0, kNoLimit};
  s.queues = {queue};
  for (Candidate& each : s.jobs) each.request.queue = "q";
  const Verdict v = judge(s, kNow);
  EXPECT_EQ(v.admit.size(), 1u);
  EXPECT_EQ(why(v, 1).constraint, "queue pay/q: gpu.a100");
  s.machine.node.gpu_model = "h100";
  EXPECT_EQ(judge(s, kNow).admit.size(), 2u) << "of other models it may borrow";
  s.machine.node.gpu_model.clear();
  EXPECT_EQ(judge(s, kNow).admit.size(), 1u) << "the limit does not go with the Node's word";
  s.queues[0].gpu_models["h100"] = {0, 0, kNoLimit};
  EXPECT_TRUE(judge(s, kNow).admit.empty()) << "the strictest counts";
}

Result<NodeSpec> node(const std::string& name, const Value& spec, const Value& labels = {}) {
  storage::Object object;
  object.kind = "Node";
  object.name = name;
  object.spec = spec;
  object.labels = labels;
  return decode_node(object);
}

TEST(NodeKind, says_what_the_machine_is) {
  Value spec;
  spec["gpu"]["model"] = "a100";
  spec["gpu"]["memory"] = "40Gi";
  spec["gpu"]["mig"] = "a100";
  Value island;
  island.push(0);
  island.push(3);
  spec["gpu"]["islands"].push(island);
  spec["numa"].push(island);
  spec["prices"]["cpu_hour"] = 0.5;
  spec["power_cap"] = 1200;
  Value window;
  window["from"] = "2026-12-01T22:00:00Z";
  window["to"] = "2026-12-02T04:00:00Z";
  spec["maintenance"].push(window);
  Value labels;
  labels["disk"] = "ssd";
  const auto decoded = node("local", spec, labels);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->labels, (Labels{{"disk", "ssd"}}));
  EXPECT_EQ(decoded->gpu_islands, std::vector<std::uint16_t>{0b1001});
  EXPECT_EQ(decoded->prices.over({1, 2, 3}), (scheduler::simulate::Prices{500'000, 2, 3}))
      << "what it does not say stays the policy's";
  EXPECT_EQ(decoded->power_cap, 1200);
  EXPECT_EQ(decoded->maintenance.size(), 1u);
  EXPECT_FALSE(node("other", spec).ok()) << "there is one machine";
  spec["maintenance"].as_array().front()["to"] = "2026-12-01T00:00:00Z";
  EXPECT_FALSE(node("local", spec).ok()) << "it ends before it begins";
  spec["maintenance"] = Value();
  spec["gpu"]["islands"].as_array().front().push(16);
  EXPECT_FALSE(node("local", spec).ok());
  spec["gpu"] = Value();
  spec["gpus"] = 3;
  EXPECT_FALSE(node("local", spec).ok()) << "the machine says that itself";
}

TEST(NodeKind, a_power_cap_that_caps_nothing_is_refused) {
  storage::Object machine;
  machine.kind = "Node";
  machine.name = "local";
  machine.spec["power_cap"] = 1200;
  storage::Object policy;
  policy.kind = "SchedulingPolicy";
  policy.name = "default";
  policy.spec["prices"]["gpu_hour"] = 2;
  EXPECT_FALSE(check_power(&machine, nullptr).ok());
  EXPECT_FALSE(check_power(&machine, &policy).ok());
  EXPECT_TRUE(check_power(nullptr, &policy).ok());
  policy.spec["prices"]["gpu_watts"] = 300;
  EXPECT_TRUE(check_power(&machine, &policy).ok());
  machine.spec["prices"]["gpu_watts"] = 0;
  EXPECT_FALSE(check_power(&machine, &policy).ok()) << "its own counts";
  machine.spec["prices"]["gpu_watts"] = 400;
  EXPECT_TRUE(check_power(&machine, nullptr).ok());
  // As it is applied: with what will stand beside it.
  const storage::FindObject nothing = [](const storage::Reference&) { return nullptr; };
  machine.spec["prices"] = Value();
  EXPECT_FALSE(node_kind().check_beside(machine, nothing).ok());
  policy.spec["prices"]["gpu_watts"] = Value();
  const storage::FindObject capped = [&](const storage::Reference&) { return &machine; };
  EXPECT_FALSE(scheduling_policy_kind().check_beside(policy, capped).ok());
  policy.name = "draft";
  EXPECT_TRUE(scheduling_policy_kind().check_beside(policy, capped).ok()) << "not in force";
}

TEST(NodeKind, windows_that_touch_are_one) {
  const auto at = [](int minutes) { return kNow + Duration::minutes(minutes); };
  NodeSpec spec;
  EXPECT_TRUE(opening_of(spec, kNow).open);
  spec.maintenance = {{at(10), at(20)}, {at(20), at(30)}, {at(40), at(50)}};
  EXPECT_EQ(opening_of(spec, kNow).until, at(10));
  EXPECT_FALSE(opening_of(spec, at(10)).open);
  EXPECT_EQ(opening_of(spec, at(15)).until, at(30));
  EXPECT_TRUE(opening_of(spec, at(30)).open);
  EXPECT_EQ(opening_of(spec, at(30)).until, at(40));
  EXPECT_EQ(opening_of(spec, at(50)).until, Timestamp::max());
}

class PlacementTest : public testing::CommandsWorld {
 protected:
  void declare(const std::string& kind, const std::string& project, const std::string& name,
               const Value& spec, const Value& labels = {}) {
    storage::Object object;
    object.kind = kind;
    object.project = project;
    object.name = name;
    object.spec = spec;
    object.labels = labels;
    ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(storage::put_object(tx, object, clock_.now()));
                      return {};
                    })
                    .ok());
  }
  JobSpec placed(const std::string& script, const Constraints& asked) {
    JobSpec spec = spec_of(script);
    spec.request.placement = asked;
    return spec;
  }
};

TEST_F(PlacementTest, a_command_is_told_its_part_of_a_gpu_over_a_restart_too) {
  machine_.gpus = 1;
  Value node;
  node["gpu"]["mig"] = "a100";
  declare("Node", "", "local", node);
  reopen();
  queue_->start();
  Constraints asked;
  asked.gpu.mig = scheduler::MigProfile::k3g;
  JobSpec spec = placed(gated("a"), asked);
  spec.request.resources.gpus = 1;
  const JobId first = submit(spec);
  runs("a");
  reopen();
  queue_->start();
  spec.payload = spec_of("echo $FALAJ_GPU_INSTANCE on $CUDA_VISIBLE_DEVICES").payload;
  const JobId second = submit(spec);
  EXPECT_EQ(ended(second).status, JobStatus::kSucceeded) << ended(second).error;
  EXPECT_EQ(*queue_->log_tail(second, 0), "3g@0 on 0\n") << "the first has the upper half";
  go("a");
  EXPECT_EQ(ended(first).status, JobStatus::kSucceeded);
}

TEST_F(PlacementTest, data_of_a_zone_that_may_not_be_here_is_refused_by_the_gate) {
  bool open = true;
  options_.may_hold = [&](const std::string& project, const Zone& zone) {
    return project == "payments" && (zone == Zone("ae") || open);
  };
  options_.admits = [](const security::RequestContext& context) -> Status {
    if (context.zone == Zone("ae")) return {};
    return Error(ErrorId::kZoneRefused, context.zone.name() + ": not here");
  };
  reopen();
  Constraints asked;
  asked.data = {{"ledger", {"ae", "eu"}}};
  (void)submit(placed("true", asked));
  asked.data = {{"prices", {"eu"}}};
  const JobId waits = submit(placed("true", asked));
  open = false;
  const auto refused = queue_->submit(context_, placed("true", asked));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kZoneRefused);
  EXPECT_NE(refused.error().message.find("'prices'"), std::string::npos) << refused.error().message;
  queue_->start();
  EXPECT_EQ(queue_->why(waits)->code, "zone") << "it was allowed when it came";
  EXPECT_TRUE(queue_->cancel(context_, waits).ok());
}

TEST_F(PlacementTest, there_are_only_so_many_tags_to_tell_apart) {
  for (std::size_t i = 0; i < kProjectTagsMax; ++i) {
    Constraints asked;
    asked.avoid = {"tag" + std::to_string(i)};
    (void)submit(placed("true", asked));
  }
  Constraints known;
  known.near = {"tag3"};
  (void)submit(placed("true", known));
  Constraints more;
  more.avoid = {"another"};
  EXPECT_EQ(queue_->submit(context_, placed("true", more)).error().id, ErrorId::kQueueFull);
}

TEST_F(PlacementTest, of_an_array_so_many_run_at_a_time_and_the_next_array_is_another) {
  queue_->start();
  JobSpec spec = spec_of("mkdir $FOLDER/alone && rmdir $FOLDER/alone");
  spec.request.running_max = 1;
  std::vector<JobId> ids = *queue_->submit_array(context_, spec, 4);
  for (const JobId& id : ids) EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
  const std::string array = queue_->get(ids.front())->spec.request.array;
  EXPECT_FALSE(array.empty());
  EXPECT_EQ(queue_->get(ids.back())->spec.request.array, array);
  const auto others = *queue_->submit_array(context_, spec, 2);
  EXPECT_NE(queue_->get(others.front())->spec.request.array, array);
  for (const JobId& id : others) EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

// Without the report the younger one would leave, which has less to do again.
TEST_F(PlacementTest, who_reports_that_it_saved_leaves_first) {
  Value own;
  own["quota"]["cpu"]["nominal"] = 1;
  declare("Queue", "payments", "own", own);
  reopen();
  queue_->start();
  const std::string saved = to_rfc3339(clock_.now() + Duration::minutes(20));
  const JobId saves = submit(spec_of(R"(echo '{"checkpoint":{"saved_at":")" + saved +
                                     R"("}}' > $FALAJ_REPORT; )" + gated("a")));
  runs("a");
  clock_.advance(Duration::minutes(10));
  const JobId younger = submit(spec_of(gated("b")));
  runs("b");
  clock_.advance(Duration::minutes(20));
  JobSpec owner = spec_of(gated("c"));
  owner.request.queue = "own";
  const JobId third = submit(owner);
  EXPECT_EQ(runs("c"), third.str() + "-1");
  EXPECT_EQ(queue_->get(saves)->error, "preempted");
  EXPECT_EQ(queue_->get(younger)->status, JobStatus::kRunning);
  for (const char* each : {"b", "c"}) go(each);
  runs("a");
  go("a");
  EXPECT_EQ(ended(saves).status, JobStatus::kSucceeded);
}

}  // namespace
}  // namespace falaj::jobs
