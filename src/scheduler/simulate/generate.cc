#include "scheduler/simulate/generate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "scheduler/simulate/random.h"

namespace falaj::scheduler::simulate {
namespace {

// The run times of a size, in seconds, below which these parts of its jobs stay; between them
// logarithms go straight.
constexpr std::array<double, 14> kParts{0,    0.1,  0.25, 0.5,   0.75,  0.9,   0.95,
                                        0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1};
struct SizeClass {
  std::int32_t gpus;
  double share;                // Of the jobs.
  double jobs_per_experiment;  // On average.
  std::array<double, kParts.size()> seconds;
};
constexpr std::array<SizeClass, 6> kSizes{{
    {1,
     0.9551,
     9,
     {20, 65, 270, 1800, 3300, 8200, 13'700, 26e3, 59e3, 95e3, 150e3, 480e3, 1e6, 2.4e6}},
    {2,
     0.0165,
     3,
     {5, 11, 14, 19, 47e3, 220e3, 360e3, 490e3, 660e3, 1e6, 1.4e6, 1.5e6, 2.4e6, 2.6e6}},
    {4,
     0.0137,
     3,
     {20, 150, 2800, 33e3, 110e3, 230e3, 440e3, 750e3, 980e3, 1.3e6, 2.3e6, 2.6e6, 2.7e6, 2.8e6}},
    {8,
     0.0132,
     3,
     {20, 560, 5600, 98e3, 230e3, 510e3, 750e3, 1e6, 1.7e6, 2.1e6, 2.6e6, 2.7e6, 4.4e6, 4.6e6}},
    {16,
     0.0011,
     3,
     {30, 110, 200, 32e3, 350e3, 510e3, 6e5, 6.5e5, 6.5e5, 6.5e5, 6.5e5, 6.5e5, 6.5e5, 6.5e5}},
    {32, 0.0004, 3, {46e3, 47e3, 48e3, 53e3, 57e3, 64e3, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5}},
}};
// How alike the jobs of one experiment are: the correlation of their places among all of their
// size.
constexpr double kAlike = 0.87;

// The run time below which this part of the jobs of a size stays.
double seconds_at(const SizeClass& size, double part) {
  std::size_t i = 1;
  while (i + 1 < kParts.size() && part > kParts[i]) ++i;
  const double along = (part - kParts[i - 1]) / (kParts[i] - kParts[i - 1]);
  const double low = std::log(size.seconds[i - 1]);
  return std::exp(low + along * (std::log(size.seconds[i]) - low));
}

// The part of all that a normal draw stays above, and back.
double part_below(double normal) { return 0.5 * std::erfc(-normal * 0.7071067811865476); }
double normal_at(double part) {
  double low = -8;
  double high = 8;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (part_below(middle) < part ? low : high) = middle;
  }
  return low;
}

// How busy an hour is: two in the afternoon four times three at night; weekends half.
double activity(Timestamp at) {
  const std::int64_t seconds = at.nanos / 1'000'000'000;
  const double hour = static_cast<double>(seconds % 86'400) / 3600;
  const std::int64_t weekday = (seconds / 86'400 + 3) % 7;  // 0 is Monday.
  const double daily = 1 + 0.6 * std::cos((hour - 14) * 0.2617993877991494);
  return daily / 1.6 * (weekday >= 5 ? 0.5 : 1.0);
}

struct Experiment {
  Timestamp begin{};
  std::int64_t jobs = 1;
  std::uint32_t tenant = 0;
  const SizeClass* size = nullptr;
  double length = 0;  // Among all of its size, as a normal draw.
};

class Generator {
 public:
  explicit Generator(const GenerateOptions& options) : options_(options), random_(options.seed) {
    double sum = 0;
    for (std::int32_t tenant = 0; tenant < options.tenants; ++tenant) {
      sum += 1 / std::pow(tenant + 1.0, 2);  // The first of a dozen submits two thirds.
      tenants_.push_back(sum);
    }
    for (Drawn& drawn : drawn_) drawn.length = random_.uniform();
  }

  Trace run() {
    Trace trace;
    for (std::int32_t i = 0; i < options_.tenants; ++i) {
      trace.tenants.push_back("team-" + std::to_string(i + 1));
    }
    while (static_cast<std::int64_t>(trace.jobs.size()) < options_.jobs) {
      const std::int64_t room = options_.jobs - static_cast<std::int64_t>(trace.jobs.size());
      add(trace, experiment(room));
    }
    std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                     [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
    return trace;
  }

 private:
  Timestamp moment() {
    while (true) {  // Drawn evenly, kept as often as the hour is busy.
      const auto nanos =
          static_cast<std::int64_t>(random_.uniform() * static_cast<double>(options_.span.nanos));
      const Timestamp at = options_.begin + Duration{nanos / 1'000'000'000 * 1'000'000'000};
      if (random_.uniform() < activity(at)) return at;
    }
  }

  Experiment experiment(std::int64_t room) {
    Experiment out;
    out.begin = moment();
    const double draw = random_.uniform() * tenants_.back();
    out.tenant = static_cast<std::uint32_t>(
        std::upper_bound(tenants_.begin(), tenants_.end(), draw) - tenants_.begin());
    out.tenant = std::min(out.tenant, static_cast<std::uint32_t>(options_.tenants - 1));
    // The size that is most behind its share, and lengths that fill the range evenly: gangs are
    // few, and left to chance alone their part of the GPU time would differ from seed to seed by
    // half.
    const auto behind = [&](std::size_t i) {
      return kSizes[i].share * static_cast<double>(made_ + 1) - static_cast<double>(drawn_[i].jobs);
    };
    std::size_t most = 0;
    for (std::size_t i = 1; i < kSizes.size(); ++i) most = behind(i) > behind(most) ? i : most;
    Drawn& drawn = drawn_[most];
    drawn.length += 0.6180339887498949;  // The golden ratio.
    drawn.length -= std::floor(drawn.length);
    out.size = &kSizes[most];
    out.length = normal_at(drawn.length);
    const double mean = out.size->jobs_per_experiment;
    const double many = 1 + std::floor(random_.exponential(mean - 0.5));
    out.jobs = std::min(room, static_cast<std::int64_t>(many));
    drawn.jobs += out.jobs;
    made_ += out.jobs;
    return out;
  }

  void add(Trace& trace, const Experiment& experiment) {
    Timestamp at = experiment.begin;
    const Timestamp end = options_.begin + options_.span;
    for (std::int64_t i = 0; i < experiment.jobs; ++i) {
      TraceJob job;
      job.submit = std::min(at, end - Duration::seconds(1));
      const double place =
          kAlike * experiment.length + std::sqrt(1 - kAlike * kAlike) * random_.normal();
      const double seconds = seconds_at(*experiment.size, part_below(place)) * options_.load_scale;
      job.duration = Duration::seconds(std::llround(std::max(seconds, 1.0)));
      job.gpus = experiment.size->gpus;
      job.tenant = experiment.tenant;
      trace.jobs.push_back(job);
      at = at + Duration::seconds(static_cast<std::int64_t>(random_.exponential(120)));
    }
  }

  // Of one size, so far.
  struct Drawn {
    std::int64_t jobs = 0;
    double length = 0;
  };

  const GenerateOptions& options_;
  Random random_;
  std::array<Drawn, kSizes.size()> drawn_{};
  std::int64_t made_ = 0;
  std::vector<double> tenants_;  // Cumulated shares.
};

}  // namespace

Result<Trace> generate_trace(const GenerateOptions& options) {
  const auto refuse = [](const std::string& what) {
    return Error{ErrorId::kOutOfRange, "cannot make a trace: " + what};
  };
  if (options.jobs < 1 || options.jobs > 5'000'000) return refuse("jobs are not 1 to 5000000");
  if (options.tenants < 1 || options.tenants > 10'000) return refuse("tenants are not 1 to 10000");
  if (options.span < Duration::hours(1) || options.span > Duration::days(3650)) {
    return refuse("the span is not 1h to 10y");
  }
  if (!(options.load_scale >= 0.01 && options.load_scale <= 100)) {
    return refuse("the load is not 0.01 to 100");
  }
  return Generator(options).run();
}

}  // namespace falaj::scheduler::simulate
