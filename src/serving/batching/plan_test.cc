#include "serving/batching/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace falaj::serving::batching {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Waiting request(std::string_view tenant, std::int64_t arrived, std::int64_t deadline = kNoDeadline,
                std::size_t rows = 1, std::uint32_t priority = 0) {
  return {std::hash<std::string_view>()(tenant), priority, rows, 7, arrived, deadline};
}

// Runs of 1 and 2 rows that took 10 ms each, and so on: together pays.
ServiceTimes pays_up_to(std::size_t rows) {
  ServiceTimes times;
  for (std::size_t size = 1; size <= rows; size *= 2) times.observe(size, Duration{10 * kMs});
  times.observe(rows * 2, Duration{40 * kMs});
  return times;
}

TEST(ServiceTimes, learns_where_running_together_stops_to_pay) {
  ServiceTimes times;
  EXPECT_EQ(times.expect(1).nanos, 0);
  EXPECT_EQ(times.rows_worth(), 1U) << "nothing was seen: one at a time";
  times.observe(1, Duration{10 * kMs});
  EXPECT_EQ(times.rows_worth(), 2U) << "two are tried";
  EXPECT_EQ(times.expect(2).nanos, 20 * kMs) << "and nothing is promised of it";
  times.observe(2, Duration{11 * kMs});
  EXPECT_EQ(times.expect(2).nanos, 11 * kMs);
  EXPECT_EQ(times.rows_worth(), 4U);
  times.observe(4, Duration{22 * kMs});
  EXPECT_EQ(times.rows_worth(), 2U) << "four took twice as long as two";
  EXPECT_EQ(times.per_row_at_best().nanos, 11 * kMs / 2);
}

TEST(ServiceTimes, never_runs_together_what_takes_as_long_as_one_by_one) {
  ServiceTimes times;
  for (int i = 0; i < 100; ++i) times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{20 * kMs});
  EXPECT_EQ(times.rows_worth(), 1U);
  for (int i = 0; i < 5000; ++i) times.observe(1, Duration{10 * kMs});
  EXPECT_EQ(times.rows_worth(), 2U) << "after a long time it is tried again";
}

TEST(ServiceTimes, follows_a_model_that_became_slower) {
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  for (int i = 0; i < 60; ++i) times.observe(1, Duration{30 * kMs});
  EXPECT_GT(times.expect(1).nanos, 29 * kMs);
  EXPECT_GT(times.expect(7).nanos, 7 * 29 * kMs) << "of a size never seen";
  ServiceTimes large;
  large.observe(64, Duration{64 * kMs});
  EXPECT_EQ(large.expect(1).nanos, 64 * kMs) << "one row takes no longer than 64 did";
}

TEST(ServiceTimes, knows_what_a_row_costs_from_large_runs_alone) {
  ServiceTimes times;
  for (int i = 0; i < 5; ++i) times.observe(32, Duration{32 * kMs});
  EXPECT_EQ(times.per_row_at_best().nanos, kMs);
  EXPECT_EQ(times.rows_worth(), 64U) << "twice as many are tried";
  const std::vector<Waiting> line{request("a", 0, 500 * kMs, 32), request("a", 1, 500 * kMs, 32)};
  EXPECT_EQ(next_batch(line, times, 256, 0).run.size(), 2U);
  const Waiting third = request("a", 2, 100 * kMs, 32);
  EXPECT_EQ(admit(third, {line, 1, 0}, times, 0).verdict, Admission::Verdict::kWait)
      << "64 rows before it, and its own: 96 ms";
}

TEST(NextBatch, a_request_alone_runs_alone_and_at_once) {
  const std::vector<Waiting> one{request("a", 0)};
  EXPECT_EQ(next_batch(one, pays_up_to(8), 256, 0).run, (std::vector<std::size_t>{0}));
  EXPECT_EQ(next_batch(one, ServiceTimes(), 256, 0).run, (std::vector<std::size_t>{0}));
  EXPECT_TRUE(next_batch({}, pays_up_to(8), 256, 0).run.empty());
}

