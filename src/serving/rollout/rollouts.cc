#include "serving/rollout/rollouts.h"

#include <map>
#include <optional>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mutex.h"
#include "serving/rollout/internal/record.h"
#include "serving/rollout/internal/sticky.h"

namespace falaj::serving::rollout {
namespace {

using SplitPtr = std::shared_ptr<const Split>;

// How a rollout ended: kept until it is written down.
struct End {
  State state = State::kAborted;
  std::string action;  // Of the audit entry: "rollout.rollback".
  std::string reason;
  Value detail;
};

// Recorded requests on their way to both versions. Of settle()'s thread alone.
struct ReplayRun {
  std::vector<Recorded> requests;  // Oldest first.
  std::size_t left = 0;            // The newest are put first.
  ReplayEvidence evidence;
  std::uint64_t erasures = 0;  // When they were read.
};

// A rollout that runs, in memory.
struct Active {
  Record record;
  std::shared_ptr<ReplayRun> replaying;  // Null before it begins.
  std::shared_ptr<const LiveModel> candidate;
  SplitPtr split;                // As the step says; in place unless …
  bool install_due = true;       // … settle() still has to do it, and until then perhaps …
  SplitPtr before;               // … the one before it.
  std::optional<Error> refusal;  // Why the candidate cannot be put in place.
  std::optional<End> end;
};

// A deployment whose traffic is to be shared no more.
struct Over {
  ProjectName project;
  std::string deployment;
  std::int64_t champion = 0;
};

// What a status shows of it, and what stops it at once.
struct Shown {
  SplitPtr split;   // null before the candidate is loaded.
  SplitPtr before;  // Which may still serve while `split` is put in place.
  Value evidence;
  Value decision;
  std::string reason;
};

std::string order_name(Order order) {
  constexpr std::array<std::string_view, 5> names{"hold", "resume", "approve", "promote", "abort"};
  return std::string(names[static_cast<std::size_t>(order)]);
}

std::string version(std::int64_t number) { return "version " + std::to_string(number); }

// Mirrored requests: how long each shadow in turn, and how often.
constexpr Duration kMirrorTurn = Duration::milliseconds(20);
constexpr int kMirrorRounds = 50;
// A replay, in one settle(): others wait for it no longer.
constexpr Duration kReplayTurn = Duration::milliseconds(200);

bool same_tensors(const registry::Signature& a, const registry::Signature& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs;
}

// Whether scores can be told from what the model takes and gives (logged_rows() of a request).
Scores scores_of(const LiveModel& live) {
  if (live.plan != nullptr) return Scores::kJudged;
  const registry::Signature& signature = live.session->signature();
  if (signature.inputs.size() != 1) return Scores::kNone;
  const auto& input = signature.inputs.front();
  if (input.datatype != "FP32" || input.shape.size() != 2) return Scores::kNone;
  for (const auto& output : signature.outputs) {
    if (output.datatype != "FP32") continue;
    const bool a_row_each = !output.shape.empty() && output.shape.front() == input.shape.front();
    return a_row_each ? Scores::kJudged : Scores::kNone;
  }
  return Scores::kNone;
}

Status check_sticky(const LiveModel& live, const std::string& sticky) {
  if (sticky.empty()) return {};
  if (live.plan == nullptr) {
    return Error(ErrorId::kFailedPrecondition,
                 "sticky '" + sticky + "': deployment '" + live.deployment +
                     "' has no feature service, so its requests have no keys; leave sticky out");
  }
  return check_key(sticky, live.plan->keys, "deployment '" + live.deployment + "'",
                   ErrorId::kFailedPrecondition);
}

std::shared_ptr<const Split> split_of(const Record& record, const LiveModel& champion,
                                      std::shared_ptr<const LiveModel> candidate) {
  auto split = std::make_shared<Split>();
  split->rollout = record.key.second;
  split->step = record.step;
  split->count = record.count;
  split->share = record.policy.steps[record.step];
  split->sticky = record.sticky;
  split->salt = record.salt;
  split->candidate = std::move(candidate);
  if (same_tensors(champion.session->signature(), split->candidate->session->signature())) {
    split->tensors = Split::Tensors::kFit;
  }
  split->counters = std::make_shared<StepCounters>(
      split->share == 0 ? StepKind::kShadow : StepKind::kShared, record.edges);
  return split;
}

Value detail_of(const Record& record) {
  Value detail;
  detail["deployment"] = record.deployment;
  detail["champion"] = record.champion;
  detail["candidate"] = record.candidate;
  detail["step"] = static_cast<std::int64_t>(record.step);
  return detail;
}

// Why what serves now leaves nothing to roll out.
std::optional<End> obstacle(const Record& record, const LiveModel& live) {
  const bool same_model = live.version.model == record.model;
  if (same_model && live.version.version == record.candidate) {
    return End{State::kPromoted, "rollout.promote", version(record.candidate) + " serves",
               detail_of(record)};
  }
  if (same_model && live.version.version == record.champion) return std::nullopt;
  return End{State::kAborted, "rollout.abort",
             "model '" + live.version.model + "' " + version(live.version.version) +
                 " serves now, which was not compared",
             detail_of(record)};
}

// With everything that replay() needs.
Value detail_of(const Record& record, const Evidence& evidence, const Decision& decision,
                Timestamp now) {
  Value detail = detail_of(record);
  detail["evidence"] = to_value(evidence);
  detail["policy"] = to_value(record.policy);
  detail["decision"] = to_value(decision);
  detail["now"] = now.nanos;
  return detail;
}

}  // namespace

struct Rollouts::Impl {
  storage::SqlStore& sql;
  registry::Models& models;
  Deployments& deployments;
  Recordings& recordings;
  security::Audit& audit;
  const Clock& clock;

