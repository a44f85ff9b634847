// Answers that are kept for equal questions: who asks the cache, and what it counts for.
#include <algorithm>

#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

using telemetry::MetricInfo;
using telemetry::MetricKind;
const std::vector<std::string> kVersionLabels{"project", "deployment", "version"};
const std::vector<std::string> kDeploymentLabels{"project", "deployment"};
const MetricInfo kHits{"falaj_serving_cache_hit_seconds",
                       "Time to answer a request with what the cache kept.", MetricKind::kHistogram,
                       kVersionLabels};
const MetricInfo kMisses{"falaj_serving_cache_miss_seconds",
                         "Time to look for an answer that was not kept, and to keep it.",
                         MetricKind::kHistogram, kVersionLabels};
const MetricInfo kBytes{"falaj_serving_cache_bytes", "What a deployment's cache holds.",
                        MetricKind::kGauge, kDeploymentLabels};
const MetricInfo kEvicted{"falaj_serving_cache_evicted_total",
                          "Answers that a cache gave up for newer ones.", MetricKind::kCounter,
                          kDeploymentLabels};

Sha256 key_of(const LiveModel& live, const InferJob& job) {
  const bool own = live.cached->declared.shared == Deployment::Cache::Shared::kCaller;
  // Another runtime gives other digits for the same file.
  std::string answering = digest_of(live);
  if (!live.runtime.empty()) answering += '@' + live.runtime;
  return question_key(answering, own ? job.tenant : std::string_view(), job.inputs);
}

// Keeps what the model answered; gives who waited for it.
std::vector<ResponseCache::Waiter> keep_answer(const Cached& cached, const Sha256& key,
                                               const ResponseCache::Asked& asked,
                                               const KeptOutputs& outputs, std::int64_t looked) {
  const std::int64_t begun = monotonic_nanos();
  ResponseCache::Finished finished = cached.answers->finish(key, asked, outputs);
  cached.misses.observe_nanos(looked + monotonic_nanos() - begun);
  cached.evicted.add(finished.evicted);
  cached.bytes.set(static_cast<double>(cached.answers->bytes()));
  return std::move(finished.waiters);
}

KeptOutputs outputs_of(Result<Inference>& answer) {
  // What a fallback answered is not this model's answer.
  if (!answer.ok() || answer->fallback != nullptr) return nullptr;
  answer->cache = Inference::Cache::kMiss;
  return std::make_shared<const std::vector<Tensor>>(answer->outputs);
}

// Calls it with each cache that `live` and what answers beside it keep answers in.
template <class Use>
void each_cache(const LiveModel& live, const Use& use) {
  if (live.cached != nullptr) use(*live.cached->answers);
  if (live.fallback != nullptr) each_cache(*live.fallback, use);
  for (const auto& other : live.others) each_cache(*other, use);
  if (live.split != nullptr && live.split->candidate != nullptr) {
    each_cache(*live.split->candidate, use);
  }
}

bool keeps_answers(const Slot& slot) {
  bool any = slot.answers != nullptr;
  if (slot.live != nullptr) each_cache(*slot.live, [&any](const ResponseCache&) { any = true; });
  return any;
}

}  // namespace

void clear_answers(const Slot& slot) {
  if (slot.answers != nullptr) slot.answers->clear();
  if (slot.live != nullptr) each_cache(*slot.live, [](ResponseCache& each) { each.clear(); });
}

std::string_view cache_word(Inference::Cache cache) {
  switch (cache) {
    case Inference::Cache::kNone:
      return "";
    case Inference::Cache::kMiss:
      return "miss";
    case Inference::Cache::kHit:
      return "hit";
    case Inference::Cache::kJoined:
      return "joined";
  }
  return "";
}

void declare_cache_metrics(telemetry::Metrics& metrics) {
  for (const MetricInfo& info : {kHits, kMisses, kBytes, kEvicted}) metrics.declare(info);
}

void add_cache_figures(const LiveModel& live, DeploymentStatus& status) {
  if (live.cached == nullptr) return;
  const telemetry::HistogramSnapshot hits = live.cached->hits.snapshot();
  const telemetry::HistogramSnapshot misses = live.cached->misses.snapshot();
  status.cache_hits = hits.count;
  status.cache_misses = misses.count;
  status.cache_hit_seconds = hits.sum_seconds;
  status.cache_miss_seconds = misses.sum_seconds;
}

std::int64_t deadline_of(const LiveModel& live, const InferJob& job, std::int64_t begun,
                         Timestamp now) {
  std::int64_t deadline = batching::kNoDeadline;
  const Duration limit = job.timeout.nanos > 0 ? job.timeout : live.slo;
  if (limit.nanos > 0) deadline = begun + limit.nanos;
  if (job.deadline == Timestamp::max()) return deadline;
  return std::min(deadline, begun + (job.deadline - now).nanos);
}

// Anew when another size is declared: what was kept is dropped.
void Deployments::Impl::renew_answers(Slot& slot) {
  const std::size_t bytes = slot.declared.cache.bytes;
  if (bytes == 0) {
    slot.answers = nullptr;
  } else if (slot.answers == nullptr || slot.answers->bytes_max() != bytes) {
    slot.answers = std::make_shared<ResponseCache>(bytes);
  }
}

