// How Deployments is made inside: shared by deployments.cc (what serves), deployments_sharing.cc
// (requests while a rollout runs) and deployments_cached.cc (answers that are kept).
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "serving/deployments.h"
#include "serving/response_cache.h"

namespace falaj::serving {

// Shared by the live model, so that touching a counter on the hot path looks nothing up.
struct Series {
  std::string full_name;  // "payments/fraud"
  telemetry::Counter& requests;
  telemetry::Counter& errors;
  telemetry::Counter& rows;
  telemetry::Histogram& seconds;
  telemetry::Counter& joined;
  telemetry::Counter& refused;
  telemetry::Counter& fallbacks;
  std::array<telemetry::Histogram*, kPhases.size()> phases;  // The deployment's, of all versions.
  std::atomic<std::int64_t> last_nanos = 0;  // Of the epoch: when it was asked last.

  // To the millisecond: threads that answer at once do not fight for the cache line.
  void touch(Timestamp now) {
    if (now.nanos - last_nanos.load(std::memory_order_relaxed) >= 1'000'000) {
      last_nanos.store(now.nanos, std::memory_order_relaxed);
    }
  }
};

// All versions of a deployment keep their answers in one cache, under their own digests: a version
// that is swapped in again finds what it had. The times are a version's own.
struct Cached {
  std::shared_ptr<ResponseCache> answers;
  Deployment::Cache declared;
  telemetry::Histogram& hits;
  telemetry::Histogram& misses;
  telemetry::Gauge& bytes;
  telemetry::Counter& evicted;
};

struct Slot {
  Deployment declared;
  std::int64_t generation = 0;
  std::shared_ptr<const LiveModel> live;   // null: nothing serves yet.
  std::shared_ptr<ResponseCache> answers;  // null: none is declared.
  std::string state = "loading";
  std::string error;
  bool unloaded = false;  // By request: stays so until load().
  // Unused for long. kDrowsy: still there, and unloaded at the next look if nobody asks meanwhile.
  // kWaking: somebody who asked loads it.
  enum class Rest : std::uint8_t { kAwake, kDrowsy, kAsleep, kWaking };
  Rest rest = Rest::kAwake;
  std::int64_t slept_version = 0;   // What answered before it was unloaded, or would have.
  bool asked = false;               // Somebody wants it now: others leave for it, if they may.
  bool for_memory = false;          // It is asleep because others needed its memory.
  std::int64_t rest_bytes = 0;      // What it will need when it is loaded.
  Timestamp used{};                 // When it was asked last before it was unloaded.
  std::int64_t failed_version = 0;  // With failed_at: what not to try again yet.
  Timestamp failed_at{};
  Timestamp since{};
};

using Key = std::pair<std::string, std::string>;  // Project, name.
struct KeyLess {
  using is_transparent = void;
  using View = std::pair<std::string_view, std::string_view>;
  static View view(const Key& key) { return {key.first, key.second}; }
  static View view(const View& key) { return key; }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return view(a) < view(b);
  }
};
using Table = std::map<Key, Slot, KeyLess>;

using rollout::EntityKeys;

// How a request went, and how long it took.
struct Timed {
  Status status;
  std::int64_t nanos = 0;
  PhaseTimes times;  // Features and execute.
};

enum class Trace : std::uint8_t { kCounted, kNone };  // kNone: no log, no metric.

struct Deployments::Impl {
  storage::SqlStore& sql;
  registry::Models& models;
  features::Online& online;
  Runtime& runtime;
  PredictionSink& sink;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;

  Mutex ticking;  // One reconciler at a time; readers never take it.
  Published<Table> table;
  mutable std::atomic<unsigned> explaining = 0;  // Explanations that run now.
  std::map<std::string, std::unique_ptr<Runtime>> offered;
  std::string rules;  // Under `ticking`: what drop_when_rules_change() saw last.
  std::atomic<bool> some_hold_up = false;  // Of what is published.
  mutable Mutex waking;
  mutable CondVar woken;
  mutable std::set<Key> wakes FALAJ_GUARDED_BY(waking) = {};  // Being loaded by somebody who asked.
  unsigned processors = 1;                                    // That each model may run on at once.
  std::shared_ptr<budget::MemoryBudget> memory = nullptr;
  rollout::Recordings* recordings = nullptr;               // Null: nothing is recorded.
  std::function<std::int64_t()> steady = monotonic_nanos;  // What deadlines go by.

