#include "jobs/admission.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/decode.h"
#include "base/units.h"
#include "scheduler/decide.h"
#include "scheduler/explain.h"
#include "scheduler/submit.h"

namespace falaj::jobs {
namespace {

using scheduler::Index;
using scheduler::kAbsent;

constexpr Index kGpu = 2;
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::string_view kDefaultQueue = "default";
constexpr std::int64_t kPlenty = std::int64_t{1} << 40;  // More than any machine has.

std::int64_t mebibytes(std::int64_t bytes) {
  return bytes == kNoLimit ? scheduler::kUnlimited : bytes / kMebibyte + (bytes % kMebibyte != 0);
}

std::vector<scheduler::Quota> quotas_of(const QueueSpec& spec) {
  const auto one = [](Index flavor, const ResourceQuota& quota, auto convert) {
    return scheduler::Quota{flavor, convert(quota.nominal), convert(quota.borrow),
                            convert(quota.lend)};
  };
  const auto same = [](std::int64_t units) { return units; };
  QueueSpec counted = spec;
  const bool owns = spec.cpu.nominal > 0 || spec.gpu.nominal > 0;
  if (owns && spec.memory == ResourceQuota{}) counted.memory.nominal = kPlenty * kMebibyte;
  return {one(scheduler::kCpu, spec.cpu, same), one(scheduler::kMemory, counted.memory, mebibytes),
          one(kGpu, spec.gpu, same)};
}

// Turns a scene into the scheduler's numbers.
class Drawing {
 public:
  Drawing(const Scene& scene, Timestamp now) : scene_(scene), now_(now) {
    draw_machine(scene.machine);
    for (const QueueSpec& spec : scene.queues) {
      declared_[queue_name(spec.project, spec.name)] = &spec;
    }
    // All of them: what an idle one has may be borrowed, and what it spent counts above it.
    for (const QueueSpec& spec : scene.queues) (void)queue_index(spec.project, spec.name);
    for (const Candidate& job : scene.jobs) add_job(job);
    FALAJ_CHECK(scheduler::check(snapshot).ok());
  }

  bool has_queue(const std::string& project, const std::string& name) const {
    return name.empty() || name == kDefaultQueue || declared_.contains(queue_name(project, name));
  }

  scheduler::Snapshot snapshot;

 private:
  void draw_machine(const Machine& machine) {
    snapshot.flavors = {{"cpu", 1}, {"memory", 0}, {"gpu", 64}};
    snapshot.zones = {"here"};
    scheduler::NodeClass node;
    node.name = "this machine";
    node.cpu = machine.cpu_milli;
    node.memory = machine.memory_bytes / kMebibyte;
    node.gpus = std::min<unsigned>(machine.gpus, scheduler::kMaxDevices);
    node.price_per_core_hour = scene_.policy.prices.micros_per_cpu_hour;
    node.price_per_gpu_hour = scene_.policy.prices.micros_per_gpu_hour;
    node.watts_per_gpu = scene_.policy.prices.watts_per_gpu;
    node.gpu_flavor = node.gpus > 0 ? kGpu : kAbsent;
    snapshot.classes = {node};
    snapshot.nodes = {scheduler::Node{}};
    snapshot.arrays = {{machine.engines_max}};
    scheduler::Queue root;
    root.name = "machine";
    // More than there is: the machine itself is the limit, for which places are kept.
    for (const Index flavor : {scheduler::kCpu, scheduler::kMemory, kGpu}) {
      root.quotas.push_back({flavor, kPlenty, scheduler::kUnlimited, scheduler::kUnlimited});
    }
    snapshot.queues = {root};
  }

