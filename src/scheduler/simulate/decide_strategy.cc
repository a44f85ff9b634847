#include "scheduler/simulate/decide_strategy.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/check.h"
#include "scheduler/decide.h"
#include "scheduler/simulate/tenant_use.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMilli = 1000;
constexpr Index kGpuFlavor = 2;
constexpr std::int64_t kLongQueue = 32;  // From here on cycles are as far apart as they may be.

std::int64_t quota_of(std::int64_t gpus) { return gpus < 0 ? kUnlimited : gpus * kMilli; }

// The parts of a snapshot that do not change during a replay.
Snapshot empty_snapshot(const FleetSpec& fleet) {
  Snapshot out;
  out.flavors = {{"cpu", 0}, {"memory", 0}, {"gpu", 1}};
  out.zones = {"here"};
  for (const NodeGroup& group : fleet.groups) {
    NodeClass kind;
    kind.name = group.model;
    kind.gpu_flavor = kGpuFlavor;
    kind.gpus = static_cast<std::uint32_t>(group.gpus);
    kind.watts_per_gpu = group.busy_watts;
    kind.price_per_gpu_hour = group.micros_per_gpu_hour;
    Node node;
    node.node_class = static_cast<Index>(out.classes.size());
    out.classes.push_back(kind);
    out.nodes.insert(out.nodes.end(), static_cast<std::size_t>(group.nodes), node);
  }
  return out;
}

class DecideStrategy final : public Strategy {
 public:
  DecideStrategy(const FleetSpec& fleet, DecideOptions options)
      : options_(std::move(options)),
        predictor_(options_.predictor),
        snapshot_(empty_snapshot(fleet)) {
    options_.policy.preemption.grace = Duration{};
  }

  std::string_view name() const override { return options_.name; }

  void on_pending(const World& world, JobIndex job) override {
    if (at_.empty()) prepare(world);
    put(world, job);
  }

  void on_end(const World& world, JobIndex job) override {
    remove(job, world.now());
    // What a live system sees is how long it held its GPUs; restarts are a small part of it.
    predictor_.observe(kind_of(world, job), world.job(job).held);
  }

  void schedule(World& world) override {
    if (world.pending_count() == 0) return;
    due_ = world.now() < next_cycle_;
    if (due_) return;
    // A short queue is decided upon sooner: nobody waits a minute for an idle fleet.
    const std::int64_t waiting = std::min(world.pending_count(), kLongQueue);
    next_cycle_ = world.now() + Duration{options_.cycle.nanos / kLongQueue * waiting};
    refresh(world);
    FALAJ_CHECK(snapshot_.epoch > 0 ||
                check(snapshot_).ok());  // What follows keeps it well formed.
    ++snapshot_.epoch;
    apply(world, decide(snapshot_, options_.policy, world.now(),
                        Budget{.explain = options_.explain, .digest = 0}));
  }

  // The next cycle is due, or somebody's guaranteed run ends while somebody waits.
  Timestamp wake(const World& world) const override {
    Timestamp next = Timestamp::max();
    if (world.pending_count() == 0) return next;
    if (due_) return next_cycle_;
    for (const JobIndex job : world.running()) {
      const Timestamp free_to_go = world.job(job).since + options_.policy.preemption.min_run;
      if (free_to_go > world.now()) next = std::min(next, free_to_go);
    }
    return next;
  }

  Promises promises() const override { return promises_; }

 private:
  static constexpr Index kNowhere = 0xffff'ffff;

  // The first interval that a job was told.
  struct Told {
    Timestamp earliest{};
    Timestamp latest{};
    enum class State : std::uint8_t { kNothing, kNoEnd, kInterval, kSettled };
    State state = State::kNothing;
  };

  static JobKind kind_of(const World& world, JobIndex job) {
    const TraceJob& spec = world.spec(job);
    return {.tenant = spec.tenant, .name = spec.name, .gpus = spec.gpus};
  }

  void prepare(const World& world) {
    at_.assign(world.trace().jobs.size(), kNowhere);
    forecast_.resize(world.trace().jobs.size());
    forecast_at_.resize(world.trace().jobs.size());
    told_.resize(world.trace().jobs.size());
    Queue root;
    root.name = "fleet";
    snapshot_.queues = {root};
    if (!by_tenant()) return;  // One for all: nothing tells tenants apart.
    for (const std::string& tenant : world.trace().tenants) {
      snapshot_.queues.push_back(queue_of(tenant, world.cluster().total()));
    }
    use_ = TenantUse(world.trace().tenants.size(), options_.half_life);
  }

