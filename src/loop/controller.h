// loop/controller.h — carries out what next_action decides: freeze, train, evaluate, promote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loop/next_action.h"
#include "monitoring/monitors.h"
#include "training/train_jobs.h"

namespace falaj::loop {

Result<Policy> decode_policy(const storage::Object& object);
std::vector<storage::KindInfo> kinds();
extern const storage::Migration kLoopMigration;

struct PolicyStatus {
  std::string project;
  std::string policy;
  Phase phase = Phase::kWatching;
  Action last_action;  // The last decision that did something, and what it was made on.
  Snapshot snapshot;
  Action current_action;  // What the newest tick said; "none" with the reason while waiting.
  Snapshot current_snapshot;
};
Value to_value(const PolicyStatus& status);

class Controller {
 public:
  Controller(storage::SqlStore& sql, storage::BlobStore& blobs, features::TrainingSets& sets,
             training::TrainJobs& trainer, tracking::Runs& runs, registry::Models& models,
             serving::Deployments& deployments, serving::Runtime& runtime,
             monitoring::Monitors& monitors, security::Audit& audit, const Clock& clock);
  ~Controller();

  // Looks at every policy once and takes at most one step each. State is durable: a restart goes on
  // where it was. Every step but "none" is audited as loop.<action> with snapshot and policy.
  Status tick();
  Result<std::vector<PolicyStatus>> status(const ProjectName& project) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Recomputes the action of an audit entry "loop.*" from its recorded snapshot and policy.
// FJ-7002 when it differs; the action otherwise.
Result<Action> replay(const security::AuditEntry& entry);

}  // namespace falaj::loop