void Deployments::Impl::add_cache(const Slot& slot, LiveModel& live) {
  if (slot.answers == nullptr) {
    live.cached = nullptr;
    return;
  }
  const bool same = live.cached != nullptr && live.cached->answers == slot.answers &&
                    live.cached->declared == slot.declared.cache;
  if (same) return;
  const std::vector<std::string> deployment{live.project, live.deployment};
  std::vector<std::string> version = deployment;
  version.push_back(std::to_string(live.version.version));
  live.cached = std::shared_ptr<Cached>(
      new Cached{slot.answers, slot.declared.cache, metrics.histogram(kHits, version),
                 metrics.histogram(kMisses, version), metrics.gauge(kBytes, deployment),
                 metrics.counter(kEvicted, deployment)});
}

void Deployments::drop_answers(const ProjectName& project) {
  for (const auto& [key, slot] : *impl_->table.load()) {
    if (key.first == project.str()) clear_answers(slot);
  }
}

// Who may ask may be another from now on. The gate has refused already who may not; but what was
// kept for them is nobody's any more.
Status Deployments::Impl::drop_when_rules_change(storage::SqlTransaction& tx,
                                                 const Table& serving) {
  const bool any = std::any_of(serving.begin(), serving.end(),
                               [](const auto& entry) { return keeps_answers(entry.second); });
  if (!any) return {};
  std::string now;
  for (const char* kind : {"Grant", "Group", "Project", "Zone"}) {
    for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, kind))) {
      now += object.kind + '/' + object.project + '/' + object.name + '@' +
             std::to_string(object.generation) + '\n';
    }
  }
  now = sha256_hex(now);
  if (!rules.empty() && now != rules) {
    for (const auto& [key, slot] : serving) clear_answers(slot);
  }
  rules = std::move(now);
  return {};
}

Inference Deployments::Impl::kept_answer(const LiveModel& live, const InferJob& job,
                                         const KeptOutputs& outputs, Inference::Cache how,
                                         std::int64_t begun) const {
  Inference answer{live.version.version, *outputs, how, {}};
  if (how == Inference::Cache::kJoined) answer.times[Phase::kQueue] = steady() - begun;
  if (live.series == nullptr) return answer;
  // It was answered, if not computed: monitors see it, and rows that were predicted do not grow.
  log_rows(live, job.inputs, answer.outputs, job.request_id);
  live.series->requests.add();
  const std::int64_t took = steady() - begun;
  live.series->seconds.observe_nanos(took);
  if (how == Inference::Cache::kHit) live.cached->hits.observe_nanos(took);
  if (how == Inference::Cache::kJoined) live.series->joined.add();
  return answer;
}

void Deployments::Impl::infer_cached(const std::shared_ptr<const LiveModel>& live, InferJob job,
                                     InferDone done) const {
  const std::int64_t begun = steady();
  const Sha256 key = key_of(*live, job);
  const ResponseCache::Urgency urgency{job.priority, deadline_of(*live, job, begun, clock.now())};
  const auto park = [&]() -> ResponseCache::Waiter {
    return [this, live, begun, job = std::move(job),
            done = std::move(done)](const KeptOutputs& outputs) {
      if (outputs != nullptr) {
        return done(kept_answer(*live, job, outputs, Inference::Cache::kJoined, begun));
      }
      // Who ran got no answer, perhaps for a reason of its own: too late, or gone.
      submit(live, job, begun, done);
    };
  };
  ResponseCache::Asked asked = live->cached->answers->ask(key, urgency, park);
  if (asked.how == ResponseCache::Asked::How::kWait) return;
  if (asked.how == ResponseCache::Asked::How::kKept) {
    return done(kept_answer(*live, job, asked.outputs, Inference::Cache::kHit, begun));
  }
  infer_first(live, std::move(job), std::move(asked), key, begun, std::move(done));
}

void Deployments::Impl::infer_first(const std::shared_ptr<const LiveModel>& live, InferJob job,
                                    ResponseCache::Asked asked, const Sha256& key,
                                    std::int64_t begun, InferDone done) const {
  const std::int64_t looked = steady() - begun;
  submit(live, std::move(job), begun,
         [live, asked = std::move(asked), key, looked,
          done = std::move(done)](Result<Inference> answer) {
           const KeptOutputs outputs = outputs_of(answer);
           // Kept before it is told: who asks again upon it finds it.
           const auto waiters = keep_answer(*live->cached, key, asked, outputs, looked);
           done(std::move(answer));
           for (const ResponseCache::Waiter& waiter : waiters) waiter(outputs);
         });
}

// On this thread, waiting for nobody.
Result<Inference> Deployments::Impl::run(const LiveModel& live, const InferJob& job,
                                         std::int64_t& nanos) const {
  if (live.cached == nullptr) return run_model(live, job, nanos);
  const std::int64_t begun = steady();
  const Sha256 key = key_of(live, job);
  const ResponseCache::Asked asked = live.cached->answers->look(key);
  if (asked.how == ResponseCache::Asked::How::kKept) {
    nanos = -1;
    return kept_answer(live, job, asked.outputs, Inference::Cache::kHit, begun);
  }
  const std::int64_t looked = steady() - begun;
  Result<Inference> answer = run_model(live, job, nanos);
  const KeptOutputs outputs = outputs_of(answer);
  for (const auto& waiter : keep_answer(*live.cached, key, asked, outputs, looked)) {
    waiter(outputs);
  }
  return answer;
}

}  // namespace falaj::serving