  bool by_share() const { return options_.policy.order.share != 0; }
  bool by_tenant() const { return !options_.queues.empty() || by_share(); }

  Queue queue_of(const std::string& tenant, std::int64_t all_gpus) const {
    Queue queue;
    queue.name = tenant;
    queue.parent = 0;
    if (options_.queues.empty()) return queue;
    Quota quota{.flavor = kGpuFlavor, .nominal = 0, .borrow = all_gpus * kMilli};
    for (const TenantQueue& given : options_.queues) {
      if (given.tenant != tenant) continue;
      queue.weight = given.weight;
      quota.nominal = quota_of(given.nominal_gpus);
      quota.borrow = quota_of(given.borrow_gpus);
      quota.lend = quota_of(given.lend_gpus);
    }
    queue.quotas = {quota};
    return queue;
  }

  Index shape_of(const Cluster& cluster, std::int32_t gpus) {
    const auto known = shapes_.find(gpus);
    if (known != shapes_.end()) return known->second;
    TaskGroup group;
    const bool one = gpus <= cluster.node_size_max();
    const std::int32_t pods = one ? 1 : cluster.nodes_for(gpus);
    group.min = group.max = static_cast<std::uint32_t>(pods);
    group.gpu.count = static_cast<std::uint32_t>(one ? gpus : cluster.node_size_max());
    group.gpu.models = {kGpuFlavor};
    Shape shape;
    shape.groups = {group};
    snapshot_.shapes.push_back(shape);
    return shapes_[gpus] = static_cast<Index>(snapshot_.shapes.size() - 1);
  }

  // A job that waits: its row in the snapshot is made, or goes back to waiting.
  void put(const World& world, JobIndex job) {
    if (at_[job] == kNowhere) {
      at_[job] = static_cast<Index>(snapshot_.jobs.size());
      Job row;
      row.id = job + 1;
      row.queue = by_tenant() ? 1 + world.spec(job).tenant : 0;
      row.shape = shape_of(world.cluster(), world.spec(job).gpus);
      row.submitted = world.spec(job).submit;
      row.restart_cost = world.interruption().restart_cost;
      snapshot_.jobs.push_back(std::move(row));
    }
    Job& row = snapshot_.jobs[at_[job]];
    hold(row, -1, world.now());
    row.state = scheduler::JobState::kPending;
    row.placement = {};
    foresee(world, job);
    describe(world, job, row);
  }

  // It gets its GPUs (1) or gives back what it has (-1).
  void hold(const Job& row, std::int64_t sign, Timestamp now) {
    if (!by_tenant() || row.placement.pods.empty()) return;
    std::int64_t gpus = 0;
    for (const PodPlacement& pod : row.placement.pods) gpus += std::popcount(pod.gpus);
    use_.hold(row.queue - 1, sign * gpus * kMilli, now);
  }

  void remove(JobIndex job, Timestamp now) {
    const Index place = at_[job];
    hold(snapshot_.jobs[place], -1, now);
    at_[job] = kNowhere;
    if (place + 1 != snapshot_.jobs.size()) {
      snapshot_.jobs[place] = std::move(snapshot_.jobs.back());
      at_[snapshot_.jobs[place].id - 1] = place;
    }
    snapshot_.jobs.pop_back();
  }

  void foresee(const World& world, JobIndex job) {
    forecast_at_[job] = world.held(job);
    forecast_[job] = predictor_.forecast(kind_of(world, job), forecast_at_[job]);
  }

  void describe(const World& world, JobIndex job, Job& row) const {
    const Duration since = world.held(job) - forecast_at_[job];
    row.remaining_p50 = std::max(Duration::seconds(1), forecast_[job].p50 - since);
    row.remaining_p90 = std::max(Duration::seconds(1), forecast_[job].p90 - since);
    row.attained = world.held(job).nanos / kSecond * world.spec(job).gpus;
  }

