#include "serving/rollout/internal/record.h"

#include <array>

#include "base/json.h"

namespace falaj::serving::rollout {

const storage::Migration kRolloutMigration{"serving-001-rollouts", R"sql(
CREATE TABLE rollouts (
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  zone TEXT NOT NULL CHECK (zone != ''),
  state TEXT NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (project, name)
);
)sql"};

namespace {

constexpr std::array<std::string_view, 5> kStateNames{"running", "promoted", "rolled back",
                                                      "inconclusive", "aborted"};

Result<State> state_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) return static_cast<State>(i);
  }
  return Error{Code::kInternal, "a rollout is stored as '" + std::string(name) + "'"};
}

Value record_value(const Record& record) {
  Value value;
  value["deployment"] = record.deployment;
  value["model"] = record.model;
  value["alias"] = record.alias;
  value["champion"] = record.champion;
  value["candidate"] = record.candidate;
  value["sticky"] = record.sticky;
  value["policy"] = to_value(record.policy);
  value["salt"] = record.salt;
  value["edges"] = Value::array();
  for (const float edge : record.edges) value["edges"].push(static_cast<double>(edge));
  value["replay"] = record.replay;
  value["held"] = record.manual.held;
  value["approved"] = record.manual.approved;
  value["step"] = static_cast<std::int64_t>(record.step);
  value["count"] = record.count;
  value["started_at"] = record.started_at.nanos;
  value["entered_at"] = record.entered_at.nanos;
  value["reason"] = record.reason;
  value["evidence"] = record.evidence;
  value["decision"] = record.decision;
  return value;
}

Result<Record> record_of(const storage::SqlRow& row) {
  Record record;
  record.key = {row.text(0), row.text(1)};
  record.zone = row.text(2);
  record.state = FALAJ_TRY(state_from_name(row.text(3)));
  const Value value = FALAJ_TRY(parse_json(row.text(4)));
  record.deployment = value.text("deployment");
  record.model = value.text("model");
  record.alias = value.text("alias");
  record.champion = value.integer("champion");
  record.candidate = value.integer("candidate");
  record.sticky = value.text("sticky");
  record.policy = FALAJ_TRY(policy_from_value(value["policy"]));
  record.salt = static_cast<std::uint64_t>(value.integer("salt"));
  if (value["edges"].is_array()) {
    for (const Value& edge : value["edges"].as_array()) {
      record.edges.push_back(static_cast<float>(edge.as_double()));
    }
  }
  record.replay = value["replay"];
  record.manual = {value["held"] == Value(true), value["approved"] == Value(true)};
  record.step = static_cast<std::size_t>(value.integer("step"));
  record.count = value.integer("count");
  record.started_at = {value.integer("started_at")};
  record.entered_at = {value.integer("entered_at")};
  record.reason = value.text("reason");
  record.evidence = value["evidence"];
  record.decision = value["decision"];
  if (record.step >= record.policy.steps.size()) {
    return Error{Code::kInternal, record.object() + " is stored with a step that it does not have"};
  }
  return record;
}

}  // namespace

std::string_view state_name(State state) { return kStateNames[static_cast<std::size_t>(state)]; }

RolloutStatus status_of(const Record& record) {
  RolloutStatus status;
  status.project = record.key.first;
  status.name = record.key.second;
  status.deployment = record.deployment;
  status.champion = record.champion;
  status.candidate = record.candidate;
  status.state = record.state;
  status.manual = record.manual;
  status.steps = record.policy.steps;
  status.step = record.step;
  status.started_at = record.started_at;
  status.entered_at = record.entered_at;
  status.reason = record.reason;
  status.replay = record.replay;
  status.evidence = record.evidence;
  status.decision = record.decision;
  if (record.policy.scores == Scores::kNone) status.left_out = {"nans", "shift"};
  return status;
}

Value to_value(const RolloutStatus& status) {
  Value value;
  value["name"] = status.name;
  value["deployment"] = status.deployment;
  value["champion"] = status.champion;
  value["candidate"] = status.candidate;
  value["state"] = state_name(status.state);
  value["held"] = status.manual.held;
  value["approved"] = status.manual.approved;
  value["steps"] = Value::array();
  for (const double share : status.steps) value["steps"].push(share);
  value["step"] = static_cast<std::int64_t>(status.step);
  value["started_at"] = to_rfc3339(status.started_at);
  value["entered_at"] = to_rfc3339(status.entered_at);
  value["reason"] = status.reason;
  value["replay"] = status.replay;
  value["evidence"] = status.evidence;
  value["decision"] = status.decision;
  value["left_out"] = Value::array();
  for (const std::string& guard : status.left_out) value["left_out"].push(guard);
  value["not_mirrored"] = status.not_mirrored;
  return value;
}

Status save(storage::SqlTransaction& tx, const Record& record) {
  FALAJ_TRY(
      tx.execute("INSERT INTO rollouts (project, name, zone, state, record)"
                 " VALUES (?, ?, ?, ?, ?) ON CONFLICT (project, name) DO UPDATE SET"
                 " zone = excluded.zone, state = excluded.state, record = excluded.record",
                 {record.key.first, record.key.second, record.zone,
                  std::string(state_name(record.state)), to_json(record_value(record))}));
  return {};
}

Result<std::vector<Record>> load(storage::SqlTransaction& tx, const std::string& project) {
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT project, name, zone, state, record FROM rollouts"
                         " WHERE (? = '' OR project = ?) ORDER BY project, name",
                         {project, project}));
  std::vector<Record> records;
  for (const storage::SqlRow& row : rows) records.push_back(FALAJ_TRY(record_of(row)));
  return records;
}

}  // namespace falaj::serving::rollout
