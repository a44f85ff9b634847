#include "loop/internal/state.h"
#include "base/json.h"
#include "loop/controller.h"

namespace falaj::loop {

const storage::Migration kLoopMigration{"loop-001-state", R"sql(
CREATE TABLE loop_state (
  project TEXT NOT NULL,
  policy TEXT NOT NULL,
  phase TEXT NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY (project, policy)
);
CREATE TABLE loop_retrains (
  project TEXT NOT NULL,
  policy TEXT NOT NULL,
  began_at INTEGER NOT NULL
);
CREATE INDEX loop_retrains_by_policy ON loop_retrains (project, policy, began_at);
)sql"};

namespace {

Value to_value(const State& state) {
  Value value;
  value["round"] = state.round;
  value["alarm"] = state.alarm;
  value["began_at"] = state.began_at.nanos;
  value["training_set"] = state.training_set;
  value["run"] = state.run;
  value["run_error"] = state.run_error;
  value["obstacle"] = state.obstacle;
  value["obstacle_alarm"] = state.obstacle_alarm;
  value["evaluated"] = state.evaluated;
  value["promoting"] = state.promoting;
  value["model"] = state.model;
  value["candidate"] = state.candidate;
  value["evaluated_champion"] = state.evaluated_champion;
  value["champion_auc"] = state.champion_auc;
  value["candidate_auc"] = state.candidate_auc;
  value["gate_rows"] = state.gate_rows;
  value["gate_positives"] = state.gate_positives;
  value["gate_set"] = state.gate_set;
  value["last_action"] = loop::to_value(state.last_action);
  value["snapshot"] = loop::to_value(state.snapshot);
  value["phase"] = phase_name(state.phase);
  return value;
}

ActionKind action_of(std::string_view name) {
  for (const ActionKind kind :
       {ActionKind::kRetrain, ActionKind::kEvaluate, ActionKind::kPromote, ActionKind::kKeep}) {
    if (action_name(kind) == name) return kind;
  }
  return ActionKind::kNone;
}

Result<State> from_value(const Value& value) {
  State state;
  state.snapshot = FALAJ_TRY(snapshot_from_value(value["snapshot"]));
  for (const Phase phase : {Phase::kWatching, Phase::kTraining, Phase::kEvaluating}) {
    if (phase_name(phase) == value.text("phase")) state.phase = phase;
  }
  state.round = value.integer("round");
  state.alarm = value.integer("alarm");
  state.began_at = {value.integer("began_at")};
  state.training_set = value.text("training_set");
  state.run = value.text("run");
  state.run_error = value.text("run_error");
  state.obstacle = value.text("obstacle");
  state.obstacle_alarm = value.integer("obstacle_alarm");
  state.evaluated = value["evaluated"] == Value(true);
  state.promoting = value["promoting"] == Value(true);
  state.model = value.text("model");
  state.candidate = value.integer("candidate");
  state.evaluated_champion = value.integer("evaluated_champion");
  state.champion_auc = value.number("champion_auc");
  state.candidate_auc = value.number("candidate_auc");
  state.gate_rows = value.integer("gate_rows");
  state.gate_positives = value.integer("gate_positives");
  state.gate_set = value.text("gate_set");
  state.last_action = {action_of(value["last_action"].text("kind")),
                       value["last_action"].text("reason")};
  return state;
}

}  // namespace

Result<State> load_state(storage::SqlTransaction& tx, const PolicyKey& key) {
  const storage::SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT state FROM loop_state WHERE project = ? AND policy = ?", {key.project, key.policy}));
  if (rows.empty()) return State();
  return from_value(FALAJ_TRY(parse_json(rows[0].text(0))));
}

Status save_state(storage::SqlTransaction& tx, const PolicyKey& key, const State& state) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO loop_state (project, policy, phase, state) VALUES (?, ?, ?, ?)"
      " ON CONFLICT (project, policy) DO UPDATE SET phase = excluded.phase,"
      " state = excluded.state",
      {key.project, key.policy, std::string(phase_name(state.phase)), to_json(to_value(state))}));
  return {};
}

Status insert_retrain(storage::SqlTransaction& tx, const PolicyKey& key, Timestamp at) {
  FALAJ_TRY(tx.execute("INSERT INTO loop_retrains (project, policy, began_at) VALUES (?, ?, ?)",
                       {key.project, key.policy, at.nanos}));
  return {};
}

Result<Retrains> count_retrains(storage::SqlTransaction& tx, const PolicyKey& key, Timestamp now) {
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT began_at FROM loop_retrains WHERE project = ? AND policy = ?"
                         " ORDER BY began_at DESC",
                         {key.project, key.policy}));
  Retrains retrains;
  for (const storage::SqlRow& row : rows) {
    if (row.integer(0) > (now - Duration::days(7)).nanos) ++retrains.last_week;
  }
  if (!rows.empty()) retrains.newest = Timestamp{rows[0].integer(0)};
  return retrains;
}

}  // namespace falaj::loop