  // What time has changed since the last call.
  void refresh(const World& world) {
    for (const JobIndex job : world.running()) {
      if (world.held(job) >= forecast_[job].valid_until) foresee(world, job);
      describe(world, job, snapshot_.jobs[at_[job]]);
    }
    for (std::size_t node = 0; node < snapshot_.nodes.size(); ++node) {
      const bool up = world.cluster().is_up(static_cast<std::int32_t>(node));
      snapshot_.nodes[node].health = up ? NodeHealth::kUp : NodeHealth::kDown;
    }
    if (!by_share()) return;
    for (Index queue = 1; queue < snapshot_.queues.size(); ++queue) {
      snapshot_.queues[queue].decayed_use = {0, 0, use_.at(queue - 1, world.now())};
    }
  }

  static Slots slots_of(const Placement& placement) {
    Slots slots;
    for (const PodPlacement& pod : placement.pods) {
      slots.push_back({static_cast<std::int32_t>(pod.node), std::popcount(pod.gpus)});
    }
    return slots;
  }

  void run(World& world, Index place, const Placement& placement) {
    Job& row = snapshot_.jobs[place];
    world.start(static_cast<JobIndex>(row.id - 1), slots_of(placement));
    settle_promise(told_[row.id - 1], world.now());
    row.state = scheduler::JobState::kRunning;
    row.started = row.checkpoint = world.now();
    row.placement = placement;
    hold(row, 1, world.now());
  }

  void settle_promise(Told& told, Timestamp start) {
    if (told.state == Told::State::kNoEnd) ++promises_.open;
    if (told.state == Told::State::kInterval) {
      ++promises_.made;
      ++(start < told.earliest ? promises_.early
         : start > told.latest ? promises_.late
                               : promises_.within);
    }
    told.state = Told::State::kSettled;  // Later starts follow a preemption: another wait.
  }

  void remember_promises(const Decisions& decisions) {
    for (const Hold& hold : decisions.hold) {
      // Its place is being cleared, which takes no time here: that is a start, not a promise.
      if (hold.reason.code == ReasonCode::kVictimsLeaving) continue;
      Told& told = told_[snapshot_.jobs[hold.job].id - 1];
      if (told.state == Told::State::kInterval || told.state == Told::State::kSettled) continue;
      const bool open = hold.reason.latest == Timestamp::max();
      told = {hold.reason.earliest, hold.reason.latest,
              open ? Told::State::kNoEnd : Told::State::kInterval};
    }
  }

  // Notices take effect at once, so a claim's place is free as soon as it is made.
  void apply(World& world, const Decisions& decisions) {
    if (options_.explain == Explain::kFull) remember_promises(decisions);
    for (const Admit& admit : decisions.admit) run(world, admit.job, admit.placement);
    for (const Preempt& preempt : decisions.preempt) {
      const auto job = static_cast<JobIndex>(snapshot_.jobs[preempt.job].id - 1);
      world.preempt(job);
      put(world, job);
    }
    for (const Reserve& reserve : decisions.reserve) {
      if (reserve.kind == ReserveKind::kClaim) run(world, reserve.job, reserve.placement);
    }
  }

  DecideOptions options_;
  Predictor predictor_;
  Snapshot snapshot_;
  TenantUse use_{0, {}};
  std::map<std::int32_t, Index> shapes_;
  std::vector<Index> at_;  // A job's row in the snapshot.
  std::vector<Forecast> forecast_;
  std::vector<Duration> forecast_at_;  // The run time that it was made for.
  std::vector<Told> told_;
  Promises promises_;
  Timestamp next_cycle_ = Timestamp::min();
  bool due_ = false;  // Something happened since the last cycle, too soon for the next.
};

}  // namespace

Policy DecideOptions::default_policy() {
  Policy policy;
  policy.order.attained = 1000;
  policy.order.p50 = 500;
  policy.order.size = -750;
  policy.preemption.order = Scope::kCluster;
  policy.preemption.margin = 1000;
  policy.preemption.score_weight = 1000;
  policy.preemption.min_run = Duration::minutes(30);
  policy.reservations = 0;
  return policy;
}

std::unique_ptr<Strategy> decide_strategy(const FleetSpec& fleet, const DecideOptions& options) {
  return std::make_unique<DecideStrategy>(fleet, options);
}

}  // namespace falaj::scheduler::simulate
