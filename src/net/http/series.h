// net/http/series.h — the server's metrics, looked up once per route and never per request.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "net/router.h"
#include "telemetry/metrics.h"

namespace falaj::net {

// Thread-safe; no lock once a (method, status) pair was seen.
class RouteSeries {
 public:
  RouteSeries(telemetry::Metrics& metrics, std::string route);
  void count(Method method, int status);
  void observe(std::int64_t nanos) { seconds_.observe_nanos(nanos); }

 private:
  struct Slot {
    std::atomic<int> key = 0;
    std::atomic<telemetry::Counter*> counter = nullptr;
  };
  telemetry::Counter& look_up(Method method, int status);

  telemetry::Metrics& metrics_;
  const std::string route_;
  telemetry::Histogram& seconds_;
  std::array<Slot, 16> slots_;
  Mutex mutex_;
};

enum class Refusal : std::uint8_t {
  kConnections,
  kDescriptors,
  kHost,
  kOrigin,
  kHeadSize,
  kBodySize,
  kSlowSender,
  kSlowReader,
  kMalformed,
  kPoolFull,
  kHandshake,
};
inline constexpr std::size_t kRefusalCount = 11;

class HttpSeries {
 public:
  // Makes the series of every route, and one for requests that matched none ("unmatched").
  HttpSeries(telemetry::Metrics& metrics, const Router& router);
  RouteSeries& of(const Route* route);
  void refused(Refusal reason) { refused_[static_cast<std::size_t>(reason)]->add(); }
  telemetry::Gauge& connections() { return connections_; }

 private:
  telemetry::Gauge& connections_;
  RouteSeries unmatched_;
  std::unordered_map<const Route*, std::unique_ptr<RouteSeries>> routes_;
  std::array<telemetry::Counter*, kRefusalCount> refused_{};
};

}  // namespace falaj::net
