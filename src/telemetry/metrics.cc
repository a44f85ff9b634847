#include "telemetry/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/mutex.h"
#include "telemetry/histogram.h"

namespace falaj::telemetry {
namespace {

// Threads are dealt over the shards in turn. Sixteen are enough for the threads that touch metrics
// at once; two threads on one shard stay correct, only slower.
constexpr std::size_t kShards = 16;

std::size_t my_shard() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return mine;
}

// Log-linear buckets: below 32 ns one each; above, each power of two is cut into 32 equal steps, so
// a bucket is at most 1/32 of its value wide, and its middle at most 1.6 % off.
constexpr int kStepBits = 5;
constexpr std::uint64_t kSteps = 1u << kStepBits;
constexpr int kTopBit = 42;  // 2^43 ns are 2.4 hours; longer ones fall into the last bucket.
constexpr std::size_t kBuckets = (kTopBit - kStepBits + 2) * kSteps;

constexpr std::size_t bucket_of(std::uint64_t nanos) {
  if (nanos < kSteps) return static_cast<std::size_t>(nanos);
  const int top = static_cast<int>(std::bit_width(nanos)) - 1;
  if (top > kTopBit) return kBuckets - 1;
  const int shift = top - kStepBits;
  return (static_cast<std::size_t>(shift) + 1) * kSteps +
         static_cast<std::size_t>((nanos >> shift) - kSteps);
}

// The first value of a bucket; that of the next bucket ends it.
constexpr std::uint64_t bucket_begin(std::size_t bucket) {
  if (bucket < kSteps) return bucket;
  const std::size_t shift = bucket / kSteps - 1;
  return (kSteps + bucket % kSteps) << shift;
}
static_assert(bucket_of(31) == 31 && bucket_of(32) == 32 && bucket_begin(33) == 33);
static_assert(bucket_of(64) == 64 && bucket_begin(64) == 64 && bucket_begin(65) == 66);

// The boundaries that a scrape sees, in nanoseconds: 1, 2.5 and 5 of each power of ten from 10 µs
// to 100 s, enough for latency panels without a thousand series for each histogram.
constexpr std::array<std::uint64_t, 22> kBoundaries = {
    10'000,         25'000,         50'000,         100'000,        250'000,       500'000,
    1'000'000,      2'500'000,      5'000'000,      10'000'000,     25'000'000,    50'000'000,
    100'000'000,    250'000'000,    500'000'000,    1'000'000'000,  2'500'000'000, 5'000'000'000,
    10'000'000'000, 25'000'000'000, 50'000'000'000, 100'000'000'000};

struct alignas(64) PaddedCount {
  std::atomic<std::uint64_t> count{0};
};

class ShardedCounter final : public Counter {
 public:
  void add(std::uint64_t n) override {
    shards_[my_shard()].count.fetch_add(n, std::memory_order_relaxed);
  }
  std::uint64_t value() const override {
    std::uint64_t sum = 0;
    for (const PaddedCount& shard : shards_) sum += shard.count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  std::array<PaddedCount, kShards> shards_;
};

class AtomicGauge final : public Gauge {
 public:
  void set(double value) override { value_.store(value, std::memory_order_relaxed); }
  void add(double delta) override { value_.fetch_add(delta, std::memory_order_relaxed); }
  double value() const override { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// One thread's share of a histogram, made when the thread first observes: an idle shard costs a
// pointer.
struct HistogramShard {
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets{};
  std::array<std::atomic<std::uint64_t>, kBoundaries.size() + 1> coarse{};
  std::atomic<std::uint64_t> sum_nanos{0};
};

std::size_t coarse_of(std::uint64_t nanos) {
  // A boundary belongs to the bucket that it ends ("le").
  const auto* at = std::lower_bound(kBoundaries.begin(), kBoundaries.end(), nanos);
  return static_cast<std::size_t>(at - kBoundaries.begin());
}

class ShardedHistogram final : public Histogram {
 public:
  ~ShardedHistogram() override {
    for (const auto& shard : shards_) delete shard.load(std::memory_order_acquire);
  }

  void observe_nanos(std::int64_t nanos) override {
    const auto value = nanos < 0 ? 0 : static_cast<std::uint64_t>(nanos);
    HistogramShard& shard = mine();
    shard.buckets[bucket_of(value)].fetch_add(1, std::memory_order_relaxed);
    shard.coarse[coarse_of(value)].fetch_add(1, std::memory_order_relaxed);
    shard.sum_nanos.fetch_add(value, std::memory_order_relaxed);
  }

  HistogramSnapshot snapshot() const override {
    HistogramSnapshot out;
    out.buckets.resize(kBuckets);
    std::uint64_t sum_nanos = 0;
    for (const auto& slot : shards_) {
      const HistogramShard* shard = slot.load(std::memory_order_acquire);
      if (shard == nullptr) continue;
      for (std::size_t i = 0; i < kBuckets; ++i) {
        out.buckets[i] += shard->buckets[i].load(std::memory_order_relaxed);
      }
      sum_nanos += shard->sum_nanos.load(std::memory_order_relaxed);
    }
    for (const std::uint64_t n : out.buckets) out.count += n;
    out.sum_seconds = static_cast<double>(sum_nanos) * 1e-9;
    return out;
  }

  // Counts per boundary (not cumulative); the last one is beyond all of them.
  std::array<std::uint64_t, kBoundaries.size() + 1> coarse() const {
    std::array<std::uint64_t, kBoundaries.size() + 1> out{};
    for (const auto& slot : shards_) {
      const HistogramShard* shard = slot.load(std::memory_order_acquire);
      if (shard == nullptr) continue;
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] += shard->coarse[i].load(std::memory_order_relaxed);
      }
    }
    return out;
  }

