#include "cli/bench/load.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/mutex.h"

namespace falaj::cli::bench {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// Time that passes only when somebody waits or a request takes it.
class FakeTime {
 public:
  LoadClock clock() {
    return {[this] { return now_.load(); },
            [this](std::int64_t nanos) { now_ = std::max(now_.load(), nanos); }};
  }
  void pass(std::int64_t nanos) { now_ += nanos; }

 private:
  std::atomic<std::int64_t> now_ = 1'000 * kMs;
};

// One client, whose requests take what `cost` says of each number.
LoadResult run_one(
    const LoadOptions& options, const std::function<std::int64_t(int)>& cost,
    const std::function<Answered(int)>& answer = [](int) {
      return Answered{200, ""};
    }) {
  FakeTime time;
  int number = 0;
  const MakeSend make = [&]() -> Result<Send> {
    return Send([&] {
      time.pass(cost(number));
      return answer(number++);
    });
  };
  return run_load(options, make, time.clock()).value();
}

TEST(ClosedLoop, sends_when_it_has_its_answer) {
  const LoadResult result = run_one({1, 0, Duration::seconds(1), 0}, [](int) { return 10 * kMs; });
  EXPECT_EQ(result.answered, 100u);
  EXPECT_NEAR(result.seconds, 1, 1e-9);
  EXPECT_NEAR(quantile_ms(result, 0.5), 10, 0.3);
  EXPECT_EQ(result.longest_nanos, 10 * kMs);
  EXPECT_EQ(result.late, 0u);
  EXPECT_EQ(result.unsent, 0u);
}

TEST(ClosedLoop, ends_after_so_many) {
  EXPECT_EQ(run_one({1, 0, Duration::seconds(1), 7}, [](int) { return kMs; }).answered, 7u);
}

TEST(OpenLoop, sends_when_requests_are_due) {
  const LoadResult result = run_one({1, 50, Duration::seconds(1), 0}, [](int) { return 2 * kMs; });
  EXPECT_EQ(result.answered, 50u);
  EXPECT_NEAR(result.seconds, 0.982, 1e-6);
  EXPECT_NEAR(quantile_ms(result, 0.99), 2, 0.1);
  EXPECT_EQ(run_one({1, 50, Duration::seconds(1), 9}, [](int) { return kMs; }).answered, 9u);
}

// A stall of 200 ms, seen by one request in a closed loop, was met by all that were due meanwhile.
TEST(OpenLoop, a_stall_counts_for_every_request_that_it_kept_waiting) {
  const auto stalls = [](int number) { return number == 10 ? 200 * kMs : kMs; };
  const LoadResult open = run_one({1, 100, Duration::seconds(1), 0}, stalls);
  EXPECT_EQ(open.answered, 100u);
  // Due 10 ms apart and sent 1 ms apart once it was over: 200, 191, 182 …
  EXPECT_GE(open.late, 20u);
  EXPECT_NEAR(quantile_ms(open, 0.9), 110, 15);
  EXPECT_EQ(open.longest_nanos, 200 * kMs);
  const LoadResult closed = run_one({1, 0, Duration::seconds(1), 100}, stalls);
  EXPECT_NEAR(quantile_ms(closed, 0.9), 1, 0.1) << "what is called coordinated omission";
}

TEST(OpenLoop, says_what_was_never_sent) {
  const LoadResult result =
      run_one({1, 100, Duration::seconds(1), 0}, [](int) { return 100 * kMs; });
  EXPECT_EQ(result.answered, 13u);  // In 1.25 s, with the one that had begun.
  EXPECT_EQ(result.unsent, 87u);
  EXPECT_GE(result.longest_nanos, 1'000 * kMs);
}

TEST(Load, counts_what_went_wrong_by_its_code) {
  const LoadResult result = run_one(
      {1, 0, Duration::seconds(10), 10}, [](int) { return kMs; },
      [](int number) -> Answered {
        if (number < 2) return {503, ""};
        if (number < 5) return {0, "FJ-8008"};
        return {204, ""};
      });
  EXPECT_EQ(result.answered, 5u);
  EXPECT_EQ(result.errors, (std::map<std::string, std::uint64_t>{{"503", 2}, {"FJ-8008", 3}}));
  EXPECT_GE(result.seconds, 0.04) << "it pauses when nobody answers";
}

TEST(Load, all_clients_send) {
  FakeTime time;
  Mutex mutex;
  int made = 0;
  std::atomic<int> sent = 0;
  const MakeSend make = [&]() -> Result<Send> {
    const MutexLock lock(mutex);
    ++made;
    return Send([&] {
      ++sent;
      return Answered{200, ""};
    });
  };
  EXPECT_EQ(run_load({4, 0, Duration::seconds(1), 1000}, make, time.clock())->answered, 1000u);
  EXPECT_EQ(made, 4);
  EXPECT_EQ(sent.load(), 1000);
}

TEST(Load, a_client_that_cannot_be_made_ends_it) {
  FakeTime time;
  const auto refused = run_load(
      {2, 0, Duration::seconds(1), 1},
      []() -> Result<Send> { return Error(ErrorId::kUnavailable, "no"); }, time.clock());
  EXPECT_FALSE(refused.ok());
}

TEST(LatencyRows, hold_every_answer_once_from_the_shortest_to_the_longest) {
  const LoadResult result = run_one({1, 0, Duration::seconds(100), 2000},
                                    [](int number) { return (1 + number % 100) * kMs / 10; });
  for (const std::size_t most : {1U, 4U, 16U}) {
    const std::vector<LatencyRow> rows = latency_rows(result, most);
    ASSERT_FALSE(rows.empty());
    EXPECT_LE(rows.size(), most + 1);
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all += rows[i].count;
      EXPECT_LT(rows[i].from_ms, rows[i].to_ms);
      EXPECT_EQ(rows[i].from_ms, i > 0 ? rows[i - 1].to_ms : rows[0].from_ms);
    }
    EXPECT_EQ(all, 2000u);
    EXPECT_LE(rows.front().from_ms, 0.1);
    EXPECT_GE(rows.back().to_ms, 10);
  }
  EXPECT_TRUE(latency_rows(LoadResult{}, 5).empty());
}

}  // namespace
}  // namespace falaj::cli::bench
