// loop/next_action.h — what the platform does next about a model, as a pure function.
//
// The live controller, `falaj audit replay` and the tests call the same function: same input, same
// bytes out. Every transition is audited with the snapshot, the policy and the action.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "base/value.h"

namespace falaj::loop {

// kind: Policy
// spec: {on: drift, monitor: fraud_drift, retrain: {job: fraud_train, window: 30d, labels_min:
// 8000},
//        gate: {metric: auc, window: 7d, no_worse_by: 0.002}, then: promote, max_per_week: 2,
//        cooldown: 1h}
struct Policy {
  std::string name;
  std::string monitor;
  std::string job;
  Duration train_window{};
  // Retraining waits until so many labelled rows arrived after the alarm was raised: a model cannot
  // learn the new world from the old one's labels.
  std::int64_t labels_min = 0;
  Duration gate_window{};  // The newest labelled data, never trained on.
  double no_worse_by = 0;  // Candidate AUC ≥ champion AUC − this.
  std::int64_t retrains_per_week_max = 2;
  Duration cooldown{};
  bool operator==(const Policy&) const = default;
};

enum class Phase : std::uint8_t { kWatching, kTraining, kEvaluating };
std::string_view phase_name(Phase phase);  // "watching", "training", "evaluating"

// Everything the decision depends on.
struct Snapshot {
  Timestamp now{};
  Phase phase = Phase::kWatching;
  bool alarm_open = false;
  std::int64_t alarm = 0;
  Timestamp alarm_at{};
  std::int64_t labels_since_alarm = 0;
  std::int64_t champion_version = 0;
  // Why this policy, as everything it names is declared now, cannot lead to a promotion; "" when it
  // can. Known: recorded for this alarm already, so that it is audited once.
  std::string obstacle;
  bool obstacle_known = false;
  std::int64_t retrains_last_week = 0;
  std::optional<Timestamp> last_retrain;
  // While training:
  std::string run;
  std::string run_status;  // "running", "finished", "failed" …
  std::string run_error;   // Why there is no run: its data could not be frozen, or it not started.
  std::int64_t candidate_version = 0;
  // After the evaluation:
  bool evaluated = false;
  std::int64_t evaluated_champion = 0;  // The version that champion_auc was measured of.
  double champion_auc = 0;
  double candidate_auc = 0;
  std::int64_t gate_rows = 0;       // Labelled rows that both models scored.
  std::int64_t gate_positives = 0;  // Of them with label 1.
  bool operator==(const Snapshot&) const = default;
};

// Fewer labelled rows of either class say nothing about a model: the gate stays shut.
inline constexpr std::int64_t kGateClassRowsMin = 10;

enum class ActionKind : std::uint8_t { kNone, kRetrain, kEvaluate, kPromote, kKeep };
std::string_view action_name(ActionKind kind);  // "none", "retrain", "evaluate", "promote", "keep"

struct Action {
  ActionKind kind = ActionKind::kNone;
  std::string reason;  // For a person, with the numbers.
  bool operator==(const Action&) const = default;
};

// watching   → retrain, when an alarm is open, the cooldown is over and the week's maximum is not
//              reached; keep, once per alarm, when an obstacle stands in the way; else none.
// training   → evaluate, when the run finished and registered a candidate; keep, when it did not
//              or an obstacle came up; none while it runs.
// evaluating → promote, when the gate passes; keep otherwise. Missing labels or a missing class
//              keep the champion: what was not measured does not pass. Evaluate when it was not
//              done yet, or when another version serves than the one that was measured.
Action next_action(const Snapshot& snapshot, const Policy& policy);

Value to_value(const Snapshot& snapshot);
Value to_value(const Policy& policy);
Value to_value(const Action& action);
Result<Snapshot> snapshot_from_value(const Value& value);
Result<Policy> policy_from_value(const Value& value);

}  // namespace falaj::loop
