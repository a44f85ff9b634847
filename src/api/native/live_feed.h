// api/native/live_feed.h — what the console sees without asking: the overview, sent whenever the
// audit moved, a run advanced or predictions were answered; and, as the event `metrics`, what a run
// reported: {run, experiment, status, progress, metrics}, the newest value of each metric.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/native/log_feed.h"
#include "api/native/services.h"
#include "base/mutex.h"

namespace falaj::api {

// Thread-safe. tick() is called by one background ticker, about twice a second.
class LiveFeed {
 public:
  explicit LiveFeed(Services& services) : services_(services), logs_(services.jobs) {}
  // Those who follow what jobs print: fed by the same tick().
  LogFeed& logs() { return logs_; }

  // Of the request's project: counts, running work, deployments and their recent latency; and the
  // log's head for who may read all of it, since its length tells of every project.
  Result<Value> overview(const net::Request& request) const;
  // `request` is what the stream answers, as the gate let it through.
  void subscribe(const net::Request& request, std::shared_ptr<net::Stream> stream);
  // Samples latencies, then sends what changed to who listens; forgets closed streams. Who would
  // not be let through any more (signed out, revoked, expired, elsewhere) is cut off.
  void tick();

 private:
  struct Sample {
    std::int64_t unix_ms = 0;
    double p50_ms = 0;
    double p99_ms = 0;
    double requests_per_second = 0;
  };
  struct Subscriber {
    net::Request request;
    std::shared_ptr<net::Stream> stream;
    std::string last;                     // What was sent last; the same is not sent again.
    std::map<RunId, std::string> runs{};  // The same of each run that was running then.
  };
  enum class Log : std::uint8_t { kHidden, kShown };
  static Log log_for(const net::Request& request);
  Result<Value> overview_of(const ProjectName& project, Log log) const;
  // Runs that advanced since, to who may read them; and how those ended that were told of before.
  void tell_runs(Subscriber& subscriber, const std::vector<tracking::Run>& newest) const;
  void sample_latencies();
  Value latency_of(const std::string& project) const;

  static constexpr std::size_t kSamplesMax = 120;
  Services& services_;
  LogFeed logs_;
  mutable Mutex mutex_;
  std::vector<Subscriber> subscribers_ FALAJ_GUARDED_BY(mutex_);
  std::map<std::string, std::deque<Sample>> samples_ FALAJ_GUARDED_BY(mutex_);
  std::map<std::string, telemetry::HistogramSnapshot> before_ FALAJ_GUARDED_BY(mutex_);
  Timestamp sampled_at_ FALAJ_GUARDED_BY(mutex_){};
};

}  // namespace falaj::api
