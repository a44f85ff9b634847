// How a decision and what it was made on are written into the audit log, and read back for replay.
#include "serving/rollout/decision.h"

namespace falaj::serving::rollout {
namespace {

Error unreadable(std::string_view what) {
  return Error(ErrorId::kReplayDiffers, "the recorded " + std::string(what) + " cannot be read");
}

Value arm_value(const Arm& arm) {
  Value value;
  value["units"] = arm.units;
  value["requests"] = arm.requests;
  value["errors"] = arm.errors;
  value["scored"] = arm.scored;
  value["nans"] = arm.nans;
  value["latency"] = Value::array();
  for (const LatencyBin& bin : arm.latency) {
    value["latency"].push(Value(Value::Array{bin.upper_nanos, bin.count}));
  }
  value["scores"] = Value::array();
  for (const std::int64_t count : arm.scores) value["scores"].push(count);
  return value;
}

Result<Arm> arm_from_value(const Value& value) {
  Arm arm;
  if (!value["latency"].is_array() || !value["scores"].is_array()) return unreadable("arm");
  arm.units = value.integer("units");
  arm.requests = value.integer("requests");
  arm.errors = value.integer("errors");
  arm.scored = value.integer("scored");
  arm.nans = value.integer("nans");
  for (const Value& bin : value["latency"].as_array()) {
    const bool pair = bin.is_array() && bin.as_array().size() == 2 && bin.as_array()[0].is_int() &&
                      bin.as_array()[1].is_int();
    if (!pair) return unreadable("latency");
    arm.latency.push_back({bin.as_array()[0].as_int(), bin.as_array()[1].as_int()});
  }
  for (const Value& count : value["scores"].as_array()) {
    if (!count.is_int()) return unreadable("scores");
    arm.scores.push_back(count.as_int());
  }
  return arm;
}

Value arms_value(const Arms& arms) {
  Value value;
  value["champion"] = arm_value(arms.champion);
  value["candidate"] = arm_value(arms.candidate);
  return value;
}

Result<Arms> arms_from_value(const Value& value) {
  Arms arms;
  arms.champion = FALAJ_TRY(arm_from_value(value["champion"]));
  arms.candidate = FALAJ_TRY(arm_from_value(value["candidate"]));
  return arms;
}

Value findings_value(const std::vector<Finding>& findings) {
  Value rows = Value::array();
  for (const Finding& finding : findings) {
    Value row;
    row["guard"] = finding.guard;
    row["least"] = finding.least;
    row["most"] = finding.most;
    row["margin"] = finding.margin;
    row["harm"] = harm_name(finding.harm);
    rows.push(std::move(row));
  }
  return rows;
}

}  // namespace

Value to_value(const Evidence& evidence) {
  Value value = arms_value(evidence.whole);
  value["step"] = static_cast<std::int64_t>(evidence.step);
  value["entered_at"] = evidence.entered_at.nanos;
  value["held"] = evidence.manual.held;
  value["approved"] = evidence.manual.approved;
  value["count"] = evidence.count;
  value["window"] = evidence.window;
  value["recent"] = arms_value(evidence.recent);
  return value;
}

Result<Evidence> evidence_from_value(const Value& value) {
  Evidence evidence;
  if (value.integer("step", -1) < 0) return unreadable("evidence");
  evidence.step = static_cast<std::size_t>(value.integer("step"));
  evidence.entered_at = {value.integer("entered_at")};
  evidence.manual = {value["held"] == Value(true), value["approved"] == Value(true)};
  evidence.count = value.integer("count", 1);
  evidence.window = value.integer("window", 1);
  evidence.whole = FALAJ_TRY(arms_from_value(value));
  evidence.recent = FALAJ_TRY(arms_from_value(value["recent"]));
  return evidence;
}

Value to_value(const RolloutPolicy& policy) {
  Value value;
  value["steps"] = Value::array();
  for (const double share : policy.steps) value["steps"].push(share);
  Value& guard = value["guard"];
  guard["errors"] = policy.margins.errors;
  guard["nans"] = policy.margins.nans;
  guard["latency"] = policy.margins.latency;
  guard["latency_floor"] = policy.margins.latency_floor.nanos;
  guard["shift"] = policy.margins.shift;
  value["alpha"] = policy.alpha;
  value["step_min"] = policy.step_min.nanos;
  value["step_max"] = policy.step_max.nanos;
  value["requests_min"] = policy.requests_min;
  value["approve"] = policy.approval == Approval::kNeeded;
  value["scores"] = policy.scores == Scores::kJudged;
  if (policy.replay.requests > 0) {
    value["replay"]["requests"] = policy.replay.requests;
    value["replay"]["difference_max"] = policy.replay.difference_max;
  }
  return value;
}

Result<RolloutPolicy> policy_from_value(const Value& value) {
  RolloutPolicy policy;
  policy.steps.clear();
  if (!value["steps"].is_array() || !value["guard"].is_object()) return unreadable("policy");
  for (const Value& share : value["steps"].as_array()) {
    if (!share.is_number()) return unreadable("steps");
    policy.steps.push_back(share.as_double());
  }
  const Value& guard = value["guard"];
  policy.margins = {guard.number("errors"), guard.number("nans"), guard.number("latency"),
                    Duration{guard.integer("latency_floor")}, guard.number("shift")};
  policy.alpha = value.number("alpha");
  policy.step_min = {value.integer("step_min")};
  policy.step_max = {value.integer("step_max")};
  policy.requests_min = value.integer("requests_min");
  policy.approval = value["approve"] == Value(true) ? Approval::kNeeded : Approval::kNotNeeded;
  policy.scores = value["scores"] == Value(false) ? Scores::kNone : Scores::kJudged;
  policy.replay = {value["replay"].integer("requests"), value["replay"].number("difference_max")};
  return policy;
}

Value to_value(const Decision& decision) {
  Value value;
  value["verdict"] = verdict_name(decision.verdict);
  value["reason"] = decision.reason;
  value["ratio_p"] = decision.ratio_p;
  value["findings"] = findings_value(decision.findings);
  value["recent"] = findings_value(decision.recent);
  return value;
}

}  // namespace falaj::serving::rollout