TEST(NextBatch, takes_as_many_rows_as_pay_and_may_be) {
  std::vector<Waiting> many;
  for (int i = 0; i < 20; ++i) many.push_back(request("a", i));
  EXPECT_EQ(next_batch(many, pays_up_to(8), 256, 0).run.size(), 8U);
  EXPECT_EQ(next_batch(many, pays_up_to(8), 5, 0).run.size(), 5U);
  EXPECT_EQ(next_batch(many, pays_up_to(8), 1, 0).run.size(), 1U);
  many[0].rows = 6;
  EXPECT_EQ(next_batch(many, pays_up_to(8), 256, 0).run.size(), 3U) << "rows count, not requests";
  many[0].rows = 600;
  EXPECT_EQ(next_batch(many, pays_up_to(8), 256, 0).run, (std::vector<std::size_t>{0}))
      << "a large one runs by itself";
}

TEST(NextBatch, runs_only_one_shape_together) {
  std::vector<Waiting> mixed{request("a", 0), request("a", 1), request("a", 2)};
  mixed[1].shape = 8;
  EXPECT_EQ(next_batch(mixed, pays_up_to(8), 256, 0).run, (std::vector<std::size_t>{0, 2}));
  for (Waiting& each : mixed) each.shape = 0;
  EXPECT_EQ(next_batch(mixed, pays_up_to(8), 256, 0).run, (std::vector<std::size_t>{0}));
}

TEST(NextBatch, the_earliest_deadline_runs_first_and_what_is_late_is_refused) {
  const std::vector<Waiting> waiting{request("a", 0, 100 * kMs), request("a", 1, 30 * kMs),
                                     request("a", 2, 5 * kMs)};
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{20 * kMs});
  const Batch batch = next_batch(waiting, times, 256, 0);
  EXPECT_EQ(batch.run, (std::vector<std::size_t>{1}));
  EXPECT_EQ(batch.late, (std::vector<std::size_t>{2}));
}

TEST(NextBatch, nobody_joins_who_would_make_another_late) {
  std::vector<Waiting> waiting{request("a", 0, 12 * kMs), request("a", 1, 90 * kMs)};
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{14 * kMs});
  EXPECT_EQ(next_batch(waiting, times, 256, 0).run, (std::vector<std::size_t>{0}));
  waiting[0].deadline = 15 * kMs;
  EXPECT_EQ(next_batch(waiting, times, 256, 0).run, (std::vector<std::size_t>{0, 1}));
}

TEST(Turns, are_taken_by_tenant_then_by_deadline_and_a_tenants_own_by_priority) {
  const std::vector<Waiting> waiting{request("flood", 0, 10), request("flood", 1, 11),
                                     request("flood", 2, 12), request("quiet", 3, 90),
                                     request("other", 4, 80), request("flood", 5, 99, 1, 1)};
  EXPECT_EQ(turns(waiting), (std::vector<std::size_t>{4, 3, 5, 0, 1, 2}));
}

TEST(Turns, whoever_says_that_all_of_its_requests_are_urgent_gains_nothing_over_others) {
  std::vector<Waiting> waiting;
  for (int i = 0; i < 20; ++i) waiting.push_back(request("loud", i, 1000 + i, 1, 1));
  waiting.push_back(request("quiet", 20, 2000));
  EXPECT_EQ(turns(waiting)[1], 20U);
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{20 * kMs});
  waiting.pop_back();
  EXPECT_EQ(admit(request("quiet", 20, 20 * kMs), {waiting, 1, 0}, times, 0).verdict,
            Admission::Verdict::kWait)
      << "one of the other's runs before it";
}

TEST(Turns, whoever_floods_the_line_cannot_keep_another_out_of_the_next_run) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Waiting> waiting;
    for (int i = 0; i < 100; ++i) {
      waiting.push_back(request("flood", i, static_cast<std::int64_t>(1000 + random() % 1000)));
    }
    waiting.push_back(request("quiet", 100, kNoDeadline));
    const auto order = turns(waiting);
    const auto place = std::find(order.begin(), order.end(), 100U) - order.begin();
    EXPECT_LE(place, 1);
  }
}