  Mutex working;  // For a look, a decision and a write; never while a model is loaded.
  bool known FALAJ_GUARDED_BY(working) = false;
  std::map<Key, Active> running FALAJ_GUARDED_BY(working);
  std::vector<Over> over FALAJ_GUARDED_BY(working);
  bool flip_due FALAJ_GUARDED_BY(working) = false;
  mutable Mutex showing;  // Held for a look only.
  std::map<Key, Shown> shown FALAJ_GUARDED_BY(showing);

  Status learn_running() FALAJ_REQUIRES(working);
  Status step(Active& active) FALAJ_REQUIRES(working);
  Status judge(Active& active, const Split& in_place) FALAJ_REQUIRES(working);
  Status act(Active& active, const Evidence& evidence, const Decision& decision, Timestamp now)
      FALAJ_REQUIRES(working);
  Status promote(const security::RequestContext& context, Active& active, End end)
      FALAJ_REQUIRES(working);
  // Back to the champion at once, unless promoted, then written down; what cannot be written is
  // tried again.
  Status finish(const security::RequestContext& context, Active& active, End end)
      FALAJ_REQUIRES(working);
  Status carry_out(const security::RequestContext& context, Active& active, Order order)
      FALAJ_REQUIRES(working);
  // The rollout as it was when `record` was taken; null when it has ended or gone on.
  Active* same(const Record& record) FALAJ_REQUIRES(working);
  // Without `working`. Loads what is missing, and shares the traffic as the step says, counting
  // from nothing.
  Status put_in_place(const Key& key);
  // Without `working`. Puts recorded requests to both versions for one turn; kSome while some are
  // left. With none left the outcome is written down.
  Result<Left> go_on_replaying(const Record& record, const LiveModel& champion,
                               const std::shared_ptr<const LiveModel>& candidate);
  Status end_replay(const Record& record, const ReplayRun& run);
  Result<SplitPtr> begin_count(Active& active, const LiveModel& live,
                               const std::shared_ptr<const LiveModel>& candidate)
      FALAJ_REQUIRES(working);
  void unshare(const Over& each);
  void flip();
  Status write(const security::RequestContext& context, const Record& record,
               const std::string& action, const Value& detail);
  Result<bool> is_declared(const Record& record);
  security::RequestContext own_context(const Record& record) const {
    return security::system_context("service:rollout", record.project(), Zone(record.zone));
  }
  void show(const Key& key, Value evidence, Value decision, std::string reason);
  void forget(const Key& key);
  std::vector<SplitPtr> shadows() const;
  // Sends everything back to the champion; no lock that is held for long.
  void stop(const Key& key) const;
};

Rollouts::Rollouts(storage::SqlStore& sql, registry::Models& models, Deployments& deployments,
                   Recordings& recordings, security::Audit& audit, const Clock& clock)
    : impl_(new Impl{
          sql, models, deployments, recordings, audit, clock, {}, {}, {}, {}, {}, {}, {}}) {}
Rollouts::~Rollouts() = default;

void Rollouts::Impl::show(const Key& key, Value evidence, Value decision, std::string reason) {
  MutexLock lock(showing);
  Shown& now = shown[key];
  now.evidence = std::move(evidence);
  now.decision = std::move(decision);
  now.reason = std::move(reason);
}

void Rollouts::Impl::forget(const Key& key) {
  MutexLock lock(showing);
  shown.erase(key);
}

void Rollouts::Impl::stop(const Key& key) const {
  MutexLock lock(showing);
  const auto found = shown.find(key);
  if (found == shown.end()) return;
  for (const SplitPtr& split : {found->second.before, found->second.split}) {
    if (split != nullptr) split->stopped.store(true, std::memory_order_relaxed);
  }
}

std::vector<SplitPtr> Rollouts::Impl::shadows() const {
  MutexLock lock(showing);
  std::vector<SplitPtr> splits;
  for (const auto& [key, each] : shown) {
    if (each.split != nullptr && each.split->share == 0) splits.push_back(each.split);
  }
  return splits;
}

void Rollouts::answer_mirrored() {
  for (int round = 0; round < kMirrorRounds; ++round) {
    bool left = false;
    for (const SplitPtr& split : impl_->shadows()) {
      left = impl_->deployments.answer_mirrored(*split, kMirrorTurn) == Left::kSome || left;
    }
    if (!left) return;
  }
}

Status Rollouts::Impl::learn_running() {
  if (known) return {};
  std::vector<Record> records;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    records = FALAJ_TRY(load(tx, ""));
    return {};
  }));
  for (Record& record : records) {
    if (record.state != State::kRunning) continue;
    const Key key = record.key;
    running[key].record = std::move(record);
  }
  known = true;
  return {};
}