  Status reconcile(const storage::Object& object, Table& next) FALAJ_REQUIRES(ticking);
  Status bring_up(const storage::Object& object, Slot& slot, std::int64_t version, Table& next)
      FALAJ_REQUIRES(ticking);
  Result<std::int64_t> desired_version(const ProjectName& project, const Deployment& declared);
  Result<std::shared_ptr<const LiveModel>> load(const storage::Object& object, const Slot& slot,
                                                std::int64_t version);
  Result<Runtime*> runtime_named(const std::string& name) const;
  Result<std::shared_ptr<Session>> open_session(const registry::ModelVersion& version,
                                                const std::string& runtime_name);
  Status add_features(const Deployment& declared, LiveModel& live);
  // deployments_graph.cc: makes the session what is declared, of parts that serve already and parts
  // that are loaded.
  // `before`: what serves now; may be null.
  Status add_graph(const Deployment& declared, const LiveModel* before, LiveModel& live);
  Result<std::vector<GraphPart>> wanted_parts(const Deployment& declared, const LiveModel& live);
  Status open_parts(const LiveModel* before, const LiveModel& live, std::vector<GraphPart>& parts);
  std::shared_ptr<Series> series(const LiveModel& live);
  Status remember(const LiveModel* live, const storage::Object& object, std::string_view action,
                  Value detail);
  void drop_removed(const std::vector<storage::Object>& objects, Table& next);
  void publish(const Table& next);
  void log_rows(const LiveModel& live, std::span<const Tensor> inputs,
                const std::vector<Tensor>& outputs, const std::string& request_id) const;
  // The features of an entity as they are now, in the model's order.
  Status read_features(const LiveModel& live, const EntityKeys& keys, Timestamp now,
                       features::OnlineRow& read, std::vector<float>& row) const;
  // Fills `logged` with what the sink is to be offered once the whole request is answered.
  Status answer(const LiveModel& live, const EntityKeys& keys, EntityPrediction& prediction,
                Prediction& logged, Laps& laps) const;
  Timed answer_all(const LiveModel& live, std::span<const EntityKeys> entities,
                   const std::string& request_id, std::vector<EntityPrediction>& predictions,
                   Trace trace) const;
  Status answer_shared(const LiveModel& live, std::span<const EntityKeys> entities,
                       const std::string& request_id, std::vector<EntityPrediction>& predictions,
                       PhaseTimes& times) const;
  // `nanos`: how long the model took; -1 when it did not run.
  Result<Inference> run(const LiveModel& live, const InferJob& job, std::int64_t& nanos) const;
  Result<Inference> run_model(const LiveModel& live, const InferJob& job,
                              std::int64_t& nanos) const;
  Result<Inference> finished(const LiveModel& live, Result<std::vector<Tensor>> outputs,
                             std::span<const Tensor> inputs, const std::string& request_id,
                             std::int64_t begun, const PhaseTimes& times) const;
  void add_batcher(const Deployment& declared, LiveModel& live);
  Result<Inference> run_shared(const LiveModel& live, const InferJob& job) const;
  void submit(const std::shared_ptr<const LiveModel>& live, InferJob job, std::int64_t begun,
              InferDone done) const;

  // deployments_fallback.cc
  // `before`: what serves now; may be null.
  Status add_fallback(const Deployment& declared, const LiveModel* before, LiveModel& live);
  Result<registry::ModelVersion> fallback_version(const ProjectName& project,
                                                  const Deployment& declared);
  // Hands a request that `live` would answer too late to its fallback. False: it has none, or it is
  // too late for any.
  bool fall_back(const std::shared_ptr<const LiveModel>& live, batching::Job late,
                 const std::string& request_id, std::int64_t begun, const InferDone& done) const;

