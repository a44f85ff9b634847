// scheduler/predictor.h — how long a job will still run, learnt from the jobs that ended before it.
//
// Jobs of one kind (tenant, GPUs, name) resemble each other, and those that ended lately resemble
// the next most. The predictor keeps decayed histograms of run times on a logarithmic scale, for
// each kind at two speeds, for each tenant and for all, and falls back from the first to the last
// as far as a kind has little history. A forecast is conditional on the time a job has already run:
// one that outlived its prediction is judged by those that lived as long, never by the broken
// promise.
//
// Pure arithmetic in a fixed order: the same history gives the same forecasts. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "base/time.h"

namespace falaj::scheduler {

struct JobKind {
  std::uint32_t tenant = 0;
  std::uint32_t name = 0;  // 0: nobody recorded one.
  std::int32_t gpus = 1;
  auto operator<=>(const JobKind&) const = default;
};

struct Forecast {
  Duration p50{};  // Of the remaining run time.
  Duration p90{};
  // The expected time per job ended if GPUs are given to this one now and taken away at the best
  // moment (Gittins' index): who serves by it keeps the mean time in the system smallest when only
  // the distribution is known.
  Duration effort{};
  // Run time up to which the forecast stays as it is, as long as no other job ends.
  Duration valid_until{};
};

class Predictor {
 public:
  static constexpr int kBins = 112;  // Four to the octave from one second: 2^28 s are 8.5 years.
  struct Options {
    double fast_memory = 12;   // Jobs that the fast histogram of a kind looks back on.
    double slow_memory = 400;  // The slow one, and that of a tenant.
    double trust = 4;          // So many jobs weigh as much as everything more general together.
  };
  Predictor() : Predictor(Options{}) {}
  explicit Predictor(const Options& options) : options_(options) {}

  // A job of this kind has run so long and ended by itself.
  void observe(const JobKind& kind, Duration run_time);
  // For a job that has run for `elapsed`. Without any history: a wide guess. O(kBins).
  Forecast forecast(const JobKind& kind, Duration elapsed) const;
  // By jobs of this very kind alone, whatever others did: nothing before `ended_min` of them have
  // ended. What is charged by it cannot be moved by anybody else's jobs.
  std::optional<Forecast> own_forecast(const JobKind& kind, Duration elapsed,
                                       std::int64_t ended_min) const;

  static int bin_of(Duration run_time);
  static Duration bin_begin(int bin);

 private:
  using Weights = std::array<double, kBins>;
  struct Histogram {
    Weights weight{};
    double total = 0;
    void add(int bin, double memory);
  };
  struct Kind {
    Histogram fast;
    Histogram slow;
    std::int64_t ended = 0;
  };
  static Forecast told(const Weights& mix, Duration elapsed);
  Weights mixture(const JobKind& kind) const;
  void blend(Weights& mix, const Histogram& own) const;

  Options options_;
  std::map<JobKind, Kind> kinds_;
  std::map<std::uint32_t, Histogram> tenants_;
  Histogram all_;
};

}  // namespace falaj::scheduler