Status Rollouts::tick() {
  MutexLock lock(impl_->working);
  FALAJ_TRY(impl_->learn_running());
  Status first_failure;
  for (auto at = impl_->running.begin(); at != impl_->running.end();) {
    const Status done = impl_->step(at->second);
    if (!done.ok() && first_failure.ok()) first_failure = done;
    if (at->second.record.state == State::kRunning) {
      ++at;
    } else {
      impl_->forget(at->first);
      at = impl_->running.erase(at);
    }
  }
  return first_failure;
}

Result<bool> Rollouts::Impl::is_declared(const Record& record) {
  bool declared = false;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    const auto found =
        FALAJ_TRY(storage::find_object(tx, "Rollout", record.key.first, record.key.second));
    declared = found.has_value();
    return {};
  }));
  return declared;
}

Status Rollouts::Impl::step(Active& active) {
  const Record& record = active.record;
  const security::RequestContext context = own_context(record);
  if (active.end.has_value()) return finish(context, active, *active.end);
  if (!FALAJ_TRY(is_declared(record))) {
    return finish(
        context, active,
        {State::kAborted, "rollout.abort", "its declaration was deleted", detail_of(record)});
  }
  const auto live = deployments.find(record.project(), record.deployment);
  if (!live.ok()) return {};  // Nothing serves yet: it goes on when something does.
  if (auto ended = obstacle(record, **live)) return finish(context, active, std::move(*ended));
  if (active.refusal.has_value()) {
    return finish(context, active,
                  {State::kRolledBack, "rollout.refuse",
                   version(record.candidate) + " cannot be loaded: " + active.refusal->message,
                   detail_of(record)});
  }
  // Not loaded yet, or something else was put in place: settle() mends it.
  const SplitPtr& in_place = (*live)->split;
  if (in_place == nullptr || (in_place != active.split && in_place != active.before)) return {};
  return judge(active, *in_place);
}

