#include "loop/next_action.h"

#include <array>
#include <cmath>

#include "base/json.h"
#include "base/units.h"

namespace falaj::loop {
namespace {

constexpr std::array<std::string_view, 3> kPhaseNames{"watching", "training", "evaluating"};

std::string number(double value) {
  std::string text;
  append_json_number(text, value);
  return text;
}

std::string version(std::int64_t number) { return "version " + std::to_string(number); }

Action none(std::string reason) { return {ActionKind::kNone, std::move(reason)}; }
Action keep(std::string reason) { return {ActionKind::kKeep, std::move(reason)}; }

Action obstructed(const Snapshot& snapshot) {
  std::string reason = snapshot.obstacle + ": " + version(snapshot.champion_version) + " stays";
  return snapshot.obstacle_known ? none(std::move(reason)) : keep(std::move(reason));
}

Action while_watching(const Snapshot& snapshot, const Policy& policy) {
  if (!snapshot.alarm_open) return none("no alarm is open");
  const std::string alarm = "alarm " + std::to_string(snapshot.alarm) + " is open on " +
                            version(snapshot.champion_version);
  if (snapshot.champion_version <= 0) return none("no version serves yet");
  if (!snapshot.obstacle.empty()) return obstructed(snapshot);
  if (snapshot.retrains_last_week >= policy.retrains_per_week_max) {
    return none(alarm + ", but " + std::to_string(snapshot.retrains_last_week) + " of at most " +
                std::to_string(policy.retrains_per_week_max) + " retrainings a week are used");
  }
  if (snapshot.labels_since_alarm < policy.labels_min) {
    return none(alarm + ", and " + std::to_string(snapshot.labels_since_alarm) + " of " +
                std::to_string(policy.labels_min) + " labelled rows arrived since");
  }
  if (snapshot.last_retrain.has_value()) {
    const Timestamp over = *snapshot.last_retrain + policy.cooldown;
    if (snapshot.now < over) {
      return none(alarm + ", but the cooldown of " + to_string(policy.cooldown) + " ends at " +
                  to_rfc3339(over));
    }
  }
  return {ActionKind::kRetrain, alarm + ": retrain with " + policy.job + " on the newest " +
                                    to_string(policy.train_window) + " before the gate"};
}

Action while_training(const Snapshot& snapshot) {
  if (!snapshot.run_error.empty()) {
    return keep("no run could be started: " + snapshot.run_error + ": " +
                version(snapshot.champion_version) + " stays");
  }
  const std::string run = "run " + snapshot.run;
  if (snapshot.run_status == "queued" || snapshot.run_status == "running") {
    return none(run + " is " + snapshot.run_status);
  }
  if (snapshot.run_status != "finished") {
    return keep(run + " ended as '" + snapshot.run_status +
                "': " + version(snapshot.champion_version) + " stays");
  }
  if (!snapshot.obstacle.empty()) {
    return keep(snapshot.obstacle + ": " + version(snapshot.champion_version) + " stays");
  }
  if (snapshot.candidate_version <= 0) {
    return keep(run + " finished without registering a version: " +
                version(snapshot.champion_version) + " stays");
  }
  if (snapshot.candidate_version == snapshot.champion_version) {
    return keep(version(snapshot.candidate_version) + " serves already");
  }
  return {ActionKind::kEvaluate, run + " made " + version(snapshot.candidate_version) +
                                     ": compare it with " + version(snapshot.champion_version)};
}

Action while_evaluating(const Snapshot& snapshot, const Policy& policy) {
  const std::string candidate = version(snapshot.candidate_version);
  const std::string champion = version(snapshot.champion_version);
  if (!snapshot.obstacle.empty()) return keep(snapshot.obstacle + ": " + champion + " stays");
  if (snapshot.candidate_version == snapshot.champion_version) {
    return keep(candidate + " serves already");
  }
  if (!snapshot.evaluated) return {ActionKind::kEvaluate, candidate + " is not evaluated yet"};
  if (snapshot.evaluated_champion != snapshot.champion_version) {
    return {ActionKind::kEvaluate, candidate + " was compared with " +
                                       version(snapshot.evaluated_champion) + ", but " + champion +
                                       " serves now: compare it with that"};
  }
  const std::int64_t negatives = snapshot.gate_rows - snapshot.gate_positives;
  if (snapshot.gate_positives < kGateClassRowsMin || negatives < kGateClassRowsMin) {
    return keep("the gate has " + std::to_string(snapshot.gate_rows) + " labelled rows, " +
                std::to_string(snapshot.gate_positives) + " of them positive, and needs " +
                std::to_string(kGateClassRowsMin) + " of each class: " + champion + " stays");
  }
  const std::string scores = "AUC " + number(snapshot.candidate_auc) + " of " + candidate +
                             " against " + number(snapshot.champion_auc) + " of " + champion +
                             " on " + std::to_string(snapshot.gate_rows) + " rows";
  // Written so that a NaN on either side fails.
  const bool passes = snapshot.candidate_auc >= snapshot.champion_auc - policy.no_worse_by;
  if (!passes) return keep(scores + ": worse by more than " + number(policy.no_worse_by));
  return {ActionKind::kPromote, scores + ": no worse by more than " + number(policy.no_worse_by)};
}

Error unreadable(std::string_view what) {
  return Error(ErrorId::kReplayDiffers, "the recorded " + std::string(what) + " cannot be read");
}

}  // namespace

std::string_view phase_name(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

std::string_view action_name(ActionKind kind) {
  constexpr std::array<std::string_view, 5> names{"none", "retrain", "evaluate", "promote", "keep"};
  return names[static_cast<std::size_t>(kind)];
}

Action next_action(const Snapshot& snapshot, const Policy& policy) {
  switch (snapshot.phase) {
    case Phase::kWatching:
      return while_watching(snapshot, policy);
    case Phase::kTraining:
      return while_training(snapshot);
    case Phase::kEvaluating:
      return while_evaluating(snapshot, policy);
  }
  return none("the phase is not known");
}

Value to_value(const Snapshot& snapshot) {
  Value value;
  value["now"] = snapshot.now.nanos;
  value["phase"] = phase_name(snapshot.phase);
  value["alarm_open"] = snapshot.alarm_open;
  value["alarm"] = snapshot.alarm;
  value["alarm_at"] = snapshot.alarm_at.nanos;
  value["labels_since_alarm"] = snapshot.labels_since_alarm;
  value["champion_version"] = snapshot.champion_version;
  value["obstacle"] = snapshot.obstacle;
  value["obstacle_known"] = snapshot.obstacle_known;
  value["retrains_last_week"] = snapshot.retrains_last_week;
  if (snapshot.last_retrain) value["last_retrain"] = snapshot.last_retrain->nanos;
  value["run"] = snapshot.run;
  value["run_status"] = snapshot.run_status;
  value["run_error"] = snapshot.run_error;
  value["candidate_version"] = snapshot.candidate_version;
  value["evaluated"] = snapshot.evaluated;
  value["evaluated_champion"] = snapshot.evaluated_champion;
  value["champion_auc"] = snapshot.champion_auc;
  value["candidate_auc"] = snapshot.candidate_auc;
  value["gate_rows"] = snapshot.gate_rows;
  value["gate_positives"] = snapshot.gate_positives;
  return value;
}

Value to_value(const Policy& policy) {
  Value value;
  value["name"] = policy.name;
  value["monitor"] = policy.monitor;
  value["job"] = policy.job;
  value["train_window"] = policy.train_window.nanos;
  value["labels_min"] = policy.labels_min;
  value["gate_window"] = policy.gate_window.nanos;
  value["no_worse_by"] = policy.no_worse_by;
  value["retrains_per_week_max"] = policy.retrains_per_week_max;
  value["cooldown"] = policy.cooldown.nanos;
  return value;
}

Value to_value(const Action& action) {
  Value value;
  value["kind"] = action_name(action.kind);
  value["reason"] = action.reason;
  return value;
}

Result<Snapshot> snapshot_from_value(const Value& value) {
  Snapshot snapshot;
  std::size_t phase = 0;
  while (phase < kPhaseNames.size() && kPhaseNames[phase] != value.text("phase")) ++phase;
  const bool readable = value["now"].is_int() && phase < kPhaseNames.size() &&
                        value["alarm_open"].is_bool() && value["evaluated"].is_bool();
  if (!readable) return unreadable("snapshot");
  snapshot.now = {value["now"].as_int()};
  snapshot.phase = static_cast<Phase>(phase);
  snapshot.alarm_open = value["alarm_open"].as_bool();
  snapshot.alarm = value.integer("alarm");
  snapshot.alarm_at = {value.integer("alarm_at")};
  snapshot.labels_since_alarm = value.integer("labels_since_alarm");
  snapshot.champion_version = value.integer("champion_version");
  snapshot.obstacle = value.text("obstacle");
  snapshot.obstacle_known = value["obstacle_known"] == Value(true);
  snapshot.retrains_last_week = value.integer("retrains_last_week");
  if (value["last_retrain"].is_int()) {
    snapshot.last_retrain = Timestamp{value["last_retrain"].as_int()};
  }
  snapshot.run = value.text("run");
  snapshot.run_status = value.text("run_status");
  snapshot.run_error = value.text("run_error");
  snapshot.candidate_version = value.integer("candidate_version");
  snapshot.evaluated = value["evaluated"].as_bool();
  // A record from before this was kept took the champion for the measured one, and replays so.
  snapshot.evaluated_champion = value.integer("evaluated_champion", snapshot.champion_version);
  // JSON has no NaN: it is written as null and must come back as what it was.
  snapshot.champion_auc = value.number("champion_auc", std::nan(""));
  snapshot.candidate_auc = value.number("candidate_auc", std::nan(""));
  snapshot.gate_rows = value.integer("gate_rows");
  snapshot.gate_positives = value.integer("gate_positives");
  return snapshot;
}

Result<Policy> policy_from_value(const Value& value) {
  if (!value["name"].is_string() || !value["retrains_per_week_max"].is_int()) {
    return unreadable("policy");
  }
  Policy policy;
  policy.name = value.text("name");
  policy.monitor = value.text("monitor");
  policy.job = value.text("job");
  policy.train_window = {value.integer("train_window")};
  policy.labels_min = value.integer("labels_min");
  policy.gate_window = {value.integer("gate_window")};
  policy.no_worse_by = value.number("no_worse_by");
  policy.retrains_per_week_max = value.integer("retrains_per_week_max");
  policy.cooldown = {value.integer("cooldown")};
  return policy;
}

}  // namespace falaj::loop
