// How much memory models may have together, and who leaves when it is not enough.
#include <algorithm>
#include <set>

#include "base/log.h"
#include "serving/budget/overcommit.h"
#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

constexpr std::int64_t kSmall = std::int64_t{16} << 20;  // A load that nobody would miss.

using budget::MemoryBudget;
using telemetry::MetricInfo;
using telemetry::MetricKind;
const std::vector<std::string> kLabels{"project", "deployment"};
const MetricInfo kUsed{"falaj_serving_memory_bytes",
                       "Memory that all loaded models are counted with.",
                       MetricKind::kGauge,
                       {}};
const MetricInfo kLimit{"falaj_serving_memory_limit_bytes",
                        "Memory that models may have together; 0: no limit.",
                        MetricKind::kGauge,
                        {}};
const MetricInfo kRefused{"falaj_serving_memory_refused_total",
                          "Loads that were refused because there was no memory for them.",
                          MetricKind::kCounter,
                          {}};
const MetricInfo kUnloads{"falaj_serving_memory_unloads_total",
                          "Models unloaded because another needed their memory.",
                          MetricKind::kCounter, kLabels};
const MetricInfo kPrefetches{"falaj_serving_memory_prefetches_total",
                             "Models loaded again, before anybody asked, because there was memory.",
                             MetricKind::kCounter, kLabels};

MemoryBudget::File file_of(const registry::ModelVersion& version, const std::string& runtime,
                           std::int64_t bytes) {
  return {version.onnx.str() + '@' + runtime, bytes};
}

// A session and what it is counted with, given back after it.
struct Held {
  std::unique_ptr<MemoryBudget::Share> share;
  std::unique_ptr<Session> session;
};

std::set<const Session*> sessions_of(const LiveModel& live) {
  std::set<const Session*> sessions;
  if (live.fallback != nullptr) sessions = sessions_of(*live.fallback);
  for (const auto& other : live.others) sessions.merge(sessions_of(*other));
  if (live.graph == nullptr) {
    sessions.insert(live.session.get());
    return sessions;
  }
  for (const GraphPart& part : live.graph->parts()) {
    if (part.session != nullptr) sessions.insert(part.session.get());
  }
  return sessions;
}

bool is_of(const LiveModel* live, const registry::ModelVersion& version,
           const std::string& runtime) {
  return live != nullptr && live->version.model == version.model &&
         live->version.version == version.version && live->runtime == runtime;
}

// Whether it has a session of the part's file, alone or as a step.
bool runs_part(const LiveModel* live, const GraphPart& part, const std::string& runtime) {
  if (live == nullptr || live->runtime != runtime) return false;
  if (live->graph == nullptr) {
    return live->version.model == part.model && live->version.onnx.str() == part.onnx;
  }
  const std::vector<GraphPart>& parts = live->graph->parts();
  return std::any_of(parts.begin(), parts.end(), [&part](const GraphPart& each) {
    return each.model == part.model && each.onnx == part.onnx;
  });
}

// What load() begins with, if it need not open the version; null: it opens it.
const LiveModel* taken_over(const LiveModel* live, const registry::ModelVersion& version,
                            const std::string& runtime) {
  if (live == nullptr || is_of(live, version, runtime)) return live;
  const LiveModel* candidate = live->split == nullptr ? nullptr : live->split->candidate.get();
  return is_of(candidate, version, runtime) ? candidate : nullptr;
}

bool keeps_fallback(const LiveModel* live, const registry::ModelVersion& version,
                    const Deployment& declared) {
  return live != nullptr && is_of(live->fallback.get(), version, declared.runtime) &&
         live->fallback->batch == declared.batch;
}

// Alone or beside another.
bool serves(const LiveModel* live, const registry::ModelVersion& version,
            const std::string& runtime) {
  if (live == nullptr) return false;
  return is_of(live, version, runtime) ||
         std::any_of(live->others.begin(), live->others.end(),
                     [&](const auto& other) { return is_of(other.get(), version, runtime); });
}

}  // namespace

void declare_memory_metrics(telemetry::Metrics& metrics) {
  for (const MetricInfo& info : {kUsed, kLimit, kRefused, kUnloads, kPrefetches}) {
    metrics.declare(info);
  }
}

bool is_full(const Error& error) { return error.id == ErrorId::kResourceExhausted; }

void Deployments::limit(const Limits& limits) {
  impl_->processors = std::max(limits.processors, 1U);
  impl_->memory = std::make_shared<MemoryBudget>(limits.memory);
  impl_->steady = limits.nanos;
  impl_->metrics.gauge(kLimit, {}).set(static_cast<double>(limits.memory.bytes));
}