  // deployments_versions.cc
  // The numbers of the further versions that are wanted beside `version`, ascending.
  Result<std::vector<std::int64_t>> wanted_versions(const ProjectName& project,
                                                    const Deployment& declared,
                                                    std::int64_t version);
  Status add_versions(const storage::Object& object, const Slot& slot, LiveModel& live);

  // deployments_cached.cc
  static void renew_answers(Slot& slot);
  void add_cache(const Slot& slot, LiveModel& live);
  Status drop_when_rules_change(storage::SqlTransaction& tx, const Table& serving)
      FALAJ_REQUIRES(ticking);
  void infer_cached(const std::shared_ptr<const LiveModel>& live, InferJob job,
                    InferDone done) const;
  void infer_first(const std::shared_ptr<const LiveModel>& live, InferJob job,
                   ResponseCache::Asked asked, const Sha256& key, std::int64_t begun,
                   InferDone done) const;
  Inference kept_answer(const LiveModel& live, const InferJob& job, const KeptOutputs& outputs,
                        Inference::Cache how, std::int64_t begun) const;
  void answer_unseen(const rollout::Split& split, const rollout::Mirrored& request) const;

  // deployments_idle.cc
  // True: it is not to be loaded now.
  Result<bool> rests(const storage::Object& object, Slot& slot, Table& next)
      FALAJ_REQUIRES(ticking);
  Status wake(const Key& key);
  enum class Called : std::uint8_t { kYes, kNo };  // By somebody who asked.
  Status load_asleep(const storage::Object& object, Slot& slot, Table& next, Called called)
      FALAJ_REQUIRES(ticking);
  void fall_asleep(Slot& slot) FALAJ_REQUIRES(ticking);

  // deployments_memory.cc
  using LoadedModel = Result<std::shared_ptr<const LiveModel>>;
  // What the models of one are counted with.
  std::int64_t bytes_of(const LiveModel& live) const;
  // What a load of it would need beside what serves in the slot, whose sessions it takes over.
  Result<std::int64_t> need_of(const ProjectName& project, const Slot& slot, std::int64_t version);
  // As load(); others leave for it if they may and it was asked for.
  LoadedModel load_into_room(const storage::Object& object, const Slot& slot, std::int64_t version,
                             Table& next) FALAJ_REQUIRES(ticking);
  LoadedModel load_beside(const storage::Object& object, const Slot& slot, std::int64_t version);
  // Whether there is room for `need` now. Unloads others only if that makes it.
  Result<bool> make_room(const Key& key, std::int64_t need, Table& next) FALAJ_REQUIRES(ticking);
  // For want of memory it sleeps until somebody asks.
  Status rest_unloaded(const storage::Object& object, Slot& slot, std::int64_t version,
                       const Error& full) FALAJ_REQUIRES(ticking);
  // Loads one of those that rest into memory that is free.
  Status prefetch(const std::vector<storage::Object>& objects, Table& next) FALAJ_REQUIRES(ticking);
};

// What to do with a model that was used last at `used`.
Slot::Rest rest_of(Duration idle, Timestamp used, Timestamp now, Slot::Rest before);
void declare_idle_metrics(telemetry::Metrics& metrics);
Timestamp used_last(const Slot& slot);  // Of one that serves.

void declare_memory_metrics(telemetry::Metrics& metrics);
bool is_full(const Error& error);  // For want of memory.
inline bool may_leave(const Deployment& declared) {
  return declared.when_full == Deployment::WhenFull::kUnload;
}

// The steps of a graph and their versions, for the audit log.
Value steps_value(const GraphSession& graph);
bool uses_model(const LiveModel& live, const std::string& model);

// When an answer to the job that was begun then is worth nothing any more; monotonic.
std::int64_t deadline_of(const LiveModel& live, const InferJob& job, std::int64_t begun,
                         Timestamp now);
void declare_cache_metrics(telemetry::Metrics& metrics);
// Of the slot, and of what serves in it: after a load that failed that has the cache from before.
void clear_answers(const Slot& slot);
void add_cache_figures(const LiveModel& live, DeploymentStatus& status);

}  // namespace falaj::serving
