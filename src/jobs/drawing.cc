#include "jobs/internal/drawing.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/check.h"
#include "base/json.h"

namespace falaj::jobs::internal {
namespace {

using scheduler::Index;
using scheduler::kAbsent;

constexpr Index kGpu = 2;
constexpr std::string_view kDefaultQueue = "default";
constexpr std::int64_t kPlenty = std::int64_t{1} << 40;  // More than any machine has.
constexpr std::uint64_t kHere = 1;
constexpr std::uint64_t kElsewhere = 2;
// A label that the machine does not have; one bit will do for all of them.
constexpr std::uint64_t kNoSuchLabel = std::uint64_t{1} << 63;
// Tags past those that can be told apart count as one to those who avoid them, …
constexpr unsigned kOtherTags = 63;
// … and who is near to one of them, or to one that no job has, is near to nobody.
constexpr unsigned kNobody = 62;

std::int64_t mebibytes(std::int64_t bytes) {
  return bytes == kNoLimit ? scheduler::kUnlimited : bytes / kMebibyte + (bytes % kMebibyte != 0);
}

// How much it gets at most.
std::int64_t reach_of(const ResourceQuota& quota) {
  return quota.borrow > kNoLimit - quota.nominal ? kNoLimit : quota.nominal + quota.borrow;
}

// Of the machine's model. When nobody says which that is, the strictest of those that are listed: a
// limit does not go because the Node says less.
ResourceQuota gpu_quota(const QueueSpec& spec, const std::string& model) {
  const auto named = spec.gpu_models.find(model);
  if (named != spec.gpu_models.end()) return named->second;
  if (!model.empty() || spec.gpu_models.empty()) return spec.gpu;
  const bool plain = spec.gpu != ResourceQuota{};
  ResourceQuota strictest = plain ? spec.gpu : spec.gpu_models.begin()->second;
  for (const auto& [name, quota] : spec.gpu_models) {
    const bool less = reach_of(quota) != reach_of(strictest) ? reach_of(quota) < reach_of(strictest)
                                                             : quota.nominal < strictest.nominal;
    if (less) strictest = quota;
  }
  return strictest;
}

std::vector<scheduler::Quota> quotas_of(const QueueSpec& spec, const std::string& model) {
  const auto one = [](Index flavor, const ResourceQuota& quota, auto convert) {
    return scheduler::Quota{flavor, convert(quota.nominal), convert(quota.borrow),
                            convert(quota.lend)};
  };
  const auto same = [](std::int64_t units) { return units; };
  const ResourceQuota gpu = gpu_quota(spec, model);
  ResourceQuota memory = spec.memory;
  const bool owns = spec.cpu.nominal > 0 || gpu.nominal > 0;
  if (owns && memory == ResourceQuota{}) memory.nominal = kPlenty * kMebibyte;
  return {one(scheduler::kCpu, spec.cpu, same), one(scheduler::kMemory, memory, mebibytes),
          one(kGpu, gpu, same)};
}

scheduler::TaskGroup task_group(const Resources& each, std::int64_t min, std::int64_t max) {
  scheduler::TaskGroup group;
  group.min = static_cast<std::uint32_t>(min);
  group.max = static_cast<std::uint32_t>(max);
  group.cpu = each.cpu_milli;
  group.memory = mebibytes(each.memory_bytes);
  group.gpu.count = static_cast<std::uint32_t>(each.gpus);
  if (each.gpus > 0) group.gpu.models = {kGpu};
  return group;
}

// So many of those that are left, the lowest first.
std::uint16_t take_lowest(unsigned& left, std::int64_t count) {
  unsigned out = 0;
  for (std::int64_t taken = 0; taken < count && left != 0; ++taken) {
    const unsigned lowest = left & (~left + 1U);
    out |= lowest;
    left &= ~lowest;
  }
  return static_cast<std::uint16_t>(out);
}

// The newest checkpoint: what is known to be kept, or what it says it keeps.
Timestamp checkpoint_of(const Candidate& candidate, Timestamp now) {
  Timestamp newest =
      std::clamp(candidate.checkpoint, candidate.started_at, std::max(now, candidate.started_at));
  const std::int64_t every = candidate.request.saving.every.nanos;
  const std::int64_t ran = (now - candidate.started_at).nanos;
  if (every > 0 && ran > 0) {
    newest = std::max(newest, candidate.started_at + Duration{ran / every * every});
  }
  return newest;
}

}  // namespace

Drawing::Drawing(const Scene& scene, Timestamp now) : scene_(scene), now_(now) {
  draw_machine(scene.machine);
  for (const QueueSpec& spec : scene.queues) {
    declared_[queue_name(spec.project, spec.name)] = &spec;
  }
  // All of them: what an idle one has may be borrowed, and what it spent counts above it.
  for (const QueueSpec& spec : scene.queues) (void)queue_index(spec.project, spec.name);
  collect_tags();
  for (const Candidate& job : scene.jobs) add_job(job);
  FALAJ_CHECK(scheduler::check(snapshot).ok());
}

bool Drawing::has_queue(const std::string& project, const std::string& name) const {
  return name.empty() || name == kDefaultQueue || declared_.contains(queue_name(project, name));
}

void Drawing::draw_machine(const Machine& machine) {
  const std::string& model = machine.node.gpu_model;
  snapshot.flavors = {{"cpu", 1}, {"memory", 0}, {model.empty() ? "gpu" : "gpu." + model, 64}};
  snapshot.zones = {"here", "elsewhere"};
  const auto& prices = scene_.policy.prices;
  scheduler::NodeClass node;
  node.name = "this machine";
  node.cpu = machine.cpu_milli;
  node.memory = machine.memory_bytes / kMebibyte;
  node.gpus = std::min<unsigned>(machine.gpus, scheduler::kMaxDevices);
  node.price_per_core_hour = prices.micros_per_cpu_hour;
  node.price_per_gpu_hour = prices.micros_per_gpu_hour;
  node.watts_per_gpu = prices.watts_per_gpu;
  node.gpu_flavor = kGpu;  // Also without any: jobs may run whose devices are gone.
  node.numa_nodes = std::clamp<unsigned>(machine.numa_nodes, 1, scheduler::kMaxNumaNodes);
  snapshot.classes = {node};
  snapshot.nodes = {scheduler::Node{}};
  draw_node(machine.node);
  snapshot.arrays = {{machine.engines_max}};
  scheduler::Queue root;
  root.name = "machine";
  // More than there is: the machine itself is the limit, for which places are kept.
  for (const Index flavor : {scheduler::kCpu, scheduler::kMemory, kGpu}) {
    root.quotas.push_back({flavor, kPlenty, scheduler::kUnlimited, scheduler::kUnlimited});
  }
  snapshot.queues = {root};
}

// What was declared of it, as far as the devices are there.
void Drawing::draw_node(const NodeSpec& spec) {
  scheduler::NodeClass& node = snapshot.classes.front();
  const auto there = static_cast<std::uint16_t>((1U << node.gpus) - 1U);
  node.gpu_memory = spec.gpu_memory_bytes / kMebibyte;
  node.mig = spec.mig;
  // A bit for each of its labels, in their order.
  node.labels = (std::uint64_t{1} << spec.labels.size()) - 1;
  for (const std::uint16_t island : spec.gpu_islands) {
    const auto present = static_cast<std::uint16_t>(island & there);
    if (present != 0) node.gpu_islands.push_back(present);
  }
  std::stable_sort(node.gpu_islands.begin(), node.gpu_islands.end(),
                   [](auto a, auto b) { return std::popcount(a) < std::popcount(b); });
  if (!spec.numa_gpus.empty()) node.numa_nodes = static_cast<unsigned>(spec.numa_gpus.size());
  if (node.numa_nodes == 1) node.numa_gpus[0] = there;
  for (std::size_t i = 0; i < spec.numa_gpus.size(); ++i) {
    node.numa_gpus[i] = static_cast<std::uint16_t>(spec.numa_gpus[i] & there);
  }
  scheduler::Node& place = snapshot.nodes.front();
  place.power_cap = spec.power_cap;
  const Opening opening = opening_of(spec, now_);
  if (opening.open) {
    place.drain_at = opening.until;
    if (spec.hot) place.health = scheduler::NodeHealth::kHot;
  } else {
    place.health = scheduler::NodeHealth::kCordoned;
  }
}

// Only tags that somebody has, and somebody avoids or is near to, need to be told apart.
void Drawing::collect_tags() {
  std::set<std::string> had;
  for (const Candidate& job : scene_.jobs) {
    if (!job.request.placement) continue;
    for (const std::string& tag : job.request.placement->tags) had.insert(job.project + "/" + tag);
  }
  for (const Candidate& job : scene_.jobs) {
    if (!job.request.placement) continue;
    for (const auto* list : {&job.request.placement->avoid, &job.request.placement->near}) {
      for (const std::string& tag : *list) {
        const std::string name = job.project + "/" + tag;
        if (!had.contains(name)) continue;
        const auto bit = static_cast<unsigned>(std::min(sought_.size(), kSoughtTagsMax));
        sought_.try_emplace(name, bit == kSoughtTagsMax ? kOtherTags : bit);
      }
    }
  }
}

std::uint64_t Drawing::needed_bits(const std::string& project,
                                   const std::vector<std::string>& tags) const {
  std::uint64_t bits = 0;
  for (const std::string& tag : tags) {
    const auto found = sought_.find(project + "/" + tag);
    const bool known = found != sought_.end() && found->second != kOtherTags;
    bits |= std::uint64_t{1} << (known ? found->second : kNobody);
  }
  return bits;
}

std::uint64_t Drawing::tag_bits(const std::string& project,
                                const std::vector<std::string>& tags) const {
  std::uint64_t bits = 0;
  for (const std::string& tag : tags) {
    const auto found = sought_.find(project + "/" + tag);
    if (found != sought_.end()) bits |= std::uint64_t{1} << found->second;
  }
  return bits;
}

Index Drawing::queue_index(const std::string& project, const std::string& name, std::size_t below) {
  const std::string full =
      queue_name(project, declared_.contains(queue_name(project, name)) ? name : "");
  const auto known = queues_.find(full);
  if (known != queues_.end()) return known->second;
  scheduler::Queue queue;
  queue.name = full;
  queue.parent = 0;
  const auto spec = declared_.find(full);
  if (spec != declared_.end()) {
    queue.quotas = quotas_of(*spec->second, scene_.machine.node.gpu_model);
    queue.weight = spec->second->weight_milli;
    queue.reclaim = spec->second->reclaim;
    queue.within = spec->second->within;
    queue.min_run = spec->second->min_run;
    queue.allowances = allowances_of(*spec->second, full);
    const std::string& parent = spec->second->parent;
    const bool deep = below >= scheduler::kMaxDepth;  // Lengthened from above, since it was made.
    if (!parent.empty() && !deep && declared_.contains(queue_name(project, parent))) {
      queue.parent = queue_index(project, parent, below + 1);
    }
  }
  const auto used = scene_.use.find(full);
  if (used != scene_.use.end()) {
    queue.decayed_use.assign(used->second.decayed.begin(), used->second.decayed.end());
  }
  snapshot.queues.push_back(std::move(queue));
  const auto index = static_cast<Index>(snapshot.queues.size() - 1);
  queues_.emplace(full, index);
  return index;
}

std::vector<scheduler::Allowance> Drawing::allowances_of(const QueueSpec& spec,
                                                         const std::string& name) {
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

// A model that is not here.
Index Drawing::other_model() {
  if (other_model_ == kAbsent) {
    other_model_ = static_cast<Index>(snapshot.flavors.size());
    snapshot.flavors.push_back({"gpu.other", 64});
  }
  return other_model_;
}

std::uint64_t Drawing::required_labels(const Labels& labels) const {
  const Labels& own = scene_.machine.node.labels;
  std::uint64_t bits = 0;
  for (const auto& [key, value] : labels) {
    const auto found = own.find(key);
    const bool has = found != own.end() && found->second == value;
    bits |= has ? std::uint64_t{1} << std::distance(own.begin(), found) : kNoSuchLabel;
  }
  return bits;
}

std::uint64_t Drawing::forbidden_labels(const Labels& labels) const {
  return required_labels(labels) & ~kNoSuchLabel;
}

void Drawing::constrain(const Candidate& candidate, scheduler::Shape& shape) {
  const Constraints& asked = *candidate.request.placement;
  const auto& models = asked.gpu.models;
  const bool here = models.empty() || std::find(models.begin(), models.end(),
                                                scene_.machine.node.gpu_model) != models.end();
  for (scheduler::TaskGroup& group : shape.groups) {
    group.one_numa_node = asked.numa ? 1 : 0;
    if (group.gpu.count == 0) continue;
    group.gpu.models = {here ? kGpu : other_model()};
    group.gpu.memory = mebibytes(asked.gpu.memory_bytes);
    if (group.gpu.count == 1) {
      group.gpu.fraction = asked.gpu.fraction_milli;
      group.gpu.mig = asked.gpu.mig;
    }
  }
  shape.required = asked.together;
  shape.preferred = asked.prefer;
  shape.labels_required = required_labels(asked.labels);
  shape.labels_forbidden = forbidden_labels(asked.not_labels);
  if (!asked.unreadable.empty()) shape.labels_required |= kNoSuchLabel;
  shape.data_zones.assign(asked.data.size(), kHere);
  for (const std::size_t barred : candidate.barred) {
    if (barred < shape.data_zones.size()) shape.data_zones[barred] = kElsewhere;
  }
  shape.tags = tag_bits(candidate.project, asked.tags);
  shape.avoids = tag_bits(candidate.project, asked.avoid);
  shape.needs = needed_bits(candidate.project, asked.near);
}

scheduler::Shape Drawing::shape_of(const Candidate& candidate) {
  const Request& request = candidate.request;
  const Workers one{request.resources};
  const Workers& workers = request.workers ? *request.workers : one;
  scheduler::Shape shape;
  shape.groups = {task_group(workers.each, workers.min, workers.max)};
  if (request.workers) {
    for (const Group& group : request.groups) {
      shape.groups.push_back(task_group(group.each, group.count, group.count));
    }
  }
  if (request.placement) constrain(candidate, shape);
  return shape;
}

Index Drawing::shape_index(const Candidate& candidate) {
  const Request& request = candidate.request;
  const Workers one{request.resources};
  const Workers& workers = request.workers ? *request.workers : one;
  const auto next = static_cast<Index>(snapshot.shapes.size());
  const ShapeKey key(workers.each.cpu_milli, workers.each.memory_bytes, workers.each.gpus,
                     workers.min, workers.max);
  if (!request.placement && request.groups.empty()) {
    const auto [at, fresh] = shapes_.try_emplace(key, next);
    if (fresh) snapshot.shapes.push_back(shape_of(candidate));
    return at->second;
  }
  std::string text;
  if (request.placement) {
    text = candidate.project + " " + to_json(to_value(*request.placement)) +
           (request.placement->unreadable.empty() ? "" : " unreadable");
  }
  for (const Group& group : request.groups) {
    for (const std::int64_t each :
         {group.count, group.each.cpu_milli, group.each.memory_bytes, group.each.gpus}) {
      text += "+" + std::to_string(each);
    }
  }
  for (const std::size_t barred : candidate.barred) text += " " + std::to_string(barred);
  const auto& [cpu, memory, gpus, min, max] = key;
  for (const std::int64_t each : {cpu, memory, gpus, min, max}) text += "," + std::to_string(each);
  const auto [at, fresh] = narrow_shapes_.try_emplace(std::move(text), next);
  if (fresh) snapshot.shapes.push_back(shape_of(candidate));
  return at->second;
}

// Each worker has the next of the job's devices, and its groups those after. Those that are gone
// since it began cannot be given to anybody. An instance of which nobody knows where it is has its
// whole device.
scheduler::Placement Drawing::placement_of(const Candidate& candidate) const {
  const scheduler::NodeClass& node = snapshot.classes[0];
  unsigned left = candidate.gpus & ((1U << node.gpus) - 1U);
  const Request& request = candidate.request;
  const std::int64_t each = request.workers ? request.workers->each.gpus : scheduler::kMaxDevices;
  const std::int64_t count =
      request.workers ? std::clamp(candidate.workers, request.workers->min, request.workers->max)
                      : 1;
  const bool instance =
      request.placement && request.placement->gpu.mig != scheduler::MigProfile::kWhole;
  const bool cut = instance && candidate.mig_start <= 7;
  scheduler::Placement out;
  const auto put = [&](std::int64_t pods, std::int64_t devices) {
    out.counts.push_back(static_cast<std::uint32_t>(pods));
    for (std::int64_t i = 0; i < pods; ++i) {
      scheduler::PodPlacement pod;
      pod.node = 0;
      if (candidate.numa < node.numa_nodes) pod.numa = candidate.numa;
      if (cut) pod.mig_start = candidate.mig_start;
      pod.gpus = take_lowest(left, devices);
      out.pods.push_back(pod);
    }
  };
  put(count, each);
  if (!request.workers) return out;
  for (const Group& group : request.groups) put(group.count, group.each.gpus);
  return out;
}

// Array 0 are the engine jobs.
Index Drawing::array_of(const Candidate& candidate) {
  if (candidate.runs == Runs::kEngine) return 0;
  const Request& request = candidate.request;
  if (request.array.empty() || request.running_max <= 0) return kAbsent;
  const auto [at, fresh] =
      arrays_.try_emplace(request.array, static_cast<Index>(snapshot.arrays.size()));
  if (fresh) snapshot.arrays.push_back({static_cast<std::uint32_t>(request.running_max)});
  return at->second;
}

void Drawing::add_job(const Candidate& candidate) {
  scheduler::Job job;
  job.id = candidate.sequence;
  job.queue = queue_index(candidate.project, candidate.request.queue);
  job.shape = shape_index(candidate);
  job.priority = static_cast<std::int32_t>(candidate.request.priority);
  job.submitted = candidate.queued_at;
  job.deadline = candidate.request.deadline;
  job.cost_cap = candidate.request.cost_cap;
  job.spent = candidate.spent;
  if (candidate.run_max.nanos > 0) job.max_run = candidate.run_max;
  job.unmet_dependencies = candidate.unmet;
  job.remaining_p50 = candidate.p50;
  job.remaining_p90 = candidate.p90;
  job.attained = candidate.attained;
  job.array = array_of(candidate);
  job.state = static_cast<scheduler::JobState>(candidate.stage);
  if (candidate.stage != Stage::kWaiting) {
    job.started = candidate.started_at;
    job.checkpoint = checkpoint_of(candidate, now_);
    // Nobody keeps its place by a word: to come back costs no more than it has run.
    const Duration ran{std::max<std::int64_t>(0, (now_ - candidate.started_at).nanos)};
    job.restart_cost = std::min(candidate.request.saving.restart, ran);
    job.placement = placement_of(candidate);
  }
  snapshot.jobs.push_back(std::move(job));
}

}  // namespace falaj::jobs::internal