// Judged by the size of the file, before a byte of it is read.
Result<std::shared_ptr<Session>> Deployments::Impl::open_session(
    const registry::ModelVersion& version, const std::string& runtime_name) {
  Runtime* const chosen = FALAJ_TRY(runtime_named(runtime_name));
  const std::string what =
      "model '" + version.model + "' version " + std::to_string(version.version);
  const std::int64_t file_bytes = FALAJ_TRY(models.onnx_bytes(version));
  auto share = memory->take(what, file_of(version, runtime_name, file_bytes));
  if (!share.ok()) {
    metrics.counter(kRefused, {}).add();
    return share.error();
  }
  auto held = std::make_shared<Held>();
  held->share = std::move(share).value();
  const std::int64_t before = memory->allocated();
  {
    const Result<std::string> bytes = models.load_onnx(version);
    if (!bytes.ok()) return bytes.error();
    Result<std::unique_ptr<Session>> session = chosen->load_bytes(*bytes);
    if (!session.ok()) return session.error().within(what);
    held->session = std::move(session).value();
  }
  // What another process took is not seen here: the guess stays. More than the guess is what others
  // allocated meanwhile, uploads among them; it must not keep the model out the next time.
  const std::int64_t guess = budget::guessed_need(file_bytes);
  const std::int64_t took = held->session->may_wait()
                                ? guess
                                : std::min(memory->allocated() - before, std::max(guess, kSmall));
  FALAJ_TRY(held->share->measured(took, held->session.get()));
  metrics.gauge(kUsed, {}).set(static_cast<double>(memory->room().used));
  log::debug("model loaded", {{"model", what}, {"bytes", held->share->bytes()}});
  return std::shared_ptr<Session>(held, held->session.get());
}

std::int64_t Deployments::Impl::bytes_of(const LiveModel& live) const {
  std::int64_t bytes = 0;
  for (const Session* session : sessions_of(live)) bytes += memory->bytes_of(session);
  return bytes;
}

Result<std::int64_t> Deployments::Impl::need_of(const ProjectName& project, const Slot& slot,
                                                std::int64_t version) {
  const Deployment& declared = slot.declared;
  const LiveModel* live = slot.live.get();
  std::set<std::string> counted;
  std::int64_t need = 0;
  const auto add = [&](const registry::ModelVersion& each) -> Status {
    const std::int64_t bytes = FALAJ_TRY(models.onnx_bytes(each));
    const MemoryBudget::File file = file_of(each, declared.runtime, bytes);
    if (counted.insert(file.name).second) need += memory->need_of(file);
    return {};
  };
  LiveModel wanted;
  wanted.project = project.str();
  wanted.version = FALAJ_TRY(models.get(project, declared.model, version));
  const LiveModel* own = taken_over(live, wanted.version, declared.runtime);
  if (own == nullptr) FALAJ_TRY(add(wanted.version));
  std::vector<GraphPart> parts = FALAJ_TRY(wanted_parts(declared, wanted));
  if (parts.empty()) {  // What was taken over may have been steps without it.
    parts.push_back({declared.model, version, wanted.version.onnx.str(), nullptr, {}});
  }
  for (const GraphPart& part : parts) {
    if (part.model.empty()) continue;
    if (runs_part(own, part, declared.runtime) || runs_part(live, part, declared.runtime)) continue;
    FALAJ_TRY(add(FALAJ_TRY(models.get(project, part.model, part.version))));
  }
  if (declared.fallback.has_value()) {
    const registry::ModelVersion other = FALAJ_TRY(fallback_version(project, declared));
    const bool itself = declared.graph.empty() && other.model == declared.model &&
                        other.version == wanted.version.version;
    if (!itself && !keeps_fallback(live, other, declared)) FALAJ_TRY(add(other));
  }
  for (const std::int64_t other : FALAJ_TRY(wanted_versions(project, declared, version))) {
    const registry::ModelVersion beside = FALAJ_TRY(models.get(project, declared.model, other));
    if (!serves(live, beside, declared.runtime)) FALAJ_TRY(add(beside));
  }
  return need;
}

