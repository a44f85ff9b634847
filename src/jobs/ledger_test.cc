#include "jobs/ledger.h"

#include <gtest/gtest.h>

namespace falaj::jobs {
namespace {

constexpr std::int64_t kGi = std::int64_t{1} << 30;
// A Wednesday.
const Timestamp kNow = parse_timestamp("2026-06-17T10:30:00Z").value();

QueueSpec queue(const std::string& name, const std::string& parent = "") {
  QueueSpec out;
  out.project = "pay";
  out.name = name;
  out.parent = parent;
  return out;
}

Candidate job(const std::string& id, std::uint64_t sequence, const std::string& queue) {
  Candidate out;
  out.id = JobId(id);
  out.sequence = sequence;
  out.project = "pay";
  out.request.queue = queue;
  out.request.resources = {1000, kGi / 2, 0};
  out.queued_at = kNow - Duration::minutes(10);
  out.run_max = Duration::hours(1);
  return out;
}

Spell spell(const std::string& queue, Timestamp to, Duration run, std::int64_t gpus = 0) {
  Spell out;
  out.project = "pay";
  out.request.queue = queue;
  out.request.resources = {1000, kGi / 2, gpus};
  out.from = to - run;
  out.to = to;
  return out;
}

Scene scene(std::vector<Candidate> jobs, std::vector<QueueSpec> queues) {
  Scene out;
  out.machine = {1000, 4 * kGi, 2, 1};
  out.jobs = std::move(jobs);
  out.queues = std::move(queues);
  return out;
}

std::vector<std::string> admitted(const Scene& scene) {
  std::vector<std::string> out;
  for (const auto& place : judge(scene, kNow).admit) {
    out.push_back(scene.jobs[place.job].id.str());
  }
  return out;
}

TEST(Ledger, use_is_halved_per_half_life) {
  Ledger ledger;
  ledger.add(spell("a", kNow - Duration::days(7), Duration::hours(1)));
  ledger.add(spell("b", kNow, Duration::hours(1)));
  Scene s = scene({}, {queue("a"), queue("b")});
  s.policy.policy.order.share = 1000;
  ledger.inform(s, kNow);
  using Used = std::array<std::int64_t, 3>;  // Of a core and half a GiB.
  EXPECT_EQ(s.use["pay/a"].decayed, (Used{1'800'000, 512 * 1800, 0}));
  EXPECT_EQ(s.use["pay/b"].decayed, (Used{3'600'000, 512 * 3600, 0}));
  s.policy.half_life = Duration::days(1);
  ledger.inform(s, kNow);
  EXPECT_NEAR(static_cast<double>(s.use["pay/a"].decayed[0]) / 1e3, 3600.0 / 128, 1.5);
}

TEST(Ledger, a_queue_that_used_its_part_goes_later) {
  Ledger ledger;
  ledger.add(spell("a", kNow - Duration::hours(1), Duration::hours(5)));
  ledger.add(spell("b", kNow - Duration::hours(1), Duration::minutes(6)));
  Scene s = scene({job("first", 1, "a"), job("second", 2, "b")}, {queue("a"), queue("b")});
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"first"}) << "unless the policy says so";
  s.policy.policy.order.share = 1000;
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"second"});
  s.queues[0].weight_milli = 1'000'000;
  EXPECT_EQ(admitted(s), std::vector<std::string>{"first"}) << "its part is larger";
}

TEST(Ledger, what_runs_counts_as_used) {
  Ledger ledger;
  Candidate runs = job("runs", 1, "a");
  runs.stage = Stage::kRunning;
  runs.started_at = kNow - Duration::hours(1);
  Scene s = scene({runs}, {queue("a")});
  s.policy.policy.order.share = 1;
  ledger.inform(s, kNow);
  EXPECT_EQ(s.use["pay/a"].decayed[0], 3'600'000);
  EXPECT_EQ(s.jobs[0].attained, 3600);
}

