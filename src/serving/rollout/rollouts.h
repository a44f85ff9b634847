// serving/rollout/rollouts.h — carries out what decide() says: loads a candidate, shares traffic
// with it step by step, and promotes it or takes it back.
//
// A Rollout object is a plan; it does nothing until somebody who may promote models starts it. Its
// state is durable: after a crash it goes on in the step where it was, counting that step anew.
// While nothing is loaded the champion answers everything, so no request is ever lost to a rollout.
//
// Three threads, so that no project's candidate holds up what another's needs: tick() judges and
// takes back, which nothing slow may delay; settle() loads candidates and puts what was decided in
// place; answer_mirrored() lets candidates answer the requests of their shadows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "registry/models.h"
#include "security/audit.h"
#include "serving/deployments.h"
#include "serving/rollout/decision.h"
#include "serving/rollout/recordings.h"
#include "serving/rollout/replay.h"
#include "storage/objects.h"

namespace falaj::serving::rollout {

// kind: Rollout
// spec: {deployment: fraud, candidate: {version: 7}, steps: [shadow, 1%, 5%, 25%, 50%],
//        sticky: customer_id, guard: {errors: 0.5%, p99: +20%, floor: 1ms, nans: 0.5%, shift: 20%},
//        replay: {requests: 500, difference_max: 0.05},
//        step: {min: 10m, max: 1d, requests: 200}, alpha: 1%, approve: false}
struct Rollout {
  std::string name;
  std::string deployment;
  std::int64_t version = 0;  // The candidate's.
  std::string sticky;        // "": every request is a unit of its own.
  RolloutPolicy policy;
};
Result<Rollout> decode_rollout(const storage::Object& object);
storage::KindInfo kind();

enum class State : std::uint8_t { kRunning, kPromoted, kRolledBack, kInconclusive, kAborted };
std::string_view state_name(State state);  // "running", "promoted", "rolled back", …

struct RolloutStatus {
  std::string project;
  std::string name;
  std::string deployment;
  std::int64_t champion = 0;
  std::int64_t candidate = 0;
  State state = State::kRunning;
  Manual manual;
  std::vector<double> steps;  // Shares; 0 is a shadow.
  std::size_t step = 0;
  Timestamp started_at{};
  Timestamp entered_at{};
  std::string reason;  // Of the newest decision, or why it ended.
  Value replay;        // {evidence, decision} of the replay; null before its end or without one.
  Value evidence;      // Of the newest decision; null before the first.
  Value decision;
  std::vector<std::string>
      left_out;                    // Guards that nothing can be known about, of the model's kind.
  std::uint64_t not_mirrored = 0;  // Requests of this shadow that were too large or too many.
};
Value to_value(const RolloutStatus& status);

extern const storage::Migration kRolloutMigration;

// What a person may do to a rollout that runs.
enum class Order : std::uint8_t {
  kHold,     // Stays in its step until resumed; guards still take it back.
  kResume,   // Takes back kHold, and nothing else.
  kApprove,  // It may be promoted once every guard is kept; a hold stays.
  kPromote,  // Now, whatever is known.
  kAbort,    // Everything back to the champion, now.
};

// Whether the caller may promote this model: a rollout moves its alias, whoever carries it out.
using MayPromote = std::function<Status(const std::string& model)>;

// Thread-safe; tick(), settle() and answer_mirrored() are called by one thread each.
class Rollouts {
 public:
  Rollouts(storage::SqlStore& sql, registry::Models& models, Deployments& deployments,
           Recordings& recordings, security::Audit& audit, const Clock& clock);
  ~Rollouts();

  // Judges each rollout that runs and does what was decided. Every verdict but hold is audited as
  // rollout.<verdict> with its evidence and policy. Call several times a second: harm is acted upon
  // at the next call. Waits for the database alone: never for a model, nor for a deployment.
  Status tick();
  // Loads candidates, replays recorded requests to those whose policy asks for it, shares traffic
  // as the steps say, and flips deployments to what was promoted. May take as long as a model takes
  // to load; each replay goes on for some 200 ms a call.
  Status settle();
  // Lets candidates answer mirrored requests: each shadow for some 20 ms in turn, for a second at
  // most unless a single answer takes longer.
  void answer_mirrored();

  // Begins the declared rollout at its first step; the candidate is loaded by the next settle().
  // FJ-0006 when its deployment serves nothing, pins a version, serves the candidate already, or
  // has no key that is called as `sticky` says; FJ-0005 when a rollout of the deployment runs; what
  // `may` says of the deployment's model.
  Result<RolloutStatus> start(const security::RequestContext& context, const std::string& name,
                              const MayPromote& may);
  // FJ-0006 when it does not run. Of orders that may lead to promotion `may` is asked first: all
  // but hold and abort.
  Result<RolloutStatus> order(const security::RequestContext& context, const std::string& name,
                              Order order, const MayPromote& may);
  // Those that were ever started, by name.
  Result<std::vector<RolloutStatus>> status(const ProjectName& project) const;
  Result<RolloutStatus> get(const ProjectName& project, const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Recomputes the verdict of an audit entry "rollout.*" from its recorded evidence and policy, or
// the outcome of its replay: advance when that passed, rollback when it was refused. FJ-7002 when
// it differs; the decision otherwise.
Result<Decision> replay(const security::AuditEntry& entry);

}  // namespace falaj::serving::rollout
