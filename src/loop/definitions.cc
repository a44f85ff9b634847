// How a Policy is declared, and how its status is shown.
#include "base/decode.h"
#include "loop/controller.h"

namespace falaj::loop {
namespace {

Status check_positive(const Fields& fields, std::string_view key, Duration value) {
  if (value > Duration{}) return {};
  return Error(ErrorId::kOutOfRange,
               fields.where() + ": " + std::string(key) + " must be longer than 0, such as 30d");
}

}  // namespace

Result<Policy> decode_policy(const storage::Object& object) {
  Fields fields(object.spec, "Policy " + object.name + " spec");
  Policy policy;
  policy.name = object.name;
  FALAJ_TRY(fields.choice("on", {"drift"}));
  FALAJ_TRY(fields.choice("then", {"promote"}));
  policy.monitor = FALAJ_TRY(fields.required_text("monitor"));
  policy.retrains_per_week_max = FALAJ_TRY(fields.integer("max_per_week", 2, 0, 10'000));
  policy.cooldown = FALAJ_TRY(fields.duration("cooldown", Duration::hours(1)));
  const Value retrain_value = FALAJ_TRY(fields.object("retrain"));
  const Value gate_value = FALAJ_TRY(fields.object("gate"));
  FALAJ_TRY(fields.finish());

  Fields retrain(retrain_value, fields.where() + ".retrain");
  policy.job = FALAJ_TRY(retrain.required_text("job"));
  policy.train_window = FALAJ_TRY(retrain.duration("window", Duration::days(30)));
  FALAJ_TRY(check_positive(retrain, "window", policy.train_window));
  policy.labels_min = FALAJ_TRY(retrain.integer("labels_min", 0, 0, 1'000'000'000'000));
  FALAJ_TRY(retrain.finish());

  Fields gate(gate_value, fields.where() + ".gate");
  FALAJ_TRY(gate.choice("metric", {"auc"}));
  policy.gate_window = FALAJ_TRY(gate.duration("window", Duration::days(7)));
  FALAJ_TRY(check_positive(gate, "window", policy.gate_window));
  policy.no_worse_by = FALAJ_TRY(gate.number("no_worse_by", 0));
  if (!(policy.no_worse_by >= 0 && policy.no_worse_by < 1)) {
    return Error(ErrorId::kOutOfRange, gate.where() + ": no_worse_by must be 0 to below 1");
  }
  FALAJ_TRY(gate.finish());
  return policy;
}

std::vector<storage::KindInfo> kinds() {
  storage::KindInfo info;
  info.kind = "Policy";
  info.summary =
      "What happens about an alarm: retrain, compare with the champion, promote or keep.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const Policy policy = FALAJ_TRY(decode_policy(object));
    return std::vector<storage::Reference>{{"Monitor", object.project, policy.monitor},
                                           {"TrainJob", object.project, policy.job}};
  };
  return {info};
}

Value to_value(const PolicyStatus& status) {
  Value value;
  value["project"] = status.project;
  value["policy"] = status.policy;
  value["phase"] = phase_name(status.phase);
  value["last_action"] = to_value(status.last_action);
  value["snapshot"] = to_value(status.snapshot);
  value["current"]["action"] = to_value(status.current_action);
  value["current"]["snapshot"] = to_value(status.current_snapshot);
  return value;
}

Result<Action> replay(const security::AuditEntry& entry) {
  const std::string number = std::to_string(entry.sequence);
  if (!entry.action.starts_with("loop.")) {
    return Error(ErrorId::kInvalidArgument,
                 "audit entry " + number + " is '" + entry.action +
                     "', no decision; only entries 'loop.*' and 'rollout.*' can be replayed");
  }
  const Snapshot snapshot = FALAJ_TRY(snapshot_from_value(entry.detail["snapshot"]));
  const Policy policy = FALAJ_TRY(policy_from_value(entry.detail["policy"]));
  Action action = next_action(snapshot, policy);
  const bool same = to_value(action) == entry.detail["action"] &&
                    entry.action == "loop." + std::string(action_name(action.kind));
  if (same) return action;
  return Error(ErrorId::kReplayDiffers,
               "audit entry " + number + " records " + entry.action + " (" +
                   entry.detail["action"].text("reason") + "), but its inputs give loop." +
                   std::string(action_name(action.kind)) + " (" + action.reason + ")");
}

}  // namespace falaj::loop
