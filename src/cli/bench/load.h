// cli/bench/load.h — requests at a pace, and how long they took.
//
// Closed loop: so many clients, each sends its next request when it has its answer; what the server
// does not take is not offered. Open loop: requests are due at a steady rate whatever the server
// does, and a latency counts from when its request was due, not from when a client was free to send
// it: a server that stalls shows in every request that it kept waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "telemetry/histogram.h"

namespace falaj::cli::bench {

struct LoadOptions {
  std::size_t clients = 8;
  double rate = 0;  // Requests a second; 0: closed loop.
  Duration length = Duration::seconds(10);
  std::uint64_t requests_max = 0;  // 0: as many as there is time for.
};

// Who tells the time since the start, and waits. Thread-safe.
struct LoadClock {
  std::function<std::int64_t()> now;  // Nanoseconds.
  std::function<void(std::int64_t nanos)> wait_until;
};
LoadClock steady_clock();

// Which request is due when. Thread-safe.
class Pace {
 public:
  explicit Pace(const LoadOptions& options) : options_(options) {}
  // When the next request is due, in nanoseconds since the start; nothing once all are taken. Of
  // the open loop that may lie in the future, or in the past when all clients were busy.
  std::optional<std::int64_t> next(std::int64_t now);
  // Those of the open loop that were due and that nobody had the time to send: a run ends when a
  // quarter of its length is over past its end, at the latest.
  std::uint64_t unsent() const;

 private:
  std::uint64_t planned() const;  // Of the open loop.

  const LoadOptions options_;
  std::atomic<std::uint64_t> taken_ = 0;
};

struct Answered {
  int status = 0;       // 0: none came.
  std::string failure;  // Then: the code of the error.
};
using Send = std::function<Answered()>;
using MakeSend = std::function<Result<Send>()>;  // One for each client, which only it uses.

struct LoadResult {
  telemetry::HistogramSnapshot latency;  // Of those answered with 2xx.
  std::int64_t longest_nanos = 0;        // The same, exactly.
  double seconds = 0;
  std::uint64_t answered = 0;                   // With 2xx.
  std::map<std::string, std::uint64_t> errors;  // "503", or "FJ-8008" when nobody answered.
  std::uint64_t late = 0;    // Sent over a millisecond after they were due: add clients.
  std::uint64_t unsent = 0;  // See Pace.
};

// Runs on threads of its own, one for each client; returns when all have ended. The error of a
// client that could not be made. A client that gets no answer waits a little before it goes on.
Result<LoadResult> run_load(const LoadOptions& options, const MakeSend& make,
                            const LoadClock& clock);

// The time within which a share `q` was answered: within 3 %, and never above the longest.
double quantile_ms(const LoadResult& result, double q);

struct LatencyRow {
  double from_ms = 0;
  double to_ms = 0;
  std::uint64_t count = 0;
};
// The answered requests in at most `rows` steps, each as much wider as the one before as that was;
// from the shortest to the longest. Empty without answers.
std::vector<LatencyRow> latency_rows(const LoadResult& result, std::size_t rows);

}  // namespace falaj::cli::bench
