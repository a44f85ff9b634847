#include "jobs/ledger.h"

#include <algorithm>
#include <cmath>

namespace falaj::jobs {
namespace {

constexpr std::int64_t kHour = Duration::hours(1).nanos;
constexpr std::size_t kNamesMost = 4096;                                  // Further names are one,
constexpr auto kOtherNames = static_cast<std::uint32_t>(kNamesMost + 1);  // … of no kind of job.
constexpr std::int64_t kObservedMin = 5;                                  // Fewer ends say nothing.

double kept(Duration elapsed, Duration half_life) {
  return std::exp2(-std::max(0.0, elapsed.as_seconds()) / half_life.as_seconds());
}

bool runs(const Candidate& job) {
  return job.stage == Stage::kRunning || job.stage == Stage::kStopping;
}

// What these seconds are in a budget's own unit.
double in_units(scheduler::AllowanceKind kind, double cpu_seconds, double gpu_seconds,
                const scheduler::simulate::Prices& prices) {
  switch (kind) {
    case scheduler::AllowanceKind::kGpuSeconds:
      return gpu_seconds * 1000;
    case scheduler::AllowanceKind::kMoney:
      return (cpu_seconds * static_cast<double>(prices.micros_per_cpu_hour) +
              gpu_seconds * static_cast<double>(prices.micros_per_gpu_hour)) /
             3600;
    case scheduler::AllowanceKind::kEnergy:
      return gpu_seconds * static_cast<double>(prices.watts_per_gpu);
  }
  return 0;
}

// In which queue a job is: a name that is not declared (any more) is the project's default.
class Declared {
 public:
  explicit Declared(const std::vector<QueueSpec>& queues) {
    for (const QueueSpec& spec : queues) names_.insert(queue_name(spec.project, spec.name));
  }
  std::string of(const Candidate& job) const {
    return resolved(queue_name(job.project, job.request.queue));
  }
  std::string resolved(std::string name) const {
    if (names_.contains(name)) return name;
    return queue_name(name.substr(0, name.find('/')), "");
  }