TEST(Ledger, what_a_queue_used_most_of_counts_be_it_memory) {
  Ledger ledger;
  Spell hog = spell("hog", kNow - Duration::hours(1), Duration::hours(1));
  hog.request.resources = {100, 4 * kGi, 0};  // A tenth of the processor, all of the memory.
  ledger.add(hog);
  Spell modest = spell("modest", kNow - Duration::hours(1), Duration::hours(1));
  modest.request.resources = {500, kGi / 2, 0};
  ledger.add(modest);
  Scene s =
      scene({job("first", 1, "hog"), job("second", 2, "modest")}, {queue("hog"), queue("modest")});
  s.policy.policy.order.share = 1000;
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"second"});
  s.machine.memory_bytes *= 16;  // Of this much the hog's is little.
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"first"});
}

TEST(Ledger, one_of_two_gpus_is_half_the_machine) {
  for (const std::int64_t cores : {3, 5}) {
    Ledger ledger;
    ledger.add(spell("gpus", kNow, Duration::hours(1), 1));
    Spell other = spell("cores", kNow, Duration::hours(1));
    other.request.resources.cpu_milli = cores * 1000;
    ledger.add(other);
    Scene s = scene({job("first", 1, "gpus"), job("second", 2, "cores")},
                    {queue("gpus"), queue("cores")});
    for (Candidate& each : s.jobs) each.request.resources.cpu_milli = 8000;
    s.machine.cpu_milli = 8000;
    s.policy.policy.order.share = 1000;
    ledger.inform(s, kNow);
    const std::string less = cores < 4 ? "second" : "first";
    EXPECT_EQ(admitted(s), std::vector<std::string>{less}) << cores << " of 8 cores";
  }
}

// Below "mixed" one queue took all processors for an hour and another all memory: together that is
// the machine for an hour. Below "plain" two took the processors, an hour and a half together.
TEST(Ledger, a_parents_share_is_that_of_its_own_dominant_resource) {
  Ledger ledger;
  const auto used = [&](const std::string& queue, const Resources& resources, Duration run) {
    Spell out = spell(queue, kNow, run);
    out.request.resources = resources;
    ledger.add(out);
  };
  used("cores", {1000, 0, 0}, Duration::hours(1));
  used("memory", {0, 4 * kGi, 0}, Duration::hours(1));
  used("left", {1000, 0, 0}, Duration::minutes(45));
  used("right", {1000, 0, 0}, Duration::minutes(45));
  Scene s = scene({job("first", 1, "left"), job("second", 2, "cores")},
                  {queue("mixed"), queue("plain"), queue("cores", "mixed"),
                   queue("memory", "mixed"), queue("left", "plain"), queue("right", "plain")});
  s.policy.policy.order.share = 1000;
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"second"});
}

// A clock that is set back by a day, and one that is set on: nothing negative comes of it, and what
// was known is known again.
TEST(Ledger, a_clock_that_jumps_does_no_harm) {
  Ledger ledger;
  ledger.add(spell("a", kNow, Duration::hours(1)));
  Spell backwards = spell("a", kNow, Duration::hours(1));
  backwards.to = backwards.from - Duration::days(1);
  ledger.add(backwards);
  Candidate runs = job("runs", 1, "a");
  runs.stage = Stage::kRunning;
  runs.started_at = kNow;
  QueueSpec own = queue("a");
  own.budgets = {{Per::kDay, scheduler::AllowanceKind::kGpuSeconds, 3'600'000}};
  for (const Duration jump : {Duration{} - Duration::days(1), Duration::days(1), Duration{}}) {
    Scene s = scene({runs, job("waits", 2, "a")}, {own});
    s.policy.policy.order.share = 1000;
    ledger.inform(s, kNow + jump);
    for (const std::int64_t used : s.use["pay/a"].decayed) EXPECT_GE(used, 0);
    EXPECT_GE(s.use["pay/a"].spent[0], 0);
    EXPECT_GE(s.jobs[0].attained, 0);
    EXPECT_GT(s.jobs[0].run_max.nanos, 0);
    const Verdict verdict = judge(s, kNow + jump, Telling::kRecorded);
    EXPECT_TRUE(verdict.preempt.empty());
    for (const auto& [position, why] : verdict.hold) EXPECT_GE(why.latest, why.earliest);
  }
}