Status Rollouts::Impl::judge(Active& active, const Split& in_place) {
  Record& record = active.record;
  StepCounters& counters = *in_place.counters;
  if (record.edges.empty() && !active.install_due) {
    record.edges = counters.learn_edges();
    if (!record.edges.empty()) {
      FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) { return save(tx, record); }));
    }
  }
  const Timestamp now = clock.now();
  Evidence evidence;
  evidence.step = in_place.step;
  evidence.entered_at = record.entered_at;
  evidence.manual = record.manual;
  evidence.count = in_place.count;
  counters.observe(now, evidence);
  const Decision decision = decide(evidence, record.policy, now);
  // While the next step waits to be put in place, harm is all that matters.
  if (active.install_due && decision.verdict != Verdict::kRollback) return {};
  show(record.key, to_value(evidence), to_value(decision), decision.reason);
  return act(active, evidence, decision, now);
}

Active* Rollouts::Impl::same(const Record& record) {
  const auto found = running.find(record.key);
  if (found == running.end() || found->second.end.has_value()) return nullptr;
  const Record& now = found->second.record;
  const bool same = now.started_at == record.started_at && now.step == record.step;
  return same ? &found->second : nullptr;
}

Status Rollouts::settle() {
  std::vector<Key> keys;
  std::vector<Over> over;
  bool flip = false;
  {
    MutexLock lock(impl_->working);
    FALAJ_TRY(impl_->learn_running());
    over.swap(impl_->over);
    std::swap(flip, impl_->flip_due);
    for (const auto& [key, active] : impl_->running) keys.push_back(key);
  }
  if (flip) impl_->flip();
  for (const Over& each : over) impl_->unshare(each);
  Status first_failure;
  for (const Key& key : keys) {
    const Status done = impl_->put_in_place(key);
    if (!done.ok() && first_failure.ok()) first_failure = done;
  }
  return first_failure;
}

void Rollouts::Impl::flip() {
  const Status flipped = deployments.tick();
  if (flipped.ok()) return;
  log::warn("deployments not reconciled", {{"why", flipped.error().message}});
}

void Rollouts::Impl::unshare(const Over& each) {
  const auto live = deployments.find(each.project, each.deployment);
  if (!live.ok() || (*live)->split == nullptr) return;
  if (!(*live)->split->stopped.load(std::memory_order_relaxed)) return;
  // What no longer serves needs no sharing to end.
  const Status unshared = deployments.share(each.project, each.deployment, each.champion, nullptr);
  static_cast<void>(unshared);
}

Status Rollouts::Impl::put_in_place(const Key& key) {
  Record record;
  std::shared_ptr<const LiveModel> before;
  {
    MutexLock lock(working);
    const auto found = running.find(key);
    if (found == running.end() || found->second.end.has_value()) return {};
    record = found->second.record;
    before = found->second.candidate;
  }
  const auto live = deployments.find(record.project(), record.deployment);
  if (!live.ok() || obstacle(record, **live).has_value()) return {};  // tick() ends it.
  const auto candidate =
      deployments.prepare(record.project(), record.deployment, record.candidate, before);
  const bool replay_due = record.policy.replay.requests > 0 && record.replay.is_null();
  if (candidate.ok() && replay_due) {
    if (FALAJ_TRY(go_on_replaying(record, **live, *candidate)) == Left::kSome) return {};
  }
  SplitPtr split;
  {
    MutexLock lock(working);
    Active* active = same(record);
    if (active == nullptr) return {};
    if (!candidate.ok()) {
      active->refusal = candidate.error();
      return {};
    }
    if (replay_due && active->record.replay.is_null()) return {};
    const bool in_place =
        *candidate == active->candidate && !active->install_due && (*live)->split == active->split;
    if (in_place) return {};
    split = FALAJ_TRY(begin_count(*active, **live, *candidate));
    if (split == nullptr) return {};
  }
  FALAJ_TRY(deployments.share(record.project(), record.deployment, record.champion, split));
  MutexLock lock(working);
  Active* active = same(record);
  if (active != nullptr) {
    active->install_due = false;
    active->before = nullptr;
  } else {
    split->stopped.store(true, std::memory_order_relaxed);
    over.push_back({record.project(), record.deployment, record.champion});
  }
  return {};
}

