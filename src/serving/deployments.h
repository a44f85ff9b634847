// serving/deployments.h — which model version answers under which name, and how it is swapped.
//
// Desired state is the Deployment object and the alias it names; tick() makes it so: load, verify
// the hash, warm, flip, let the old version finish its requests. A version that fails to load
// leaves the old one serving, and says why in the status.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "features/online.h"
#include "registry/models.h"
#include "security/audit.h"
#include "serving/batching/batcher.h"
#include "serving/budget/memory_budget.h"
#include "serving/deployment_status.h"
#include "serving/explain/explain.h"
#include "serving/graph/graph_session.h"
#include "serving/phases.h"
#include "serving/prediction_sink.h"
#include "serving/requests.h"
#include "serving/rollout/recordings.h"
#include "serving/rollout/split.h"
#include "serving/runtime.h"
#include "storage/objects.h"
#include "telemetry/metrics.h"

namespace falaj::serving {

// What the classes of an output are called, by its name, in the order of the classes: for the
// classification extension (api/inference/infer_codec.h).
using Labels = std::map<std::string, std::vector<std::string>, std::less<>>;

inline constexpr unsigned kVersionsMax = 32;  // That answer beside the one that is served.

// kind: Deployment   spec: {model: fraud, alias: champion | version: 3, features: fraud_v1,
//                           slo: {p99: 20ms}, batch: auto | never, runtime: openvino,
//                           cache: {bytes: 64Mi, shared: caller | project},
//                           scale: {idle: 10m, when_full: unload | stay},
//                           record: {share: 1%, requests: 1000, age: 7d},
//                           labels: {probabilities: [no, yes]},
//                           fallback: {model: fraud_small, alias: champion | version: 1},
//                           versions: all | {latest: 2} | [1, 3],
//                           graph: [steps], answers: [tensors]}  (graph/declaration.h)
struct Deployment {
  std::string name;
  std::string model;
  std::string alias = "champion";
  std::optional<std::int64_t> version;  // Pins instead of the alias.
  std::string feature_service;          // "" takes the model version's.
  Duration slo{};                       // How long an answer may take; 0: as long as it does.
  // Whether requests may run together (batching/batcher.h).
  enum class Batch : std::uint8_t { kAuto, kNever };
  Batch batch = Batch::kAuto;
  // Whether answers to tensors are kept for equal questions (response_cache.h), and for whom: for
  // the caller who had it, or for all of the project who may ask.
  struct Cache {
    enum class Shared : std::uint8_t { kCaller, kProject };
    std::size_t bytes = 0;  // 0: none.
    Shared shared = Shared::kCaller;
    bool operator==(const Cache&) const = default;
  };
  Cache cache;
  std::string runtime;  // By the name it was offered under; "": the server's own.
  Duration idle{};      // Unused for so long, it is unloaded until the next request; 0: never.
  // Whether it may be unloaded until the next request when another needs its memory.
  enum class WhenFull : std::uint8_t { kStay, kUnload };
  WhenFull when_full = WhenFull::kStay;
  rollout::RecordRule record;  // Which requests are kept to be replayed.
  Labels labels;
  // Who answers to tensors, before a request is refused for want of time.
  struct Fallback {
    std::string model;
    std::string alias;
    std::optional<std::int64_t> version;
  };
  std::optional<Fallback> fallback;
  // Further versions of the model that answer whoever names them, at most kVersionsMax.
  struct Versions {
    enum class Which : std::uint8_t { kNone, kAll, kLatest, kListed } which = Which::kNone;
    std::int64_t latest = 0;
    std::vector<std::int64_t> listed;
  };
  Versions versions;
  Graph graph;  // Empty: the model alone.
};
Result<Deployment> decode_deployment(const storage::Object& object);
std::vector<storage::KindInfo> kinds();

struct Series;  // Counters and latency of one version of one deployment; see deployments.cc.
struct Cached;  // The deployment's cache as one version uses it; see internal/deployments_impl.h.

// One version of one deployment, ready to answer. Immutable; held by requests while they run.
struct LiveModel {
  std::string project;
  std::string deployment;
  registry::ModelVersion version;
  std::shared_ptr<Session> session;
  std::shared_ptr<const GraphSession> graph;  // The session itself, if it is one of several steps.
  std::shared_ptr<const features::OnlinePlan> plan;  // null: no features, infer only.
  std::vector<std::uint32_t> columns;          // Model column i reads plan->columns[columns[i]].
  std::string alias;                           // "" when the version is pinned.
  std::shared_ptr<Series> series;              // Its counters; null only in tests.
  std::shared_ptr<batching::Batcher> batcher;  // Null only in tests.
  std::size_t rows_together = 1;               // Of requests that run together; 1: they do not.
  Deployment::Batch batch = Deployment::Batch::kAuto;
  Duration slo{};
  std::string runtime;                          // As declared.
  std::shared_ptr<Cached> cached;               // Null: answers are not kept.
  std::shared_ptr<const Labels> labels;         // Null: classes have no names.
  std::shared_ptr<rollout::Recorder> recorder;  // Null: requests are not recorded.
  // What answers instead when this one would be late; it has none itself. Null: nothing does.
  std::shared_ptr<const LiveModel> fallback;
  // Further versions, which answer who names them; they have none of these themselves. By number.
  std::vector<std::shared_ptr<const LiveModel>> others;
  // Of a fallback by another model: the deployment's, whose rows these are not.
  std::string stands_in_for;
  // While a rollout shares its traffic; null otherwise, and then requests pay nothing for it.
  std::shared_ptr<const rollout::Split> split;
};

// The one of that number among it and its others; null: it does not serve.
std::shared_ptr<const LiveModel> version_of(const std::shared_ptr<const LiveModel>& live,
                                            std::int64_t version);
// Names the file that answers; of a graph all of them, and its declaration.
std::string digest_of(const LiveModel& live);
// Whether its rows are those of the deployment's model, which monitors compare with its training.
bool has_rows_of_model(const LiveModel& live);

struct EntityPrediction {
  float score = 0;
  std::int64_t version = 0;
  const LiveModel* live = nullptr;        // Valid while `hold` lives, or the caller's own hold.
  std::shared_ptr<const LiveModel> hold;  // Null from predict_all().
  features::OnlineRow row;
};

struct Inference {
  std::int64_t version = 0;  // Which one answered.
  std::vector<Tensor> outputs;
  // Whether the model ran for it. kNone: the deployment has no cache. kJoined: it ran for an equal
  // request at the same time.
  enum class Cache : std::uint8_t { kNone, kMiss, kHit, kJoined } cache = Cache::kNone;
  PhaseTimes times = {};  // Queue, batch and execute.
  std::shared_ptr<const LiveModel> fallback =
      nullptr;  // That answered; null: the deployment's own.
};
std::string_view cache_word(Inference::Cache cache);  // "", "miss", "hit", "joined"

using InferDone = std::function<void(Result<Inference>)>;

class Deployments {
 public:
  Deployments(storage::SqlStore& sql, registry::Models& models, features::Online& online,
              Runtime& runtime, PredictionSink& sink, security::Audit& audit,
              telemetry::Metrics& metrics, const Clock& clock);
  ~Deployments();