TEST(Ledger, a_budget_counts_its_window_and_all_below_it) {
  QueueSpec all = queue("all");
  all.budgets = {{Per::kDay, scheduler::AllowanceKind::kGpuSeconds, 3'600'000},
                 {Per::kMonth, scheduler::AllowanceKind::kMoney, 10'000'000}};
  Ledger ledger;
  ledger.add(spell("team", kNow - Duration::days(1), Duration::hours(1), 2));
  ledger.add(spell("team", kNow, Duration::minutes(30), 1));
  ledger.add(spell("other", kNow, Duration::hours(1), 8));
  Scene s = scene({}, {all, queue("team", "all"), queue("other")});
  s.policy.prices.micros_per_gpu_hour = 2'000'000;
  s.policy.prices.micros_per_cpu_hour = 1'000'000;
  ledger.inform(s, kNow);
  ASSERT_EQ(s.use["pay/all"].spent.size(), 2u);
  EXPECT_EQ(s.use["pay/all"].spent[0], 1800 * 1000);
  EXPECT_EQ(s.use["pay/all"].spent[1], 2'500'000 * 2 + 1'500'000);  // 2.5 GPU-hours, 1.5 cpu-hours.
}

TEST(Ledger, an_exhausted_budget_holds_a_job_until_the_next_window) {
  QueueSpec poor = queue("poor");
  poor.budgets = {{Per::kWeek, scheduler::AllowanceKind::kGpuSeconds, 3'600'000}};
  Candidate asks = job("asks", 1, "poor");
  asks.request.resources.gpus = 1;
  Scene s = scene({asks}, {poor});
  Ledger ledger;
  ledger.inform(s, kNow);
  EXPECT_EQ(admitted(s), std::vector<std::string>{"asks"}) << "one hour is what it may run";
  ledger.add(spell("poor", kNow, Duration::minutes(15), 1));
  ledger.inform(s, kNow);
  const Verdict verdict = judge(s, kNow);
  ASSERT_EQ(verdict.hold.size(), 1u);
  const Why& why = verdict.hold[0].second;
  EXPECT_EQ(why.code, "budget");
  EXPECT_EQ(why.constraint, "queue pay/poor: budget of GPU-hours");
  EXPECT_EQ(why.change, "0.25 GPU-hours more for queue pay/poor");
  EXPECT_EQ(to_rfc3339(why.latest), "2026-06-22T00:00:00Z");
  ledger.inform(s, why.latest);
  EXPECT_EQ(judge(s, why.latest).admit.size(), 1u);
}

// The limit is charged until five of the very same queue, name and size have ended, however many
// short ones ended elsewhere, or under another name or size.
TEST(Ledger, a_budget_is_not_loosened_by_jobs_of_others) {
  QueueSpec cheap = queue("cheap", "all");
  QueueSpec all = queue("all");
  all.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 1000}};
  Candidate fresh = job("fresh", 1, "cheap");
  fresh.request.name = "fresh";
  Ledger ledger;
  const auto told = [&] {
    Scene s = scene({fresh}, {all, cheap});
    s.policy.prices.micros_per_cpu_hour = 50'000;
    ledger.inform(s, kNow);
    const Verdict verdict = judge(s, kNow);
    return verdict.hold.empty() ? "starts" : verdict.hold[0].second.text;
  };
  const std::string by_limit = told();
  EXPECT_NE(by_limit.find("lacks 0.049 money"), std::string::npos) << by_limit;
  const auto end = [&](const std::string& queue, const std::string& name, std::int64_t cpus) {
    Spell spell;
    spell.project = "pay";
    spell.request.queue = queue;
    spell.request.name = name;
    spell.request.resources = {cpus * 1000, kGi / 2, 0};
    spell.to = kNow - Duration::days(2);
    spell.from = spell.to - Duration::seconds(2);
    ledger.add(spell);
  };
  for (int i = 0; i < 50; ++i) {
    end("", "bulk", 1);
    end("cheap", "bulk", 1);
    end("cheap", "fresh", 2);
    if (i < 4) end("cheap", "fresh", 1);
  }
  EXPECT_EQ(told(), by_limit);
  end("cheap", "fresh", 1);
  EXPECT_EQ(told(), "starts") << "five like it took two seconds each";
}

