#include "scheduler/simulate/generate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "scheduler/simulate/random.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr double kDay = 86'400;
constexpr double kJobsPerExperiment = 9;
constexpr double kLongestSeconds = 55 * kDay;

// Sizes with their share of the jobs and what their run times are like: the median over experiments
// and the spread between them, in natural logarithms of seconds.
struct SizeClass {
  std::int32_t gpus;
  double share;
  double median_seconds;
  double spread;
};
constexpr std::array<SizeClass, 7> kSizes{{{1, 0.9545, 1'250, 1.35},
                                           {2, 0.0165, 9'000, 1.7},
                                           {4, 0.0140, 15'000, 1.75},
                                           {8, 0.0134, 45'000, 1.6},
                                           {16, 0.0011, 40'000, 1.5},
                                           {32, 0.0004, 20'000, 1.3},
                                           {64, 0.0001, 15'000, 1.2}}};
constexpr double kSpreadWithin = 0.75;  // Among the jobs of one experiment.

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
  std::int32_t gpus = 1;
  double median_seconds = 0;
};

class Generator {
 public:
  explicit Generator(const GenerateOptions& options) : options_(options), random_(options.seed) {
    double sum = 0;
    for (std::int32_t tenant = 0; tenant < options.tenants; ++tenant) {
      sum += 1 / std::pow(tenant + 1.0, 1.5);  // The first of a dozen submits half of all.
      tenants_.push_back(sum);
    }
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
    double share = random_.uniform();
    const SizeClass* size = kSizes.begin();
    while (size + 1 != kSizes.end() && share >= size->share) share -= (size++)->share;
    out.gpus = size->gpus;
    out.median_seconds = size->median_seconds * std::exp(size->spread * random_.normal());
    const double many = 1 + std::floor(random_.exponential(kJobsPerExperiment - 1));
    out.jobs = std::min(room, static_cast<std::int64_t>(many));
    return out;
  }

  void add(Trace& trace, const Experiment& experiment) {
    Timestamp at = experiment.begin;
    const Timestamp end = options_.begin + options_.span;
    for (std::int64_t i = 0; i < experiment.jobs; ++i) {
      TraceJob job;
      job.submit = std::min(at, end - Duration::seconds(1));
      const double seconds = experiment.median_seconds * options_.load_scale *
                             std::exp(kSpreadWithin * random_.normal());
      job.duration = Duration::seconds(std::llround(std::clamp(seconds, 1.0, kLongestSeconds)));
      job.gpus = experiment.gpus;
      job.tenant = experiment.tenant;
      trace.jobs.push_back(job);
      at = at + Duration::seconds(static_cast<std::int64_t>(random_.exponential(120)));
    }
  }

  const GenerateOptions& options_;
  Random random_;
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
