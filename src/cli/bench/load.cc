#include "cli/bench/load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/mutex.h"

namespace falaj::cli::bench {
namespace {

constexpr std::int64_t kLateNanos = 1'000'000;
constexpr std::int64_t kPauseNanos = 10'000'000;  // After no answer.

// What all clients count into.
struct Tally {
  std::unique_ptr<telemetry::Histogram> latency = telemetry::make_histogram();
  std::atomic<std::int64_t> longest = 0;
  std::atomic<std::uint64_t> late = 0;
  Mutex mutex;
  std::map<std::string, std::uint64_t> errors FALAJ_GUARDED_BY(mutex);

  void answer(std::int64_t nanos) {
    latency->observe_nanos(nanos);
    std::int64_t seen = longest.load(std::memory_order_relaxed);
    while (nanos > seen && !longest.compare_exchange_weak(seen, nanos)) {
    }
  }
  void fail(const std::string& why) {
    const MutexLock lock(mutex);
    ++errors[why];
  }
};

void run_client(Pace& pace, const Send& send, const LoadClock& clock, Tally& tally) {
  while (const std::optional<std::int64_t> due = pace.next(clock.now())) {
    if (*due > clock.now()) clock.wait_until(*due);
    if (clock.now() - *due > kLateNanos) tally.late.fetch_add(1, std::memory_order_relaxed);
    const Answered answered = send();
    if (answered.status >= 200 && answered.status <= 299) {
      tally.answer(clock.now() - *due);
      continue;
    }
    tally.fail(answered.status == 0 ? answered.failure : std::to_string(answered.status));
    if (answered.status == 0) clock.wait_until(clock.now() + kPauseNanos);
  }
}

}  // namespace

LoadClock steady_clock() {
  const auto start = std::chrono::steady_clock::now();
  LoadClock clock;
  clock.now = [start] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start)
        .count();
  };
  clock.wait_until = [start](std::int64_t nanos) {
    std::this_thread::sleep_until(start + std::chrono::nanoseconds(nanos));
  };
  return clock;
}

std::uint64_t Pace::planned() const {
  const auto all =
      static_cast<std::uint64_t>(std::ceil(options_.rate * options_.length.as_seconds()));
  return options_.requests_max == 0 ? all : std::min(all, options_.requests_max);
}

std::optional<std::int64_t> Pace::next(std::int64_t now) {
  if (options_.rate <= 0) {
    const std::uint64_t number = taken_.fetch_add(1);
    const bool over = now >= options_.length.nanos ||
                      (options_.requests_max > 0 && number >= options_.requests_max);
    return over ? std::nullopt : std::optional(now);
  }
  if (now > options_.length.nanos + options_.length.nanos / 4) return std::nullopt;
  const std::uint64_t number = taken_.fetch_add(1);
  if (number >= planned()) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<double>(number) / options_.rate * 1e9);
}

std::uint64_t Pace::unsent() const {
  if (options_.rate <= 0) return 0;
  return planned() - std::min(planned(), taken_.load());
}

Result<LoadResult> run_load(const LoadOptions& options, const MakeSend& make,
                            const LoadClock& clock) {
  std::vector<Send> sends;
  for (std::size_t i = 0; i < options.clients; ++i) sends.push_back(FALAJ_TRY(make()));
  Pace pace(options);
  Tally tally;
  const std::int64_t begun = clock.now();
  const LoadClock since{[&] { return clock.now() - begun; },
                        [&](std::int64_t nanos) { clock.wait_until(begun + nanos); }};
  std::vector<std::thread> threads;
  threads.reserve(sends.size());
  for (const Send& send : sends) {
    threads.emplace_back([&] { run_client(pace, send, since, tally); });
  }
  for (std::thread& thread : threads) thread.join();
  LoadResult result;
  result.seconds = static_cast<double>(since.now()) * 1e-9;
  result.latency = tally.latency->snapshot();
  result.longest_nanos = tally.longest.load();
  result.answered = result.latency.count;
  result.late = tally.late.load();
  result.unsent = pace.unsent();
  const MutexLock lock(tally.mutex);
  result.errors = tally.errors;
  return result;
}

double quantile_ms(const LoadResult& result, double q) {
  return std::min(result.latency.quantile_seconds(q) * 1e3,
                  static_cast<double>(result.longest_nanos) * 1e-6);
}

std::vector<LatencyRow> latency_rows(const LoadResult& result, std::size_t rows) {
  const std::vector<std::uint64_t>& buckets = result.latency.buckets;
  const auto seen = [](std::uint64_t count) { return count > 0; };
  const auto first = std::find_if(buckets.begin(), buckets.end(), seen);
  if (first == buckets.end() || rows == 0) return {};
  const auto end = std::find_if(buckets.rbegin(), buckets.rend(), seen).base();
  const auto upper = [&](std::size_t i) {
    return static_cast<double>(telemetry::bucket_last_nanos(i) + 1) * 1e-6;
  };
  const auto at = static_cast<std::size_t>(first - buckets.begin());
  const double low = at == 0 ? 1e-6 : upper(at - 1);
  const double high = std::max(upper(static_cast<std::size_t>(end - buckets.begin()) - 1), low);
  const double step = std::pow(high / low, 1 / static_cast<double>(rows));
  std::vector<LatencyRow> out;
  double to = low;
  for (auto bucket = first; bucket != end; ++bucket) {
    const double last = upper(static_cast<std::size_t>(bucket - buckets.begin()));
    // A bucket belongs to the row in which it ends; rows narrower than a bucket do not appear.
    if (out.empty() || last > to * (1 + 1e-9)) {
      while (last > to * (1 + 1e-9) && step > 1) to *= step;
      out.push_back({out.empty() ? low : out.back().to_ms, std::max(to, last), 0});
    }
    out.back().count += *bucket;
  }
  return out;
}

}  // namespace falaj::cli::bench