  // Parents first. A queue that was deleted under its jobs is the project's default.
  Index queue_index(const std::string& project, const std::string& name, std::size_t below = 2) {
    const std::string full =
        queue_name(project, declared_.contains(queue_name(project, name)) ? name : "");
    const auto known = queues_.find(full);
    if (known != queues_.end()) return known->second;
    scheduler::Queue queue;
    queue.name = full;
    queue.parent = 0;
    const auto spec = declared_.find(full);
    if (spec != declared_.end()) {
      queue.quotas = quotas_of(*spec->second);
      queue.weight = spec->second->weight_milli;
      queue.allowances = allowances_of(*spec->second, full);
      const std::string& parent = spec->second->parent;
      const bool deep = below >= scheduler::kMaxDepth;  // Lengthened from above, since it was made.
      if (!parent.empty() && !deep && declared_.contains(queue_name(project, parent))) {
        queue.parent = queue_index(project, parent, below + 1);
      }
    }
    const auto used = scene_.use.find(full);
    if (used != scene_.use.end()) queue.decayed_use = used->second.decayed;
    snapshot.queues.push_back(std::move(queue));
    const auto index = static_cast<Index>(snapshot.queues.size() - 1);
    queues_.emplace(full, index);
    return index;
  }

  std::vector<scheduler::Allowance> allowances_of(const QueueSpec& spec, const std::string& name) {
    std::vector<scheduler::Allowance> out;
    const auto used = scene_.use.find(name);
    for (std::size_t i = 0; i < spec.budgets.size(); ++i) {
      const QueueBudget& budget = spec.budgets[i];
      const bool known = used != scene_.use.end() && i < used->second.spent.size();
      out.push_back({budget.kind, budget.limit, known ? used->second.spent[i] : 0,
                     window_of(budget.per, now_).end});
    }
    return out;
  }

  Index shape_index(const Request& request) {
    const Workers one{request.resources};
    const Workers& workers = request.workers ? *request.workers : one;
    const Resources& resources = workers.each;
    const auto key = std::tuple(resources.cpu_milli, resources.memory_bytes, resources.gpus,
                                workers.min, workers.max);
    const auto [at, fresh] = shapes_.try_emplace(key, static_cast<Index>(snapshot.shapes.size()));
    if (!fresh) return at->second;
    scheduler::TaskGroup group;
    group.min = static_cast<std::uint32_t>(workers.min);
    group.max = static_cast<std::uint32_t>(workers.max);
    group.cpu = resources.cpu_milli;
    group.memory = mebibytes(resources.memory_bytes);
    group.gpu.count = static_cast<std::uint32_t>(resources.gpus);
    if (resources.gpus > 0) group.gpu.models = {kGpu};
    scheduler::Shape shape;
    shape.groups = {group};
    snapshot.shapes.push_back(std::move(shape));
    return at->second;
  }

  // Each worker has the next of the job's devices. Those that are gone since it began cannot be
  // given to anybody.
  scheduler::Placement placement_of(const Candidate& candidate) const {
    unsigned left = candidate.gpus & ((1U << snapshot.classes[0].gpus) - 1U);
    const Request& request = candidate.request;
    const std::int64_t each = request.workers ? request.workers->each.gpus : scheduler::kMaxDevices;
    const std::int64_t count =
        request.workers ? std::clamp(candidate.workers, request.workers->min, request.workers->max)
                        : 1;
    scheduler::Placement out;
    out.counts = {static_cast<std::uint32_t>(count)};
    for (std::int64_t i = 0; i < count; ++i) {
      scheduler::PodPlacement pod;
      pod.node = 0;
      for (std::int64_t taken = 0; taken < each && left != 0; ++taken) {
        const unsigned lowest = left & (~left + 1U);
        pod.gpus = static_cast<std::uint16_t>(pod.gpus | lowest);
        left &= ~lowest;
      }
      out.pods.push_back(pod);
    }
    return out;
  }