TEST(Ledger, what_runs_is_charged_by_jobs_like_it_or_its_limit) {
  QueueSpec cheap = queue("cheap");
  cheap.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 60'000}};
  Candidate runs = job("runs", 1, "cheap");
  runs.stage = Stage::kRunning;
  runs.started_at = kNow - Duration::minutes(1);
  Ledger ledger;
  for (int i = 0; i < 50; ++i) ledger.add(spell("other", kNow, Duration::minutes(2)));
  Scene s = scene({runs}, {cheap});
  ledger.inform(s, kNow);
  EXPECT_EQ(s.jobs[0].p90, Duration::minutes(59)) << "what is left of the limit";
  EXPECT_LE(s.jobs[0].p50, s.jobs[0].p90);
  for (int i = 0; i < 5; ++i) ledger.add(spell("cheap", kNow, Duration::minutes(2)));
  Scene known = scene({runs}, {cheap});
  ledger.inform(known, kNow);
  EXPECT_LT(known.jobs[0].p90, Duration::minutes(2));
}

TEST(Ledger, who_needs_more_than_a_whole_budget_is_not_told_a_time) {
  QueueSpec poor = queue("poor");
  poor.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 1'000'000}};
  const auto told = [&](Duration limit) {
    Candidate asks = job("asks", 1, "poor");
    asks.run_max = limit;
    Scene s = scene({asks}, {poor});
    s.policy.prices.micros_per_cpu_hour = 2'000'000;
    s.use["pay/poor"].spent = {1'000'000};
    return judge(s, kNow).hold.at(0).second;
  };
  const Why waits = told(Duration::minutes(30));
  EXPECT_EQ(waits.text.find("waits for the next budget of queue pay/poor"), 0u) << waits.text;
  EXPECT_NE(waits.text.find("starts in"), std::string::npos) << waits.text;
  EXPECT_LT(waits.latest, Timestamp::max());
  const Why never = told(Duration::minutes(31));
  EXPECT_EQ(never.text.find("needs more than a whole budget of queue pay/poor"), 0u) << never.text;
  EXPECT_NE(never.text.find("does not start without a change"), std::string::npos) << never.text;
  EXPECT_EQ(never.latest, Timestamp::max());
}

TEST(Ledger, what_a_budget_lacks_is_never_told_as_nothing) {
  QueueSpec poor = queue("poor");
  const auto change = [&](std::int64_t limit) {
    poor.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, limit}};
    Scene s = scene({job("asks", 1, "poor")}, {poor});
    s.policy.prices.micros_per_cpu_hour = 2'000'000;
    Ledger().inform(s, kNow);
    const Verdict verdict = judge(s, kNow);
    return verdict.hold.empty() ? "starts" : verdict.hold[0].second.change;
  };
  EXPECT_EQ(change(1'999'999), "0.000001 money more for queue pay/poor");
  EXPECT_EQ(change(1'998'766), "0.00124 money more for queue pay/poor") << "rounded up";
  EXPECT_EQ(change(1'750'000), "0.25 money more for queue pay/poor");
  EXPECT_EQ(change(0), "2.00 money more for queue pay/poor");
  EXPECT_EQ(change(2'000'000), "starts");
}

TEST(Ledger, a_cost_cap_counts_every_attempt) {
  Candidate capped = job("capped", 1, "");
  capped.request.cost_cap = 1'500'000;
  Ledger ledger;
  const auto starts = [&] {
    Scene s = scene({capped}, {});
    s.policy.prices.micros_per_cpu_hour = 1'000'000;
    ledger.inform(s, kNow);
    return judge(s, kNow).admit.size() == 1;
  };
  EXPECT_TRUE(starts()) << "an hour costs 1";
  Ledger::charge(capped, capped.request, Duration::minutes(30));
  EXPECT_TRUE(starts()) << "an hour and a half, to the millionth";
  Ledger::charge(capped, capped.request, Duration::minutes(1));
  EXPECT_FALSE(starts());
  capped.stage = Stage::kRunning;
  capped.started_at = kNow - Duration::minutes(29);
  Scene s = scene({capped}, {});
  s.policy.prices.micros_per_cpu_hour = 1'000'000;
  ledger.inform(s, kNow);
  EXPECT_EQ(s.jobs[0].spent, 1'000'000) << "with what runs";
}