  double sum_seconds() const {
    std::uint64_t sum_nanos = 0;
    for (const auto& slot : shards_) {
      const HistogramShard* shard = slot.load(std::memory_order_acquire);
      if (shard != nullptr) sum_nanos += shard->sum_nanos.load(std::memory_order_relaxed);
    }
    return static_cast<double>(sum_nanos) * 1e-9;
  }

 private:
  HistogramShard& mine() {
    std::atomic<HistogramShard*>& slot = shards_[my_shard()];
    HistogramShard* shard = slot.load(std::memory_order_acquire);
    if (shard != nullptr) return *shard;
    auto fresh = std::make_unique<HistogramShard>();
    if (slot.compare_exchange_strong(shard, fresh.get(), std::memory_order_acq_rel)) {
      return *fresh.release();
    }
    return *shard;  // Another thread of this shard was first.
  }

  std::array<std::atomic<HistogramShard*>, kShards> shards_{};
};

bool is_metric_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [letter](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Help texts escape backslash and newline; label values the quote as well.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

const char* type_text(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

struct Series {
  std::unique_ptr<ShardedCounter> counter;
  std::unique_ptr<AtomicGauge> gauge;
  std::unique_ptr<ShardedHistogram> histogram;
};

struct Family {
  MetricInfo info;
  std::map<std::vector<std::string>, Series> series;
};

bool same_declaration(const MetricInfo& a, const MetricInfo& b) {
  return a.kind == b.kind && a.labels == b.labels && a.help == b.help;
}

// `le` is empty but for buckets.
std::string label_text(const Family& family, const std::vector<std::string>& values,
                       std::string_view le) {
  std::string out;
  const auto put = [&out](std::string_view name, std::string_view value) {
    out += out.empty() ? '{' : ',';
    out.append(name);
    out += "=\"" + escaped(value, "\\\n\"") + '"';
  };
  for (std::size_t i = 0; i < values.size(); ++i) put(family.info.labels[i], values[i]);
  if (!le.empty()) put("le", le);
  if (!out.empty()) out += '}';
  return out;
}

void append_line(std::string& out, const std::string& name, const std::string& labels,
                 const std::string& value) {
  out += name + labels + ' ' + value + '\n';
}

void append_histogram(std::string& out, const Family& family,
                      const std::vector<std::string>& values, const ShardedHistogram& histogram) {
  const auto counts = histogram.coarse();
  std::uint64_t running = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    running += counts[i];
    const std::string le = i < kBoundaries.size()
                               ? number_text(static_cast<double>(kBoundaries[i]) / 1e9)
                               : std::string("+Inf");
    append_line(out, family.info.name + "_bucket", label_text(family, values, le),
                std::to_string(running));
  }
  const std::string labels = label_text(family, values, "");
  append_line(out, family.info.name + "_sum", labels, number_text(histogram.sum_seconds()));
  // The same reads as the buckets: _count always equals the last of them.
  append_line(out, family.info.name + "_count", labels, std::to_string(running));
}

// The value of the label "project"; nullptr for families without it.
const std::string* project_of(const Family& family, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (family.info.labels[i] == "project") return &values[i];
  }
  return nullptr;
}

void append_series(std::string& out, const Family& family, const std::vector<std::string>& values,
                   const Series& series) {
  if (series.histogram) return append_histogram(out, family, values, *series.histogram);
  append_line(out, family.info.name, label_text(family, values, ""),
              series.counter ? std::to_string(series.counter->value())
                             : number_text(series.gauge->value()));
}

void append_family(std::string& out, const Family& family, const Metrics::Keep& keep) {
  static const std::string kWholeServer;
  const std::string& name = family.info.name;
  std::string lines;
  for (const auto& [values, series] : family.series) {
    const std::string* project = project_of(family, values);
    if (keep && !keep(project == nullptr ? kWholeServer : *project)) continue;
    append_series(lines, family, values, series);
  }
  if (keep && lines.empty()) return;
  out += "# HELP " + name + ' ' + escaped(family.info.help, "\\\n") + '\n';
  out += "# TYPE " + name + ' ' + type_text(family.info.kind) + '\n';
  out += lines;
}

}  // namespace

std::unique_ptr<Histogram> make_histogram() { return std::make_unique<ShardedHistogram>(); }

std::int64_t bucket_last_nanos(std::size_t bucket) {
  return static_cast<std::int64_t>(std::max(bucket_begin(bucket), bucket_begin(bucket + 1) - 1));
}

double HistogramSnapshot::quantile_seconds(double q) const {
  if (count == 0) return 0;
  const double share = std::clamp(q, 0.0, 1.0);
  // The rank of the wanted observation, counted from one.
  const auto rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    seen += buckets[i];
    if (seen < rank) continue;
    const auto last = static_cast<double>(bucket_last_nanos(i));
    return (static_cast<double>(bucket_begin(i)) + last) / 2 * 1e-9;
  }
  return 0;
}