  // How much of the machine all models may have together. Before the first tick(); without it every
  // processor, and as much memory as there is.
  struct Limits {
    unsigned processors = 1;  // Of which each model runs on so many at once.
    budget::BudgetOptions memory{};
    std::function<std::int64_t()> nanos = monotonic_nanos;  // What deadlines go by.
  };
  void limit(const Limits& limits);

  // Another runtime, for Deployments that name it. Before the first tick().
  void offer(const std::string& name, std::unique_ptr<Runtime> runtime);

  // Where requests of Deployments with `record` go; without it none is recorded. Before the first
  // tick().
  void record_into(rollout::Recordings& recordings);

  // Brings the live state to the desired one. Call on the background thread or after a change.
  Status tick();

  // Stops serving every version of a model ("" for all of the project's) at once: what it is made
  // of was destroyed. Requests that run finish; the next tick() finds out whether another version
  // can be loaded.
  void forget(const ProjectName& project, const std::string& model);

  // Drops every answer that a cache of the project keeps: someone whose data may be among them was
  // erased. tick() does it when grants, groups or zones have changed; callers who may not ask any
  // more are refused before the cache is looked at in any case.
  void drop_answers(const ProjectName& project);

  // Stops serving a deployment until load() or the next start; it stays declared. Requests that run
  // finish. FJ-5001 when there is none. In the audit log.
  Status unload(const security::RequestContext& context, const std::string& deployment);
  // Serves it again, or tries again at once what failed to load before. FJ-5003 says why it could
  // not. Loads from disk.
  Status load(const security::RequestContext& context, const std::string& deployment);

