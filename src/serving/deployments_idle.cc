// Models that nobody asks for: unloaded after a while, and loaded again by who asks next.
#include <algorithm>

#include "base/log.h"
#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

constexpr Duration kHeldMax = Duration::seconds(30);

using telemetry::MetricInfo;
using telemetry::MetricKind;
const std::vector<std::string> kLabels{"project", "deployment"};
const MetricInfo kUnloads{"falaj_serving_idle_unloads_total",
                          "Models unloaded because nobody asked for longer than scale.idle.",
                          MetricKind::kCounter, kLabels};
const MetricInfo kWakes{"falaj_serving_idle_wakes_total",
                        "Models loaded again because a request came.", MetricKind::kCounter,
                        kLabels};
const MetricInfo kHeld{"falaj_serving_idle_held_seconds",
                       "How long requests waited for an idle model to be loaded.",
                       MetricKind::kHistogram, kLabels};

}  // namespace

Timestamp used_last(const Slot& slot) {
  Timestamp last = slot.since;
  const auto look = [&last](const LiveModel& live) {
    last = std::max(last, Timestamp{live.series->last_nanos.load(std::memory_order_relaxed)});
  };
  look(*slot.live);
  for (const auto& other : slot.live->others) look(*other);
  return last;
}

void declare_idle_metrics(telemetry::Metrics& metrics) {
  for (const MetricInfo& info : {kUnloads, kWakes, kHeld}) metrics.declare(info);
}

Slot::Rest rest_of(Duration idle, Timestamp used, Timestamp now, Slot::Rest before) {
  using Rest = Slot::Rest;
  if (idle == Duration{}) return Rest::kAwake;
  if (before == Rest::kAsleep) return Rest::kAsleep;
  if (now - used < idle) return Rest::kAwake;
  return before == Rest::kDrowsy ? Rest::kAsleep : Rest::kDrowsy;
}

Result<bool> Deployments::Impl::rests(const storage::Object& object, Slot& slot, Table& next) {
  using Rest = Slot::Rest;
  const Rest before = slot.rest;
  const bool serves = slot.live != nullptr;
  // A rollout compares what answers: its champion stays.
  if (!serves && before == Rest::kWaking) return false;
  if ((!serves && before != Rest::kAsleep) || (serves && slot.live->split != nullptr)) {
    slot.rest = Rest::kAwake;
    return false;
  }
  if (before == Rest::kAsleep && slot.for_memory && may_leave(slot.declared)) return true;
  slot.rest =
      rest_of(slot.declared.idle, serves ? used_last(slot) : Timestamp{}, clock.now(), before);
  if (slot.rest == before) return before == Rest::kAsleep;
  if (slot.rest == Rest::kAsleep) {
    Value detail;
    detail["version"] = slot.live->version.version;
    detail["unused_since"] = to_rfc3339(used_last(slot));
    slot.rest = before;  // Should it not be written down, it is tried again.
    FALAJ_TRY(remember(slot.live.get(), object, "deployment.idle", std::move(detail)));
    metrics.counter(kUnloads, {object.project, object.name}).add();
    fall_asleep(slot);
  }
  if (before == Rest::kAsleep) slot.state = "loading";
  publish(next);
  return slot.rest == Rest::kAsleep;
}

Status Deployments::Impl::wake(const Key& key) {
  storage::Object object;
  MutexLock lock(ticking);
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    object = FALAJ_TRY(storage::get_object(tx, "Deployment", key.first, key.second));
    return {};
  }));
  Table next = *table.load();
  const auto found = next.find(key);
  if (found == next.end() || found->second.rest != Slot::Rest::kAsleep) return {};
  Slot& slot = found->second;
  metrics.counter(kWakes, {key.first, key.second}).add();
  return load_asleep(object, slot, next, Called::kYes);
}

Status Deployments::Impl::load_asleep(const storage::Object& object, Slot& slot, Table& next,
                                      Called called) {
  slot.rest = Slot::Rest::kWaking;  // Published while it loads: who comes now waits too.
  slot.asked = called == Called::kYes;
  slot.state = "loading";
  const Status done = reconcile(object, next);
  if (slot.rest == Slot::Rest::kWaking) slot.rest = Slot::Rest::kAwake;
  publish(next);
  return done;
}