Result<Left> Rollouts::Impl::go_on_replaying(const Record& record, const LiveModel& champion,
                                             const std::shared_ptr<const LiveModel>& candidate) {
  std::shared_ptr<ReplayRun> run;
  {
    MutexLock lock(working);
    Active* active = same(record);
    if (active == nullptr) return Left::kSome;
    run = active->replaying;
  }
  if (run == nullptr || run->erasures != recordings.erasures()) {  // Somebody may be erased.
    run = std::make_shared<ReplayRun>();
    run->erasures = recordings.erasures();
    run->requests = FALAJ_TRY(recordings.read(record.key.first, record.deployment));
    run->left = run->requests.size();
  }
  const bool same_form =
      same_tensors(champion.session->signature(), candidate->session->signature());
  const std::int64_t begun = monotonic_nanos();
  ReplayEvidence& evidence = run->evidence;
  while (run->left > 0 && evidence.answered < record.policy.replay.requests) {
    const Asked& asked = run->requests[--run->left].asked;
    if (!same_form && std::holds_alternative<std::vector<Tensor>>(asked)) {
      ++evidence.left_out;
    } else {
      add_answers(evidence, deployments.ask_unseen(champion, asked),
                  deployments.ask_unseen(*candidate, asked));
    }
    if (monotonic_nanos() - begun < kReplayTurn.nanos) continue;
    MutexLock lock(working);
    Active* active = same(record);
    if (active == nullptr) return Left::kSome;
    active->replaying = run;
    active->candidate = candidate;
    show(record.key, {}, {},
         "replaying: " + std::to_string(evidence.answered) + " of " +
             std::to_string(record.policy.replay.requests) + " recorded requests");
    return Left::kSome;
  }
  FALAJ_TRY(end_replay(record, *run));
  return Left::kNothing;
}

Status Rollouts::Impl::end_replay(const Record& record, const ReplayRun& run) {
  const ReplayDecision decision = judge_replay(run.evidence, record.policy);
  Value detail = detail_of(record);
  detail["policy"] = to_value(record.policy);
  detail["replay"]["evidence"] = to_value(run.evidence);
  detail["replay"]["decision"] = to_value(decision);
  MutexLock lock(working);
  Active* active = same(record);
  if (active == nullptr) return {};
  if (decision.outcome == ReplayDecision::Outcome::kRefuse) {
    active->end = End{State::kRolledBack, "rollout.refuse", decision.reason, std::move(detail)};
    return {};
  }
  Record next = active->record;
  next.replay = detail["replay"];
  next.reason = decision.reason;
  FALAJ_TRY(write(own_context(next), next, "rollout.replay", detail));
  active->record = std::move(next);
  active->replaying = nullptr;
  return {};
}

// Known and written down before a request meets it; null when it cannot be compared.
Result<SplitPtr> Rollouts::Impl::begin_count(Active& active, const LiveModel& live,
                                             const std::shared_ptr<const LiveModel>& candidate) {
  Record next = active.record;
  ++next.count;
  SplitPtr split = split_of(next, live, candidate);
  if (live.plan == nullptr && split->tensors == Split::Tensors::kDiffer) {
    active.refusal = Error(ErrorId::kFailedPrecondition,
                           "it takes or gives other tensors than " + version(live.version.version) +
                               ", so that no request can be put to both");
    return SplitPtr();
  }
  FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) { return save(tx, next); }));
  active.record = std::move(next);
  active.candidate = candidate;
  active.before = std::move(active.split);
  active.split = split;
  active.install_due = true;
  MutexLock lock(showing);
  Shown& now = shown[active.record.key];
  now.before = std::move(now.split);
  now.split = split;
  now.evidence = {};
  now.decision = {};
  now.reason = active.record.reason;
  return split;
}