Result<bool> Deployments::Impl::make_room(const Key& key, std::int64_t need, Table& next) {
  std::vector<Table::iterator> leaving;
  std::vector<budget::Loaded> loaded;
  for (auto each = next.begin(); each != next.end(); ++each) {
    const Slot& slot = each->second;
    // A rollout compares what answers: its champion stays.
    if (each->first == key || slot.live == nullptr || !may_leave(slot.declared) ||
        slot.live->split != nullptr) {
      continue;
    }
    leaving.push_back(each);
    loaded.push_back({bytes_of(*slot.live), used_last(slot)});
  }
  const std::int64_t missing = need - budget::free_bytes(memory->room());
  if (missing <= 0) return true;
  const std::vector<std::size_t> chosen = budget::to_unload(loaded, missing, clock.now());
  if (chosen.empty()) return false;
  // Told first: who comes while it is written down asks off the event loop.
  for (const std::size_t i : chosen) leaving[i]->second.rest = Slot::Rest::kDrowsy;
  publish(next);
  for (const std::size_t i : chosen) {
    Slot& slot = leaving[i]->second;
    storage::Object object;
    std::tie(object.project, object.name) = leaving[i]->first;
    Value detail;
    detail["version"] = slot.live->version.version;
    detail["unused_since"] = to_rfc3339(used_last(slot));
    detail["reason"] = "memory";
    FALAJ_TRY(remember(slot.live.get(), object, "deployment.idle", std::move(detail)));
    metrics.counter(kUnloads, {object.project, object.name}).add();
    const std::shared_ptr<const LiveModel> left = slot.live;
    fall_asleep(slot);
    slot.for_memory = true;
    for (const Session* session : sessions_of(*left)) memory->let_go(session);
  }
  publish(next);
  return true;
}

Deployments::Impl::LoadedModel Deployments::Impl::load_into_room(const storage::Object& object,
                                                                 const Slot& slot,
                                                                 std::int64_t version,
                                                                 Table& next) {
  LoadedModel loaded = load(object, slot, version);
  if (loaded.ok() || !is_full(loaded.error())) return loaded;
  // One that may leave itself comes when somebody asks, not before.
  if (slot.live == nullptr && may_leave(slot.declared) && !slot.asked) return loaded;
  const std::int64_t need = FALAJ_TRY(need_of(ProjectName(object.project), slot, version));
  if (!FALAJ_TRY(make_room({object.project, object.name}, need, next))) return loaded;
  return load(object, slot, version);
}

Deployments::Impl::LoadedModel Deployments::Impl::load_beside(const storage::Object& object,
                                                              const Slot& slot,
                                                              std::int64_t version) {
  LoadedModel loaded = load(object, slot, version);
  if (loaded.ok() || !is_full(loaded.error())) return loaded;
  const std::int64_t need = FALAJ_TRY(need_of(ProjectName(object.project), slot, version));
  {
    MutexLock lock(ticking);
    Table next = *table.load();
    if (!FALAJ_TRY(make_room({object.project, object.name}, need, next))) return loaded;
  }
  return load(object, slot, version);
}

Status Deployments::Impl::rest_unloaded(const storage::Object& object, Slot& slot,
                                        std::int64_t version, const Error& full) {
  const Result<std::int64_t> need = need_of(ProjectName(object.project), slot, version);
  if (slot.rest != Slot::Rest::kWaking) {  // It rested before: that is written down.
    Value detail;
    detail["version"] = version;
    detail["reason"] = "memory";
    FALAJ_TRY(remember(nullptr, object, "deployment.idle", std::move(detail)));
  }
  slot.rest = Slot::Rest::kAsleep;
  slot.for_memory = true;
  slot.slept_version = version;
  slot.rest_bytes = need.value_or(0);
  slot.state = "idle";
  slot.error = slot.asked ? full.message : "";  // Whoever asked is told.
  return {};
}

Status Deployments::Impl::prefetch(const std::vector<storage::Object>& objects, Table& next) {
  metrics.gauge(kUsed, {}).set(static_cast<double>(memory->room().used));
  std::vector<const storage::Object*> candidates;
  std::vector<budget::Resting> resting;
  for (const storage::Object& object : objects) {
    const auto found = next.find(KeyLess::View{object.project, object.name});
    if (found == next.end()) continue;
    Slot& slot = found->second;
    if (slot.rest != Slot::Rest::kAsleep || !slot.for_memory) continue;
    const ProjectName project(object.project);
    const Result<std::int64_t> version = desired_version(project, slot.declared);
    if (!version.ok()) continue;
    using Wanted = budget::Resting::Wanted;
    const bool same = *version == slot.slept_version && slot.rest_bytes > 0;
    const Result<std::int64_t> need = same ? slot.rest_bytes : need_of(project, slot, *version);
    if (!need.ok()) continue;
    slot.rest_bytes = *need;
    candidates.push_back(&object);
    resting.push_back(
        {*need, slot.used, *version == slot.slept_version ? Wanted::kSame : Wanted::kMoved});
  }
  if (resting.empty()) return {};
  const auto chosen = budget::to_prefetch(resting, budget::free_bytes(memory->room()));
  if (!chosen.has_value()) return {};
  const storage::Object& object = *candidates[*chosen];
  Slot& slot = next.find(KeyLess::View{object.project, object.name})->second;
  metrics.counter(kPrefetches, {object.project, object.name}).add();
  return load_asleep(object, slot, next, Called::kNo);
}

}  // namespace falaj::serving