  // The live model, or FJ-5001 / FJ-5003. Never blocks.
  Result<std::shared_ptr<const LiveModel>> find(const ProjectName& project,
                                                const std::string& deployment) const;
  // The same, and one that is idle is loaded first, on this thread, while all others who ask for it
  // wait: for as long as it takes on the first, no later than `deadline` and for 30 s at most on
  // the others (FJ-5040). Not on an event loop, unless may_wait() says no.
  Result<std::shared_ptr<const LiveModel>> find_awake(const ProjectName& project,
                                                      const std::string& deployment,
                                                      Timestamp deadline = Timestamp::max()) const;
  // Whether it is unloaded until somebody asks, or about to be. Never blocks.
  bool is_idle(const ProjectName& project, const std::string& deployment) const;
  // Whether to ask off the event loop, of any project's, by "name" or "project.name": it is idle,
  // or its model is in a process of its own. A tick at least passes between the first yes and the
  // unloading: who was told no has time to ask.
  bool may_wait(std::string_view named) const;
  // The projects that have a deployment of this name. Never blocks.
  std::vector<std::string> projects_with(std::string_view deployment) const;
  // Entity ids in, prediction out: reads the features in this process, scores, offers the record to
  // the sink. Never blocks on disk: safe on an event-loop thread.
  // FJ-3007 names a key column that `keys` lacks; others than the plan's are ignored.
  Result<EntityPrediction> predict(
      const ProjectName& project, const std::string& deployment,
      const std::vector<std::pair<std::string, features::KeyPart>>& keys,
      const std::string& request_id) const;
  // The same on a model that find() gave.
  Result<EntityPrediction> predict(
      const std::shared_ptr<const LiveModel>& live,
      const std::vector<std::pair<std::string, features::KeyPart>>& keys,
      const std::string& request_id) const;
  // Several entities of one request, answered by one version and counted as one request of so many
  // rows. The first entity that cannot be answered fails the request, and then none of them goes to
  // the sink. `predictions` is overwritten:
  // given again and again, it costs no memory. While a rollout shares the traffic the candidate
  // may answer (`live` of a prediction says who did); if it cannot, the champion does instead.
  // `times`, unless null, is given what features and execute took.
  Status predict_all(
      const std::shared_ptr<const LiveModel>& live,
      std::span<const std::vector<std::pair<std::string, features::KeyPart>>> entities,
      const std::string& request_id, std::vector<EntityPrediction>& predictions,
      PhaseTimes* times = nullptr) const;
  // Tensors in, tensors out (the inference dialect). Rows of a model with one float input go to the
  // sink as well, the first 1000 of a request.
  Result<Inference> infer(const LiveModel& live, std::span<const Tensor> inputs,
                          const std::string& request_id, MayShare share = MayShare::kYes) const;

  // The same, begun now: `done` is called once, on this thread or on one that runs the model
  // already. A request that would not be answered in time goes to the fallback; FJ-5040 when there
  // is none, or it would be late too. While a rollout shares the
  // traffic nothing waits and nothing runs together; each arm has its own answers in the cache.
  void infer(const std::shared_ptr<const LiveModel>& live, InferJob job, InferDone done) const;

  // Counts where the time of an answered request went. Never blocks.
  static void observe(const LiveModel& live, const PhaseTimes& times);

  // Why rows get their answer from this version (explain/explain.h). No prediction: nothing goes to
  // the sink and no counter moves. Takes up to the budget on this thread, no longer than to the
  // deadline. FJ-5040 while as many explanations run as there are processors, halved: predictions
  // go first.
  Result<explain::Explanation> explain(const LiveModel& live, const ExplainJob& job) const;
  // The same of entities, whose features are read as predict() reads them; the question's inputs
  // are made here.
  Result<explain::Explanation> explain(
      const LiveModel& live,
      std::span<const std::vector<std::pair<std::string, features::KeyPart>>> entities,
      ExplainJob job) const;

  // For rollouts (serving/rollout/rollouts.h).
  //
  // Another version of the deployment's model, verified and warmed, beside what serves; `before`
  // itself when it is that version and nothing that it depends on has changed. Loads from disk.
  Result<std::shared_ptr<const LiveModel>> prepare(const ProjectName& project,
                                                   const std::string& deployment,
                                                   std::int64_t version,
                                                   const std::shared_ptr<const LiveModel>& before);
  // Shares the traffic of `champion` from now on as `split` says; null: not any more. FJ-5003 when
  // that version does not serve. May wait for a load; to stop at once set split->stopped.
  Status share(const ProjectName& project, const std::string& deployment, std::int64_t champion,
               std::shared_ptr<const rollout::Split> split);
  // What this version answers; no log, no metric, no recording, no cache. Of entities their scores,
  // with features as they are now.
  Result<std::vector<Tensor>> ask_unseen(const LiveModel& live, const rollout::Asked& asked) const;
  // Lets the candidate answer what waits in the mirror, for `budget` at most, or one request when
  // that takes longer. Counted in the split and nowhere else.
  Left answer_mirrored(const rollout::Split& split, Duration budget) const;

  std::vector<DeploymentStatus> status() const;
  // Those that should answer and cannot: their version exists, it failed to load, and no other
  // serves. One that waits for its first version is none of them. Never blocks.
  std::vector<DeploymentStatus> unready() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::serving