TEST(Ledger, a_cost_cap_is_judged_by_jobs_of_its_own_kind_alone) {
  Candidate capped = job("capped", 1, "a");
  capped.request.cost_cap = 500'000;
  Ledger ledger;
  const auto possible = [&] {
    Scene s = scene({capped}, {queue("a"), queue("b")});
    s.policy.prices.micros_per_cpu_hour = 1'000'000;
    ledger.inform(s, kNow);
    return check_possible(s, s.jobs[0]).ok();
  };
  for (int i = 0; i < 50; ++i) ledger.add(spell("b", kNow, Duration::minutes(2)));
  EXPECT_FALSE(possible()) << "by its limit of an hour";
  for (int i = 0; i < 5; ++i) ledger.add(spell("a", kNow, Duration::minutes(10)));
  EXPECT_TRUE(possible());
  for (int i = 0; i < 50; ++i) ledger.add(spell("b", kNow, Duration::hours(5)));
  EXPECT_TRUE(possible()) << "others make it no dearer";
}

TEST(Ledger, only_those_that_did_their_work_lower_what_is_charged) {
  QueueSpec cheap = queue("cheap");
  cheap.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 60'000}};
  Ledger ledger;
  const auto charged = [&] {
    Scene s = scene({job("next", 1, "cheap")}, {cheap});
    ledger.inform(s, kNow);
    return s.jobs[0].p90;
  };
  Spell failed = spell("cheap", kNow, Duration::seconds(1));
  failed.ended = Spell::Ended::kFailed;
  for (int i = 0; i < 50; ++i) ledger.add(failed);
  EXPECT_EQ(charged(), Duration::hours(1));
  for (int i = 0; i < 5; ++i) ledger.add(spell("cheap", kNow, Duration::minutes(1)));
  EXPECT_LT(charged(), Duration::minutes(2));
}