void Deployments::Impl::fall_asleep(Slot& slot) {
  slot.rest = Slot::Rest::kAsleep;
  slot.for_memory = false;
  slot.used = used_last(slot);
  slot.slept_version = slot.live->version.version;
  slot.rest_bytes = bytes_of(*slot.live);
  clear_answers(slot);
  slot.live = nullptr;
  slot.state = "idle";
  slot.error.clear();
}

namespace {

// Of all that may answer in its place too: who asks cannot tell which of them does.
bool waits(const LiveModel& live) {
  if (live.session != nullptr && live.session->may_wait()) return true;
  if (live.fallback != nullptr && waits(*live.fallback)) return true;
  if (live.split != nullptr && live.split->candidate != nullptr && waits(*live.split->candidate)) {
    return true;
  }
  return std::any_of(live.others.begin(), live.others.end(),
                     [](const auto& other) { return waits(*other); });
}

// Whether who asks it may have to wait: for its load, or for a process of the model's own.
bool holds_up(const Slot& slot) {
  return slot.rest != Slot::Rest::kAwake || (slot.live != nullptr && waits(*slot.live));
}

}  // namespace

void Deployments::Impl::publish(const Table& next) {
  table.replace(std::make_shared<const Table>(next));
  some_hold_up = std::any_of(next.begin(), next.end(),
                             [](const auto& entry) { return holds_up(entry.second); });
}

bool Deployments::may_wait(std::string_view named) const {
  if (!impl_->some_hold_up.load(std::memory_order_relaxed)) return false;
  const std::shared_ptr<const Table> table = impl_->table.load();
  return std::any_of(table->begin(), table->end(), [named](const auto& entry) {
    const auto& [project, name] = entry.first;
    if (!holds_up(entry.second) || !named.ends_with(name)) return false;
    const std::string_view before = named.substr(0, named.size() - name.size());
    return before.empty() ||
           (before.ends_with('.') && before.substr(0, before.size() - 1) == project);
  });
}

bool Deployments::is_idle(const ProjectName& project, const std::string& deployment) const {
  const std::shared_ptr<const Table> table = impl_->table.load();
  const auto found = table->find(KeyLess::View{project.str(), deployment});
  return found != table->end() && found->second.rest != Slot::Rest::kAwake;
}

Result<std::shared_ptr<const LiveModel>> Deployments::find_awake(const ProjectName& project,
                                                                 const std::string& deployment,
                                                                 Timestamp deadline) const {
  Result<std::shared_ptr<const LiveModel>> live = find(project, deployment);
  if (live.ok() || !is_idle(project, deployment)) return live;
  const std::int64_t begun = monotonic_nanos();
  const Key key{project.str(), deployment};
  const std::int64_t left = deadline == Timestamp::max()
                                ? kHeldMax.nanos
                                : std::min((deadline - impl_->clock.now()).nanos, kHeldMax.nanos);
  bool first = false;
  bool done = true;
  {
    MutexLock lock(impl_->waking);
    first = impl_->wakes.insert(key).second;
    if (!first) {
      const auto over = [this, &key]()
                            FALAJ_REQUIRES(impl_->waking) { return !impl_->wakes.contains(key); };
      done = impl_->woken.wait_for(impl_->waking,
                                   std::chrono::nanoseconds(std::max<std::int64_t>(left, 0)), over);
    }
  }
  if (first) {
    const Status woken = impl_->wake(key);
    {
      MutexLock lock(impl_->waking);
      impl_->wakes.erase(key);
      impl_->woken.notify_all();
    }
    FALAJ_TRY(woken);
  }
  impl_->metrics.histogram(kHeld, {key.first, key.second}).observe_nanos(monotonic_nanos() - begun);
  if (done) return find(project, deployment);
  return Error(ErrorId::kOverloaded,
               "deployment '" + deployment + "' was idle and is still loading; ask again");
}

}  // namespace falaj::serving