 private:
  std::set<std::string> names_;
};

// How large a job is, in thousandths of GPUs, or of whole processors without.
std::int64_t units_milli(const Request& request) {
  if (request.resources.gpus > 0) return gpu_milli(request);
  return std::max<std::int64_t>(1, (request.resources.cpu_milli + 999) / 1000) * 1000;
}

// Queues whose jobs are charged to a budget: their own, or that of one above.
std::set<std::string> with_budget(const std::vector<QueueSpec>& queues) {
  std::map<std::string, const QueueSpec*> declared;
  for (const QueueSpec& spec : queues) declared[queue_name(spec.project, spec.name)] = &spec;
  std::set<std::string> out;
  for (const auto& [name, own] : declared) {
    const QueueSpec* spec = own;
    for (std::size_t depth = 0; spec != nullptr && depth < scheduler::kMaxDepth; ++depth) {
      if (!spec->budgets.empty()) out.insert(name);
      if (spec->parent.empty()) break;
      const auto above = declared.find(queue_name(spec->project, spec->parent));
      spec = above == declared.end() ? nullptr : above->second;
    }
  }
  return out;
}

std::int64_t whole(double units) { return std::llround(std::min(units, 1e18)); }

}  // namespace

Ledger::Hour Ledger::taken(const Request& request, double seconds) {
  return {seconds * static_cast<double>(request.resources.cpu_milli) / 1000,
          seconds * static_cast<double>(gpu_milli(request)) / 1000,
          seconds * static_cast<double>(request.resources.memory_bytes)};
}

void Ledger::Hour::add(const Hour& more, double factor) {
  cpu_seconds += factor * more.cpu_seconds;
  gpu_seconds += factor * more.gpu_seconds;
  memory_seconds += factor * more.memory_seconds;
}

Ledger::Account& Ledger::account(const std::string& queue) {
  const auto [at, fresh] = accounts_.try_emplace(queue);
  if (fresh) at->second.tenant = static_cast<std::uint32_t>(accounts_.size());
  return at->second;
}

std::uint32_t Ledger::number_of(const std::string& name) {
  if (name.empty()) return 0;
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  if (names_.size() >= kNamesMost) return kOtherNames;
  const auto number = static_cast<std::uint32_t>(names_.size() + 1);
  names_.emplace(name, number);
  return number;
}

scheduler::JobKind Ledger::kind_of(const Candidate& job) {
  const std::int64_t milli = units_milli(job.request);
  // Parts of a GPU are kinds of their own, below zero.
  const std::int64_t size = milli % 1000 == 0 ? std::max<std::int64_t>(1, milli / 1000) : -milli;
  return {.tenant = account(queue_name(job.project, job.request.queue)).tenant,
          .name = number_of(job.request.name),
          .gpus = static_cast<std::int32_t>(std::clamp<std::int64_t>(size, -1000, 1 << 20))};
}

void Ledger::add(const Spell& spell) {
  if (spell.to <= spell.from) return;
  Account& own = account(queue_name(spell.project, spell.request.queue));
  const Timestamp begin = std::max(spell.from, spell.to - kLookBack);
  for (std::int64_t hour = begin.nanos / kHour; hour * kHour < spell.to.nanos; ++hour) {
    const Duration part{std::min((hour + 1) * kHour, spell.to.nanos) -
                        std::max(hour * kHour, begin.nanos)};
    own.hours[hour].add(taken(spell.request, part.as_seconds()));
  }
  own.hours.erase(own.hours.begin(), own.hours.lower_bound((spell.to - kLookBack).nanos / kHour));
  Hour used = taken(spell.request, (spell.to - spell.from).as_seconds());
  if (spell.to >= own.at) {
    used.add(own.use, kept(spell.to - own.at, half_life_));
    own.use = used;
    own.at = spell.to;
  } else {
    own.use.add(used, kept(own.at - spell.to, half_life_));
  }
  if (spell.ended != Spell::Ended::kByItself) return;
  Candidate job;
  job.project = spell.project;
  job.request = spell.request;
  predictor_.observe(kind_of(job), spell.to - spell.from);
  ++observed_;
}

void Ledger::charge(Candidate& job, const Request& given, Duration ran) {
  const Hour used = taken(given, std::max(0.0, ran.as_seconds()));
  job.cpu_seconds += used.cpu_seconds;
  job.gpu_seconds += used.gpu_seconds;
}

// Another half-life: the use is added up anew from the hours.
void Ledger::set_half_life(Duration half_life, Timestamp now) {
  if (half_life == half_life_) return;
  half_life_ = half_life;
  for (auto& [name, own] : accounts_) {
    own.use = {};
    own.at = now;
    for (const auto& [hour, part] : own.hours) {
      const Timestamp middle{hour * kHour + kHour / 2};
      own.use.add(part, kept(now - middle, half_life_));
    }
  }
}

void Ledger::count_use(Scene& scene, Timestamp now) const {
  const Declared queues(scene.queues);
  std::map<std::string, Hour, std::less<>> use;
  for (const auto& [name, own] : accounts_) {
    use[queues.resolved(name)].add(own.use, kept(now - own.at, half_life_));
  }
  for (const Candidate& job : scene.jobs) {
    if (!runs(job) || job.started_at >= now) continue;
    use[queues.of(job)].add(taken(job.request, (now - job.started_at).as_seconds()));
  }
  for (const auto& [name, amount] : use) {
    constexpr double kMebibyte = 1 << 20;
    scene.use[name].decayed = {whole(amount.cpu_seconds * 1000),
                               whole(amount.memory_seconds / kMebibyte),
                               whole(amount.gpu_seconds * 1000)};
  }
}

// A budget counts what its queue and all below it have spent since its window began.
void Ledger::count_budgets(Scene& scene, Timestamp now) const {
  std::map<std::string, const QueueSpec*, std::less<>> declared;
  for (const QueueSpec& spec : scene.queues) {
    declared[queue_name(spec.project, spec.name)] = &spec;
    scene.use[queue_name(spec.project, spec.name)].spent.assign(spec.budgets.size(), 0);
  }
  const Declared queues(scene.queues);
  // `seconds` gives what was used since some moment.
  const auto add_to = [&](const std::string& queue, const auto& seconds) {
    auto at = declared.find(queue);
    for (std::size_t depth = 0; at != declared.end() && depth < scheduler::kMaxDepth; ++depth) {
      const QueueSpec& spec = *at->second;
      for (std::size_t i = 0; i < spec.budgets.size(); ++i) {
        const QueueBudget& budget = spec.budgets[i];
        const Hour sum = seconds(window_of(budget.per, now).begin);
        scene.use[at->first].spent[i] += std::llround(
            in_units(budget.kind, sum.cpu_seconds, sum.gpu_seconds, scene.policy.prices));
      }
      if (spec.parent.empty()) break;
      at = declared.find(queue_name(spec.project, spec.parent));
    }
  };
  for (const auto& [name, own] : accounts_) {
    const auto& hours = own.hours;
    add_to(queues.resolved(name), [&](Timestamp begin) {
      Hour sum;
      for (auto it = hours.lower_bound(begin.nanos / kHour); it != hours.end(); ++it) {
        sum.cpu_seconds += it->second.cpu_seconds;
        sum.gpu_seconds += it->second.gpu_seconds;
      }
      return sum;
    });
  }
  for (const Candidate& job : scene.jobs) {
    if (!runs(job)) continue;
    add_to(queues.of(job), [&](Timestamp begin) {
      const double elapsed = std::max(0.0, (now - std::max(job.started_at, begin)).as_seconds());
      return taken(job.request, elapsed);
    });
  }
}

// Jobs that other people ran elsewhere do not make one cheaper, nor dearer.
void Ledger::charge_by_its_own(Candidate& job, const scheduler::JobKind& kind,
                               Duration elapsed) const {
  const auto own = kind.name == kOtherNames ? std::nullopt
                                            : predictor_.own_forecast(kind, elapsed, kObservedMin);
  job.p90 = own ? std::max(Duration::seconds(1), own->p90) : job.run_max;
  if (job.p90.nanos > 0) job.p50 = std::min(job.p50, job.p90);
}

void Ledger::forecast(Scene& scene, Timestamp now) {
  const Declared queues(scene.queues);
  const std::set<std::string> charged = with_budget(scene.queues);
  std::map<scheduler::JobKind, scheduler::Forecast> fresh;  // Of those that have not begun.
  for (Candidate& job : scene.jobs) {
    const Duration elapsed{runs(job) ? std::max<std::int64_t>(0, (now - job.started_at).nanos) : 0};
    const scheduler::JobKind kind = kind_of(job);
    if (elapsed.nanos > 0 && job.run_max.nanos > 0) {
      job.run_max.nanos = std::max<std::int64_t>(1, job.run_max.nanos - elapsed.nanos);
    }
    job.attained = elapsed.nanos / Duration::seconds(1).nanos * units_milli(job.request) / 1000;
    const Hour now_used = taken(job.request, elapsed.as_seconds());
    job.spent = std::llround(std::min(
        9e18, in_units(scheduler::AllowanceKind::kMoney, job.cpu_seconds + now_used.cpu_seconds,
                       job.gpu_seconds + now_used.gpu_seconds, scene.policy.prices)));
    if (observed_ >= kObservedMin) {
      scheduler::Forecast told;
      if (elapsed.nanos > 0) {
        told = predictor_.forecast(kind, elapsed);
      } else {
        const auto [at, first] = fresh.try_emplace(kind);
        if (first) at->second = predictor_.forecast(kind, {});
        told = at->second;
      }
      job.p50 = std::max(Duration::seconds(1), told.p50);
      job.p90 = std::max(job.p50, told.p90);
    }
    const bool capped = job.request.cost_cap != scheduler::kUnlimited;
    if (capped || charged.contains(queues.of(job))) {
      charge_by_its_own(job, kind, elapsed);
    }
  }
}

void Ledger::inform(Scene& scene, Timestamp now) {
  set_half_life(scene.policy.half_life, now);
  if (scene.policy.policy.order.share != 0) count_use(scene, now);
  const bool budgets = std::any_of(scene.queues.begin(), scene.queues.end(),
                                   [](const QueueSpec& spec) { return !spec.budgets.empty(); });
  if (budgets) count_budgets(scene, now);
  forecast(scene, now);
}

}  // namespace falaj::jobs