struct Metrics::Impl {
  mutable Mutex mutex;
  std::map<std::string, Family, std::less<>> families FALAJ_GUARDED_BY(mutex);

  Family& family_of(const MetricInfo& info) FALAJ_REQUIRES(mutex) {
    Family& family = families[info.name];
    if (family.info.name.empty()) {
      FALAJ_CHECK(is_metric_name(info.name));
      FALAJ_CHECK(std::all_of(info.labels.begin(), info.labels.end(), is_metric_name));
      FALAJ_CHECK(std::find(info.labels.begin(), info.labels.end(), "le") == info.labels.end());
      family.info = info;
    }
    FALAJ_CHECK(same_declaration(family.info, info));
    return family;
  }

  Series& series(const MetricInfo& info, MetricKind kind, const std::vector<std::string>& values)
      FALAJ_REQUIRES(mutex) {
    FALAJ_CHECK(info.kind == kind);
    FALAJ_CHECK(values.size() == info.labels.size());
    return family_of(info).series[values];
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::declare(const MetricInfo& info) {
  MutexLock lock(impl_->mutex);
  impl_->family_of(info);
}

Counter& Metrics::counter(const MetricInfo& info, const std::vector<std::string>& values) {
  MutexLock lock(impl_->mutex);
  Series& series = impl_->series(info, MetricKind::kCounter, values);
  if (!series.counter) series.counter = std::make_unique<ShardedCounter>();
  return *series.counter;
}

Gauge& Metrics::gauge(const MetricInfo& info, const std::vector<std::string>& values) {
  MutexLock lock(impl_->mutex);
  Series& series = impl_->series(info, MetricKind::kGauge, values);
  if (!series.gauge) series.gauge = std::make_unique<AtomicGauge>();
  return *series.gauge;
}

Histogram& Metrics::histogram(const MetricInfo& info, const std::vector<std::string>& values) {
  MutexLock lock(impl_->mutex);
  Series& series = impl_->series(info, MetricKind::kHistogram, values);
  if (!series.histogram) series.histogram = std::make_unique<ShardedHistogram>();
  return *series.histogram;
}

std::vector<MetricInfo> Metrics::declared() const {
  MutexLock lock(impl_->mutex);
  std::vector<MetricInfo> out;
  for (const auto& [name, family] : impl_->families) out.push_back(family.info);
  return out;
}

std::string Metrics::exposition(const Keep& keep) const {
  MutexLock lock(impl_->mutex);
  std::string out;
  for (const auto& [name, family] : impl_->families) append_family(out, family, keep);
  return out;
}

}  // namespace falaj::telemetry
