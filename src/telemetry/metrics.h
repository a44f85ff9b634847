// telemetry/metrics.h — counters, gauges and histograms that cost nanoseconds to touch.
//
// A metric family is declared once (name, help, labels); the declaration is also the reference
// page. Touching a series never locks: each is a set of per-thread shards that a scrape adds up.
// Looking a series up by its label values takes a lock: do it once and keep the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace falaj::telemetry {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(std::uint64_t n = 1) = 0;
  virtual std::uint64_t value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual void add(double delta) = 0;
  virtual double value() const = 0;
};

struct HistogramSnapshot {
  std::uint64_t count = 0;
  double sum_seconds = 0;
  // The value below which share `q` of the observations lie, within 3 %; 0 when empty.
  double quantile_seconds(double q) const;
  std::vector<std::uint64_t> buckets;  // Log-linear over nanoseconds; see metrics.cc.
};

// Durations from 1 ns to over an hour in log-linear buckets with at most 3 % relative error.
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe_nanos(std::int64_t nanos) = 0;
  virtual HistogramSnapshot snapshot() const = 0;
};

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };

struct MetricInfo {
  std::string name;  // falaj_<module>_<what>[_total|_seconds|_bytes]
  std::string help;
  MetricKind kind;
  std::vector<std::string> labels;
};

// Owns every series. Thread-safe. References stay valid as long as the registry.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Declaring the same family again returns the same series; a different declaration under a
  // name already taken stops the process. `values` match `info.labels` in number and order.
  //
  // declare() makes a family known (to the reference and to declared()) before it has a series.
  void declare(const MetricInfo& info);
  Counter& counter(const MetricInfo& info, const std::vector<std::string>& values = {});
  Gauge& gauge(const MetricInfo& info, const std::vector<std::string>& values = {});
  Histogram& histogram(const MetricInfo& info, const std::vector<std::string>& values = {});

  // Every family declared so far, by name.
  std::vector<MetricInfo> declared() const;
  // Prometheus text format 0.0.4. Series with a label "project" only where `keep` says so of its
  // value, those of the whole server only where it says so of ""; an empty `keep` keeps all.
  // Families of which nothing is kept are left out.
  using Keep = std::function<bool(const std::string& project)>;
  std::string exposition(const Keep& keep = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::telemetry