Status Rollouts::Impl::act(Active& active, const Evidence& evidence, const Decision& decision,
                           Timestamp now) {
  Record& record = active.record;
  const security::RequestContext context = own_context(record);
  const std::string action = "rollout." + std::string(verdict_name(decision.verdict));
  Value detail = detail_of(record, evidence, decision, now);
  switch (decision.verdict) {
    case Verdict::kHold:
      return {};
    case Verdict::kAdvance: {
      Record next = record;
      ++next.step;
      next.entered_at = now;
      next.reason = decision.reason;
      next.count = 0;
      FALAJ_TRY(write(context, next, action, detail));
      record = std::move(next);
      active.install_due = true;
      return {};
    }
    case Verdict::kPromote:
      return promote(context, active,
                     {State::kPromoted, action, decision.reason, std::move(detail)});
    case Verdict::kRollback:
      return finish(context, active,
                    {State::kRolledBack, action, decision.reason, std::move(detail)});
    case Verdict::kInconclusive:
      return finish(context, active,
                    {State::kInconclusive, action, decision.reason, std::move(detail)});
  }
  return {};
}

// The alias moves, and the candidate, which is warm, takes over.
Status Rollouts::Impl::promote(const security::RequestContext& context, Active& active, End end) {
  const Record& record = active.record;
  const Status moved = models.set_alias(context, record.model, record.alias, record.candidate,
                                        end.detail, {record.champion});
  if (!moved.ok() && moved.error().id == ErrorId::kConflict) {
    end.state = State::kAborted;
    end.action = "rollout.abort";
    end.reason = moved.error().message;
    return finish(context, active, std::move(end));
  }
  FALAJ_TRY(moved);
  flip_due = true;
  return finish(context, active, std::move(end));
}

Status Rollouts::Impl::finish(const security::RequestContext& context, Active& active, End end) {
  // What was promoted keeps its share until the deployment is flipped.
  if (end.state != State::kPromoted) stop(active.record.key);
  Record ended = active.record;
  ended.state = end.state;
  ended.reason = end.reason;
  ended.evidence = end.detail["evidence"];
  ended.decision = end.detail["decision"];
  if (end.detail.has("replay")) ended.replay = end.detail["replay"];
  Value detail = end.detail;
  detail["reason"] = end.reason;
  const Status written = write(context, ended, end.action, detail);
  if (!written.ok()) {
    active.end = std::move(end);
    return written;
  }
  log::info(
      "rollout ended",
      {{"rollout", ended.object()}, {"state", state_name(ended.state)}, {"why", ended.reason}});
  over.push_back({ended.project(), ended.deployment, ended.champion});
  active.record = std::move(ended);
  return {};
}

Status Rollouts::Impl::write(const security::RequestContext& context, const Record& record,
                             const std::string& action, const Value& detail) {
  return sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(save(tx, record));
    FALAJ_TRY(audit.append(tx, context, {action, record.object(), detail}));
    return {};
  });
}

Result<RolloutStatus> Rollouts::start(const security::RequestContext& context,
                                      const std::string& name, const MayPromote& may) {
  MutexLock lock(impl_->working);
  FALAJ_TRY(impl_->learn_running());
  storage::Object object;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    object = FALAJ_TRY(storage::get_object(tx, "Rollout", context.project.str(), name));
    return {};
  }));
  const Rollout rollout = FALAJ_TRY(decode_rollout(object));
  for (const auto& [key, active] : impl_->running) {
    if (key.first != object.project || active.record.deployment != rollout.deployment) continue;
    return Error(ErrorId::kConflict, "rollout '" + key.second + "' of deployment '" +
                                         rollout.deployment + "' runs; abort it first");
  }
  const auto live = FALAJ_TRY(impl_->deployments.find_awake(context.project, rollout.deployment));
  const registry::ModelVersion& champion = live->version;
  if (live->alias.empty() || champion.version == rollout.version) {
    return Error(ErrorId::kFailedPrecondition,
                 "deployment '" + rollout.deployment + "' " +
                     (live->alias.empty() ? "pins its version: nothing would move"
                                          : "serves " + version(rollout.version) + " already"));
  }
  FALAJ_TRY(may(champion.model));
  FALAJ_TRY(check_sticky(*live, rollout.sticky));
  FALAJ_TRY(impl_->models.get(context.project, champion.model, rollout.version));
  Active active;
  Record& record = active.record;
  record.key = {object.project, name};
  record.zone = champion.zone;
  record.deployment = rollout.deployment;
  record.model = champion.model;
  record.alias = live->alias;
  record.champion = champion.version;
  record.candidate = rollout.version;
  record.sticky = rollout.sticky;
  record.policy = rollout.policy;
  record.policy.scores = scores_of(*live);
  record.started_at = impl_->clock.now();
  record.entered_at = record.started_at;
  record.salt = hash64(record.object() + "@" + std::to_string(record.started_at.nanos));
  record.reason = "the candidate is loaded";
  Value detail = detail_of(record);
  detail["policy"] = to_value(record.policy);
  FALAJ_TRY(impl_->write(context, record, "rollout.start", detail));
  const Key key = record.key;
  return status_of(impl_->running.emplace(key, std::move(active)).first->second.record);
}

