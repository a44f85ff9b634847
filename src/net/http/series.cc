#include "net/http/series.h"

#include <string_view>

namespace falaj::net {
namespace {

using telemetry::MetricInfo;
using telemetry::MetricKind;

const MetricInfo kRequests{"falaj_http_requests_total",
                           "Requests answered, by declared route.",
                           MetricKind::kCounter,
                           {"route", "method", "status"}};
const MetricInfo kSeconds{"falaj_http_request_seconds",
                          "From a request's complete head to its reply, by declared route.",
                          MetricKind::kHistogram,
                          {"route"}};
const MetricInfo kConnections{
    "falaj_http_connections", "Open client connections.", MetricKind::kGauge, {}};
const MetricInfo kRefused{"falaj_http_refused_total",
                          "Connections and requests refused before a handler, by reason.",
                          MetricKind::kCounter,
                          {"reason"}};

constexpr std::array<std::string_view, kRefusalCount> kReasons{
    "connections", "descriptors", "host",      "origin",    "head_size", "body_size",
    "slow_sender", "slow_reader", "malformed", "pool_full", "handshake"};

int slot_key(Method method, int status) { return status * 8 + static_cast<int>(method); }

}  // namespace

RouteSeries::RouteSeries(telemetry::Metrics& metrics, std::string route)
    : metrics_(metrics), route_(std::move(route)), seconds_(metrics.histogram(kSeconds, {route_})) {
  metrics.declare(kRequests);
}

void RouteSeries::count(Method method, int status) {
  const int key = slot_key(method, status);
  for (Slot& slot : slots_) {
    if (slot.key.load(std::memory_order_relaxed) != key) continue;
    telemetry::Counter* counter = slot.counter.load(std::memory_order_acquire);
    if (counter == nullptr) break;
    counter->add();
    return;
  }
  look_up(method, status).add();
}

telemetry::Counter& RouteSeries::look_up(Method method, int status) {
  telemetry::Counter& counter = metrics_.counter(
      kRequests, {route_, std::string(method_name(method)), std::to_string(status)});
  const int key = slot_key(method, status);
  MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    const int taken = slot.key.load(std::memory_order_relaxed);
    if (taken == key) break;
    if (taken != 0) continue;
    slot.counter.store(&counter, std::memory_order_release);
    slot.key.store(key, std::memory_order_release);
    break;
  }
  return counter;
}

HttpSeries::HttpSeries(telemetry::Metrics& metrics, const Router& router)
    : connections_(metrics.gauge(kConnections)), unmatched_(metrics, "unmatched") {
  for (const auto& route : router.routes()) {
    routes_.emplace(route.get(), std::make_unique<RouteSeries>(metrics, route->path));
  }
  for (std::size_t i = 0; i < kRefusalCount; ++i) {
    refused_[i] = &metrics.counter(kRefused, {std::string(kReasons[i])});
  }
}

RouteSeries& HttpSeries::of(const Route* route) {
  const auto found = routes_.find(route);
  return found == routes_.end() ? unmatched_ : *found->second;
}

}  // namespace falaj::net