TEST(Admit, refuses_at_once_what_cannot_be_in_time) {
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{20 * kMs});
  std::vector<Waiting> line;
  const auto verdict = [&](std::int64_t deadline, std::size_t runners = 1) {
    return admit(request("a", 0, deadline), {line, runners, 4 * kMs}, times, 0).verdict;
  };
  EXPECT_EQ(verdict(14 * kMs), Admission::Verdict::kWait);
  EXPECT_EQ(verdict(13 * kMs), Admission::Verdict::kTooLate);
  for (int i = 0; i < 5; ++i) line.push_back(request("b", i, 1));
  EXPECT_EQ(verdict(64 * kMs), Admission::Verdict::kWait)
      << "of five by another, one runs before it";
  line.assign(5, request("a", 0, 1));
  EXPECT_EQ(verdict(64 * kMs), Admission::Verdict::kWait);
  EXPECT_EQ(verdict(63 * kMs), Admission::Verdict::kTooLate);
  EXPECT_EQ(verdict(63 * kMs, 2), Admission::Verdict::kWait) << "two run at once";
  EXPECT_EQ(verdict(kNoDeadline), Admission::Verdict::kWait);
}

TEST(Admit, leaves_whoever_waits_for_little_a_place_beside_whoever_waits_for_much) {
  std::vector<Waiting> line;
  const auto verdict = [&](std::string_view tenant) {
    return admit(request(tenant, 0), {line, 1, 0}, ServiceTimes(), 0).verdict;
  };
  const auto fill = [&](std::string_view tenant) {
    std::size_t taken = 0;
    for (; verdict(tenant) == Admission::Verdict::kWait; ++taken)
      line.push_back(request(tenant, 0));
    return taken;
  };
  EXPECT_EQ(fill("flood"), kWaitingMax / 2);
  EXPECT_EQ(fill("second"), kWaitingMax / 4) << "half of what is left";
  EXPECT_EQ(verdict("quiet"), Admission::Verdict::kWait);
  for (int i = 0; line.size() < kWaitingMax; ++i) line.push_back(request(std::to_string(i), 0));
  EXPECT_EQ(verdict("quiet"), Admission::Verdict::kFull);
}

// A day of a server in a driven clock: twice as many requests as it can do, each worth 50 ms.
TEST(Overload, keeps_what_it_admits_in_time_and_itself_busy) {
  std::mt19937 random(9);
  std::exponential_distribution<double> gap(1.0 / (5 * kMs));  // 200 a second; it can do 100.
  ServiceTimes times;
  times.observe(1, Duration{10 * kMs});
  times.observe(2, Duration{20 * kMs});
  std::vector<Waiting> line;
  std::int64_t now = 0;
  std::int64_t free_at = 0;
  std::int64_t next_arrival = 0;
  int in_time = 0;
  int late = 0;
  int refused = 0;
  constexpr std::int64_t kEnd = 60'000 * kMs;
  while (now < kEnd) {
    while (next_arrival <= now) {
      const Waiting fresh =
          request("t" + std::to_string(random() % 3), next_arrival, next_arrival + 50 * kMs);
      const bool admitted = admit(fresh, {line, 1, free_at}, times, next_arrival).verdict ==
                            Admission::Verdict::kWait;
      if (admitted) line.push_back(fresh);
      refused += admitted ? 0 : 1;
      next_arrival += static_cast<std::int64_t>(gap(random));
    }
    if (free_at > now) {
      now = std::min(free_at, std::max(next_arrival, now + 1));
      continue;
    }
    const Batch batch = next_batch(line, times, 256, now);
    refused += static_cast<int>(batch.late.size());
    std::vector<std::size_t> leave = batch.late;
    for (const std::size_t i : batch.run) {
      free_at = now + 10 * kMs;
      (free_at <= line[i].deadline ? in_time : late) += 1;
      leave.push_back(i);
    }
    std::sort(leave.rbegin(), leave.rend());
    for (const std::size_t i : leave) line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
    if (batch.run.empty()) now = std::max(next_arrival, now + 1);
  }
  EXPECT_EQ(late, 0);
  EXPECT_GE(in_time, 5400) << "of the 6000 that it can do in a minute";
  EXPECT_GT(refused, 4000);
}

}  // namespace
}  // namespace falaj::serving::batching