  void add_job(const Candidate& candidate) {
    scheduler::Job job;
    job.id = candidate.sequence;
    job.queue = queue_index(candidate.project, candidate.request.queue);
    job.shape = shape_index(candidate.request);
    job.priority = static_cast<std::int32_t>(candidate.request.priority);
    job.submitted = candidate.queued_at;
    job.deadline = candidate.request.deadline;
    if (candidate.run_max.nanos > 0) job.max_run = candidate.run_max;
    job.unmet_dependencies = candidate.unmet;
    job.remaining_p50 = candidate.p50;
    job.remaining_p90 = candidate.p90;
    job.attained = candidate.attained;
    if (candidate.runs == Runs::kEngine) job.array = 0;
    job.state = static_cast<scheduler::JobState>(candidate.stage);
    if (candidate.stage != Stage::kWaiting) {
      job.started = candidate.started_at;
      job.checkpoint = candidate.started_at;
      job.placement = placement_of(candidate);
    }
    snapshot.jobs.push_back(std::move(job));
  }

  const Scene& scene_;
  const Timestamp now_;
  std::map<std::string, const QueueSpec*, std::less<>> declared_;
  std::map<std::string, Index, std::less<>> queues_;
  using ShapeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<ShapeKey, Index> shapes_;
};

std::string milli_text(std::int64_t amount, std::string_view name) {
  const std::string part = std::to_string(1000 + amount % 1000).substr(1);
  return std::to_string(amount / 1000) + (amount % 1000 == 0 ? "" : "." + part) + " " +
         std::string(name);
}

std::string amount_text(const scheduler::Snapshot& snapshot, Index flavor, std::int64_t amount) {
  if (flavor == scheduler::kMemory) return format_bytes(amount * kMebibyte) + " of memory";
  return milli_text(amount, flavor == kAbsent ? "units" : snapshot.flavors[flavor].name);
}

// How budgets are told to people: what one of their units is, and its name.
std::pair<double, const char*> told_in(scheduler::AllowanceKind kind) {
  switch (kind) {
    case scheduler::AllowanceKind::kGpuSeconds:
      return {3.6e6, "GPU-hours"};
    case scheduler::AllowanceKind::kMoney:
      return {1e6, "money"};
    case scheduler::AllowanceKind::kEnergy:
      return {3.6e6, "kWh"};
  }
  return {1, "units"};
}

void tell_budget(const scheduler::Snapshot& snapshot, const scheduler::Reason& reason, Why& why) {
  const scheduler::Queue& queue = snapshot.queues[reason.subject];
  const auto [unit, name] = told_in(queue.allowances[reason.flavor].kind);
  char amount[64];
  std::snprintf(amount, sizeof amount, "%.2f %s",
                static_cast<double>(reason.missing + reason.ahead) / unit, name);
  why.text = "waits for the next budget of queue " + queue.name + ", which lacks " + amount;
  why.constraint = "queue " + queue.name + ": budget of " + name;
  why.change = std::string(amount) + " more for queue " + queue.name;
}

// What binds and what would help, by reason.
void fill_in(const Drawing& drawing, const Scene& scene, const scheduler::Reason& reason,
             Why& why) {
  using scheduler::ReasonCode;
  const scheduler::Snapshot& snapshot = drawing.snapshot;
  const auto job_name = [&](Index job) {
    return job < scene.jobs.size() ? scene.jobs[job].id.str() : std::string("another");
  };
  switch (reason.code) {
    case ReasonCode::kDependency:
      why.text = "waits for " + std::to_string(reason.missing) + " job(s) that come before it";
      why.constraint = "dependency";
      why.change = "the end of those jobs";
      break;
    case ReasonCode::kArrayLimit:
      why.text = "waits for its turn: " + std::to_string(scene.machine.engines_max) +
                 " training job(s) run at a time";
      why.constraint = "jobs.concurrency";
      why.change = "jobs.concurrency raised by " + std::to_string(reason.missing + reason.ahead);
      break;
    case ReasonCode::kQuota:
      why.text = "waits for quota: queue " + snapshot.queues[reason.subject].name + " lacks " +
                 amount_text(snapshot, reason.flavor, reason.missing);
      if (reason.ahead > 0) {
        why.text += ", and those before it take " +
                    amount_text(snapshot, reason.flavor, reason.ahead) + " of any more";
      }
      why.constraint = "queue " + snapshot.queues[reason.subject].name + ": " +
                       snapshot.flavors[reason.flavor].name;
      why.change = amount_text(snapshot, reason.flavor, reason.missing + reason.ahead) +
                   " more for queue " + snapshot.queues[reason.subject].name;
      break;
    case ReasonCode::kBudget:
      tell_budget(snapshot, reason, why);
      break;
    case ReasonCode::kCapacity:
      why.text = "waits for room: " + amount_text(snapshot, reason.flavor, reason.missing) +
                 " more must be free";
      why.constraint = snapshot.flavors[reason.flavor].name;
      why.change = amount_text(snapshot, reason.flavor, reason.missing) + " less asked for";
      break;
    case ReasonCode::kReserved:
    case ReasonCode::kFifo:
      why.text = "what is free is kept for job " + job_name(reason.subject) + ", which goes first";
      why.constraint = "job " + job_name(reason.subject);
      why.change = "a priority above that of job " + job_name(reason.subject) +
                   ", or a limit of its run time that ends before that one starts";
      break;
    case ReasonCode::kVictimsLeaving:
      why.text = "its place is being cleared";
      why.constraint = "jobs that were told to leave";
      why.change = "none: it starts when they have left";
      break;
    case ReasonCode::kTooLarge:
      why.text = "that is more than there is";
      why.constraint = "machine";
      break;
    case ReasonCode::kDevice:
      why.text = "there is no such GPU";
      why.constraint = "gpu";
      break;
    default:
      why.text = scheduler::to_text(snapshot, reason, Timestamp{});
      why.text = why.text.substr(0, why.text.find(';'));
  }
}

std::string minutes_text(Timestamp at, Timestamp now) {
  constexpr std::int64_t kMinute = 60'000'000'000;
  const std::int64_t nanos = std::max<std::int64_t>(0, (at - now).nanos);
  return to_string(Duration::minutes((nanos + kMinute - 1) / kMinute));
}

void name_first(const Candidate& job, Why& why) {
  if (job.waits_for.empty()) return;
  why.text = "waits for job " + job.waits_for.str();
  if (job.unmet > 1) why.text += " and " + std::to_string(job.unmet - 1) + " more";
  why.text += ", which must succeed first";
  why.constraint = "job " + job.waits_for.str();
  why.change = "the end of job " + job.waits_for.str();
}

Why why_of(const Drawing& drawing, const Scene& scene, const scheduler::Hold& hold, Timestamp now) {
  const scheduler::Reason& reason = hold.reason;
  Why why;
  why.code = scheduler::to_string(reason.code);
  fill_in(drawing, scene, reason, why);
  why.earliest = reason.earliest;
  why.latest = reason.latest;
  const bool after_another = reason.code == scheduler::ReasonCode::kDependency;
  if (after_another) name_first(scene.jobs[hold.job], why);
  if (reason.latest == Timestamp::max()) {
    if (!after_another) why.text += "; does not start without a change";
  } else if (reason.latest <= now) {
    why.text += "; may start at any moment";
  } else {
    why.text += "; starts in " + minutes_text(reason.earliest, now) + " to " +
                minutes_text(reason.latest, now);
  }
  return why;
}

Verdict::Place place_of(Index job, const scheduler::Placement& placement) {
  Verdict::Place out{job, 0, static_cast<std::int64_t>(placement.pods.size())};
  for (const scheduler::PodPlacement& pod : placement.pods) {
    out.gpus = static_cast<std::uint16_t>(out.gpus | pod.gpus);
  }
  return out;
}

using Resizes = std::vector<scheduler::Resize>;

// The snapshot once these decisions are carried out, of the resizes those that `resized` has.
scheduler::Snapshot after(scheduler::Snapshot snapshot, const scheduler::Decisions& decided,
                          const Resizes& resized, Timestamp now) {
  for (const Index job : decided.released) {
    snapshot.jobs[job].state = scheduler::JobState::kPending;
    snapshot.jobs[job].placement = {};
  }
  for (const scheduler::Admit& admit : decided.admit) {
    scheduler::Job& job = snapshot.jobs[admit.job];
    job.state = scheduler::JobState::kRunning;
    job.started = job.checkpoint = now;
    job.placement = admit.placement;
  }
  for (const scheduler::Reserve& reserve : decided.reserve) {
    if (reserve.kind != scheduler::ReserveKind::kClaim) continue;
    snapshot.jobs[reserve.job].state = scheduler::JobState::kClaimed;
    snapshot.jobs[reserve.job].started = now;
    snapshot.jobs[reserve.job].placement = reserve.placement;
  }
  for (const scheduler::Preempt& preempt : decided.preempt) {
    snapshot.jobs[preempt.job].state = scheduler::JobState::kStopping;
  }
  for (const scheduler::Resize& resize : resized) {
    scheduler::Job& job = snapshot.jobs[resize.job];
    if (resize.for_job == kAbsent) {
      job.placement = resize.placement;
    } else {
      job.state = scheduler::JobState::kStopping;
    }
  }
  return snapshot;
}

// decide() starts a job with the least it needs and lets it grow in the next cycle. Here growing
// means starting again, so who has just been admitted grows before it begins: where they are then.
std::map<Index, scheduler::Placement> grown(const Drawing& drawing, const Scene& scene,
                                            const scheduler::Decisions& decided,
                                            const Resizes& resized, Timestamp now) {
  std::map<Index, scheduler::Placement> out;
  for (const scheduler::Admit& admit : decided.admit) {
    const auto& workers = scene.jobs[admit.job].request.workers;
    if (workers && workers->max > workers->min) out.emplace(admit.job, admit.placement);
  }
  if (out.empty()) return out;
  scheduler::Budget budget;
  budget.digest = 0;
  budget.explain = scheduler::Explain::kCode;
  const scheduler::Decisions next = scheduler::decide(
      after(drawing.snapshot, decided, resized, now), scene.policy.policy, now, budget);
  for (const scheduler::Resize& resize : next.resize) {
    const auto at = out.find(resize.job);
    if (at != out.end() && resize.for_job == kAbsent) at->second = resize.placement;
  }
  return out;
}

// To grow costs a restart: not before a job has run for as long as it may not be preempted.
Resizes worth_it(const Drawing& drawing, const Scene& scene, Resizes resizes, Timestamp now) {
  std::erase_if(resizes, [&](const scheduler::Resize& resize) {
    const scheduler::Job& job = drawing.snapshot.jobs[resize.job];
    const Duration own = drawing.snapshot.queues[job.queue].min_run;
    const Duration least = own.nanos > 0 ? own : scene.policy.policy.preemption.min_run;
    return resize.for_job == kAbsent && job.started + least > now;
  });
  return resizes;
}

std::string ask_text(const Resources& resources) {
  std::string text = milli_text(resources.cpu_milli, "cpu") + ", " +
                     format_bytes(resources.memory_bytes) + " of memory";
  if (resources.gpus > 0) text += ", " + std::to_string(resources.gpus) + " gpu";
  return text;
}

}  // namespace

Machine this_machine() {
  Machine out;
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  out.cpu_milli = std::int64_t{std::max(1, count)} * 1000;
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  if (pages > 0) out.memory_bytes = pages * ::sysconf(_SC_PAGESIZE);
  while (out.gpus < scheduler::kMaxDevices &&
         ::access(("/dev/nvidia" + std::to_string(out.gpus)).c_str(), F_OK) == 0) {
    ++out.gpus;
  }
  return out;
}

Value to_value(const Why& why) {
  const auto time = [](Timestamp at) {
    return at == Timestamp{} || at == Timestamp::max() ? Value() : Value(to_rfc3339(at));
  };
  Value value;
  value["code"] = why.code;
  value["reason"] = why.text;
  value["constraint"] = why.constraint;
  value["change"] = why.change;
  value["earliest"] = time(why.earliest);
  value["latest"] = time(why.latest);
  return value;
}

Verdict judge(const Scene& scene, Timestamp now, Telling telling) {
  const Drawing drawing(scene, now);
  scheduler::Budget budget;
  budget.digest = 0;
  if (telling == Telling::kNothing) budget.explain = scheduler::Explain::kCode;
  scheduler::Decisions decided =
      scheduler::decide(drawing.snapshot, scene.policy.policy, now, budget);
  const Resizes resized = worth_it(drawing, scene, decided.resize, now);
  const auto larger = grown(drawing, scene, decided, resized, now);
  Verdict out;
  for (const scheduler::Admit& admit : decided.admit) {
    const auto at = larger.find(admit.job);
    out.admit.push_back(place_of(admit.job, at == larger.end() ? admit.placement : at->second));
  }
  for (const scheduler::Reserve& reserve : decided.reserve) {
    if (reserve.kind != scheduler::ReserveKind::kClaim) continue;
    out.claim.push_back(place_of(reserve.job, reserve.placement));
  }
  for (const Index job : decided.released) out.release.push_back(job);
  for (const scheduler::Preempt& preempt : decided.preempt) out.preempt.push_back(preempt.job);
  for (const scheduler::Resize& resize : resized) {
    out.resize.push_back(place_of(resize.job, resize.placement));
  }
  if (telling == Telling::kNothing) return out;
  for (const scheduler::Hold& hold : decided.hold) {
    out.hold.emplace_back(hold.job, why_of(drawing, scene, hold, now));
  }
  const bool changes =
      !out.admit.empty() || !out.preempt.empty() || !out.claim.empty() || !out.resize.empty();
  if (telling == Telling::kRecorded && changes) {
    out.record = std::make_shared<const DecisionRecord>(drawing.snapshot, scene.policy.policy, now,
                                                        budget, std::move(decided));
  }
  return out;
}

Status check_possible(const Scene& scene, const Candidate& job) {
  Scene alone = scene;
  alone.jobs = {job};
  alone.jobs.front().sequence = 1;
  alone.jobs.front().stage = Stage::kWaiting;
  const Drawing drawing(alone, Timestamp{});
  if (!drawing.has_queue(job.project, job.request.queue)) {
    std::vector<std::string> names;
    for (const QueueSpec& queue : scene.queues) {
      if (queue.project == job.project) names.push_back(queue.name);
    }
    const std::string near = nearest_name(job.request.queue, names);
    return Error(
        ErrorId::kObjectNotFound,
        "there is no Queue '" + job.request.queue + "' in project '" + job.project + "'" +
            (near.empty() ? "; 'falaj list Queue' shows them" : "; did you mean " + near + "?"));
  }
  const scheduler::Reason reason =
      scheduler::never_starts(drawing.snapshot, scene.policy.policy, 0);
  if (reason.code == scheduler::ReasonCode::kNone) return {};
  Why why;
  fill_in(drawing, alone, reason, why);
  if (why.text.starts_with("waits for ")) why.text.erase(0, 10);
  const Machine& machine = scene.machine;
  return Error(ErrorId::kOutOfRange,
               "the job asks for " + ask_text(job.request.resources) +
                   " and could never start: " + why.text + "; this machine has " +
                   ask_text({machine.cpu_milli, machine.memory_bytes, machine.gpus}) + " for jobs");
}

}  // namespace falaj::jobs