Status Rollouts::Impl::carry_out(const security::RequestContext& context, Active& active,
                                 Order order) {
  Value detail = detail_of(active.record);
  detail["order"] = order_name(order);
  {
    MutexLock lock(showing);
    const auto found = shown.find(active.record.key);  // Not there before the candidate is loaded.
    if (found != shown.end()) {
      detail["evidence"] = found->second.evidence;
      detail["decision"] = found->second.decision;
    }
  }
  if (order == Order::kAbort) {
    return finish(context, active, {State::kAborted, "rollout.order", "aborted by hand", detail});
  }
  if (order == Order::kPromote) {
    return promote(context, active,
                   {State::kPromoted, "rollout.order", "promoted by hand", detail});
  }
  Record next = active.record;
  if (order == Order::kApprove) {
    next.manual.approved = true;
  } else {
    next.manual.held = order == Order::kHold;
  }
  FALAJ_TRY(write(context, next, "rollout.order", detail));
  active.record = std::move(next);
  return {};
}

Result<RolloutStatus> Rollouts::order(const security::RequestContext& context,
                                      const std::string& name, Order order, const MayPromote& may) {
  const Key key{context.project.str(), name};
  if (order == Order::kAbort) impl_->stop(key);
  RolloutStatus status;
  {
    MutexLock lock(impl_->working);
    FALAJ_TRY(impl_->learn_running());
    const auto found = impl_->running.find(key);
    if (found == impl_->running.end()) {
      return Error(
          ErrorId::kFailedPrecondition,
          "rollout '" + name + "' does not run; start it with: falaj rollout start " + name);
    }
    const bool may_promote = order != Order::kHold && order != Order::kAbort;
    if (may_promote) FALAJ_TRY(may(found->second.record.model));
    FALAJ_TRY(impl_->carry_out(context, found->second, order));
    status = status_of(found->second.record);
    if (status.state != State::kRunning) {
      impl_->running.erase(found);
      impl_->forget(key);
    }
  }
  // Who promotes finds it done; not under the lock, since other deployments may be loading.
  if (status.state == State::kPromoted) impl_->flip();
  return status;
}

Result<std::vector<RolloutStatus>> Rollouts::status(const ProjectName& project) const {
  std::vector<Record> records;
  FALAJ_TRY(impl_->sql.read([&](storage::SqlTransaction& tx) -> Status {
    records = FALAJ_TRY(load(tx, project.str()));
    return {};
  }));
  std::vector<RolloutStatus> statuses;
  MutexLock lock(impl_->showing);
  for (const Record& record : records) {
    statuses.push_back(status_of(record));
    const auto live = impl_->shown.find(record.key);
    if (record.state != State::kRunning || live == impl_->shown.end()) continue;
    RolloutStatus& status = statuses.back();
    status.reason = live->second.reason;
    status.evidence = live->second.evidence;
    status.decision = live->second.decision;
    const SplitPtr& split = live->second.split;
    if (split != nullptr) status.not_mirrored = split->not_mirrored.load(std::memory_order_relaxed);
  }
  return statuses;
}

Result<RolloutStatus> Rollouts::get(const ProjectName& project, const std::string& name) const {
  for (RolloutStatus& status : FALAJ_TRY(this->status(project))) {
    if (status.name == name) return std::move(status);
  }
  return Error(ErrorId::kNotFound, "rollout '" + name + "' was never started");
}

}  // namespace falaj::serving::rollout
