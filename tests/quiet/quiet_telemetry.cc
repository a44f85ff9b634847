// The seams of telemetry/metrics.h and serving/prediction_sink.h without anything behind them: no
// count moves and no prediction is kept. Never part of the program that people run.
#include "serving/prediction_sink.h"
#include "telemetry/histogram.h"

namespace falaj::telemetry {
namespace {

class NoCounter final : public Counter {
  void add(std::uint64_t) override {}
  std::uint64_t value() const override { return 0; }
};

class NoGauge final : public Gauge {
  void set(double) override {}
  void add(double) override {}
  double value() const override { return 0; }
};

class NoHistogram final : public Histogram {
  void observe_nanos(std::int64_t) override {}
  HistogramSnapshot snapshot() const override { return {}; }
};

}  // namespace

double HistogramSnapshot::quantile_seconds(double) const { return 0; }
std::unique_ptr<Histogram> make_histogram() { return std::make_unique<NoHistogram>(); }
std::int64_t bucket_last_nanos(std::size_t) { return 0; }

struct Metrics::Impl {
  NoCounter counter;
  NoGauge gauge;
  NoHistogram histogram;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;
void Metrics::declare(const MetricInfo&) {}
Counter& Metrics::counter(const MetricInfo&, const std::vector<std::string>&) {
  return impl_->counter;
}
Gauge& Metrics::gauge(const MetricInfo&, const std::vector<std::string>&) { return impl_->gauge; }
Histogram& Metrics::histogram(const MetricInfo&, const std::vector<std::string>&) {
  return impl_->histogram;
}
std::vector<MetricInfo> Metrics::declared() const { return {}; }
std::string Metrics::exposition(const Keep&) const { return {}; }

}  // namespace falaj::telemetry

namespace falaj::serving {

struct PredictionSink::Impl {};

PredictionSink::PredictionSink(std::size_t) {}
PredictionSink::~PredictionSink() = default;
bool PredictionSink::offer(const Prediction&) { return true; }
std::size_t PredictionSink::drain(const std::function<void(const Prediction&)>&) { return 0; }
std::uint64_t PredictionSink::accepted() const { return 0; }
std::uint64_t PredictionSink::dropped() const { return 0; }

}  // namespace falaj::serving