TEST(Ledger, parts_of_a_gpu_are_kinds_of_their_own) {
  QueueSpec cheap = queue("cheap");
  cheap.budgets = {{Per::kDay, scheduler::AllowanceKind::kGpuSeconds, 60'000}};
  const auto of = [](Request request, std::int64_t fraction) {
    request.resources.gpus = 1;
    request.placement.emplace().gpu.fraction_milli = fraction;
    return request;
  };
  Ledger ledger;
  for (int i = 0; i < 5; ++i) {
    Spell part = spell("cheap", kNow, Duration::minutes(1));
    part.request = of(part.request, 100);
    ledger.add(part);
  }
  Scene s =
      scene({job("part", 1, "cheap"), job("half", 2, "cheap"), job("whole", 3, "cheap")}, {cheap});
  s.jobs[0].request = of(s.jobs[0].request, 100);
  s.jobs[1].request = of(s.jobs[1].request, 500);
  s.jobs[2].request = of(s.jobs[2].request, 1000);
  ledger.inform(s, kNow);
  EXPECT_LT(s.jobs[0].p90, Duration::minutes(2));
  EXPECT_EQ(s.jobs[1].p90, Duration::hours(1));
  EXPECT_EQ(s.jobs[2].p90, Duration::hours(1));
}

TEST(Ledger, what_is_of_a_deleted_queue_is_charged_to_the_projects_default) {
  QueueSpec fallback = queue("default");
  fallback.budgets = {{Per::kDay, scheduler::AllowanceKind::kMoney, 100'000'000}};
  Candidate runs = job("runs", 1, "gone");
  runs.stage = Stage::kRunning;
  runs.started_at = kNow - Duration::minutes(30);
  Ledger ledger;
  ledger.add(spell("gone", kNow, Duration::hours(2)));
  for (int i = 0; i < 50; ++i) ledger.add(spell("other", kNow, Duration::minutes(2)));
  Scene s = scene({runs}, {fallback, queue("other")});
  s.policy.prices.micros_per_cpu_hour = 1'000'000;
  ledger.inform(s, kNow);
  EXPECT_EQ(s.use["pay/default"].spent, std::vector<std::int64_t>{2'500'000});
  EXPECT_EQ(s.jobs[0].p90, Duration::minutes(30)) << "its limit, as where budgets are charged";
}

TEST(Ledger, foretells_from_jobs_like_it) {
  Ledger ledger;
  Scene s = scene({job("next", 1, "a")}, {queue("a")});
  for (int i = 0; i < 30; ++i) {
    ledger.inform(s, kNow);
    if (i < 5) {
      EXPECT_EQ(s.jobs[0].p90, Duration{}) << "too few say nothing";
    }
    ledger.add(spell("a", kNow, Duration::minutes(10)));
    Spell cut = spell("a", kNow, Duration::seconds(1));
    cut.ended = Spell::Ended::kInterrupted;
    ledger.add(cut);
  }
  ledger.inform(s, kNow);
  EXPECT_GT(s.jobs[0].p50, Duration::minutes(7));
  EXPECT_LT(s.jobs[0].p90, Duration::minutes(15));
  s.jobs[0].stage = Stage::kRunning;
  s.jobs[0].started_at = kNow - Duration::minutes(9);
  ledger.inform(s, kNow);
  EXPECT_LT(s.jobs[0].p50, Duration::minutes(5)) << "given that it has run for nine";
}

TEST(Budgets, windows_are_those_of_the_calendar) {
  const auto text = [](Per per) {
    const Window window = window_of(per, kNow);
    return to_rfc3339(window.begin) + " " + to_rfc3339(window.end);
  };
  EXPECT_EQ(text(Per::kDay), "2026-06-17T00:00:00Z 2026-06-18T00:00:00Z");
  EXPECT_EQ(text(Per::kWeek), "2026-06-15T00:00:00Z 2026-06-22T00:00:00Z");
  EXPECT_EQ(text(Per::kMonth), "2026-06-01T00:00:00Z 2026-07-01T00:00:00Z");
}

storage::Object object(Value spec) {
  storage::Object out;
  out.kind = "Queue";
  out.project = "pay";
  out.name = "q";
  out.spec = std::move(spec);
  return out;
}

TEST(Budgets, are_read_strictly) {
  Value entry;
  entry["per"] = "week";
  entry["gpu_hours"] = 2;
  entry["kwh"] = 0.5;
  Value spec;
  spec["budgets"].push(entry);
  const auto decoded = decode_queue(object(spec));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  const std::vector<QueueBudget> wanted{
      {Per::kWeek, scheduler::AllowanceKind::kGpuSeconds, 7'200'000},
      {Per::kWeek, scheduler::AllowanceKind::kEnergy, 1'800'000}};
  EXPECT_EQ(decoded->budgets, wanted);
  for (const auto& [key, value] : std::vector<std::pair<const char*, Value>>{
           {"per", Value("year")}, {"gpu_hours", Value(-1)}, {"hours", Value(1)}}) {
    Value wrong = entry;
    wrong[key] = value;
    Value list;
    list["budgets"].push(wrong);
    EXPECT_FALSE(decode_queue(object(list)).ok()) << key;
  }
  Value nothing;
  nothing["budgets"].push(Value::object());
  EXPECT_FALSE(decode_queue(object(nothing)).ok());
}

TEST(SchedulingPolicy, is_the_first_come_order_where_it_says_nothing) {
  storage::Object declared = object(Value::object());
  declared.spec["order"]["share"] = 500;
  const auto policy = decode_scheduling_policy(declared);
  ASSERT_TRUE(policy.ok()) << policy.error().message;
  EXPECT_EQ(policy->policy.order.share, 500);
  EXPECT_EQ(policy->policy.order.p50, 0);
  declared.spec["queues"].push(Value::object());
  declared.spec["queues"].as_array()[0]["tenant"] = "a";
  EXPECT_FALSE(decode_scheduling_policy(declared).ok()) << "queues are objects of their own";
}

}  // namespace
}  // namespace falaj::jobs
