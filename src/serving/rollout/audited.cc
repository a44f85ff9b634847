// Verdicts of the audit log, computed again from what was recorded with them.
#include "base/json.h"
#include "serving/rollout/rollouts.h"

namespace falaj::serving::rollout {
namespace {

Error differs(const security::AuditEntry& entry, std::string_view again,
              const std::string& reason) {
  return Error(ErrorId::kReplayDiffers, "entry " + std::to_string(entry.sequence) + " says '" +
                                            entry.action + "', but its evidence gives '" +
                                            std::string(again) + "': " + reason);
}

Result<Decision> judge_replay_again(const security::AuditEntry& entry) {
  const Value& found = entry.detail["replay"];
  const ReplayEvidence evidence = FALAJ_TRY(replay_evidence_from_value(found["evidence"]));
  const RolloutPolicy policy = FALAJ_TRY(policy_from_value(entry.detail["policy"]));
  const ReplayDecision again = judge_replay(evidence, policy);
  const bool passes = again.outcome == ReplayDecision::Outcome::kPass;
  const bool same = to_json(to_value(again)) == to_json(found["decision"]) &&
                    entry.action == (passes ? "rollout.replay" : "rollout.refuse");
  if (!same) return differs(entry, passes ? "pass" : "refuse", again.reason);
  return Decision{passes ? Verdict::kAdvance : Verdict::kRollback, again.reason, {}, {}, 1};
}

}  // namespace

Result<Decision> replay(const security::AuditEntry& entry) {
  const Value& detail = entry.detail;
  if (entry.action.starts_with("rollout.") && detail["replay"].is_object()) {
    return judge_replay_again(entry);
  }
  if (!entry.action.starts_with("rollout.") || !detail.has("policy") || !detail.has("decision")) {
    return Error(ErrorId::kInvalidArgument, "entry " + std::to_string(entry.sequence) + " is '" +
                                                entry.action + "', no verdict of a rollout");
  }
  const Evidence evidence = FALAJ_TRY(evidence_from_value(detail["evidence"]));
  const RolloutPolicy policy = FALAJ_TRY(policy_from_value(detail["policy"]));
  if (evidence.step >= policy.steps.size()) {
    return Error(ErrorId::kReplayDiffers, "the recorded step is none of the policy's");
  }
  Decision decision = decide(evidence, policy, {detail.integer("now")});
  const bool same = to_json(to_value(decision)) == to_json(detail["decision"]) &&
                    entry.action == "rollout." + std::string(verdict_name(decision.verdict));
  if (same) return decision;
  return differs(entry, verdict_name(decision.verdict), decision.reason);
}

}  // namespace falaj::serving::rollout
