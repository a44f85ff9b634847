#include "jobs/scheduling_policy.h"

#include "base/decode.h"
#include "jobs/node.h"

namespace falaj::jobs {

SchedulingPolicy first_come() {
  SchedulingPolicy out;
  // Run times are known from history at best, so that neither length nor size decides by itself.
  out.policy.order.p50 = 0;
  out.policy.order.size = 0;
  // What is nobody's own is first come, first served; only an owner's part is cleared.
  out.policy.preemption.entitlement = scheduler::Entitlement::kNominal;
  return out;
}

Result<std::int64_t> priority_of(const SchedulingPolicy& policy, const std::string& name) {
  const auto found = policy.priorities.find(name);
  if (found != policy.priorities.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, value] : policy.priorities) names.push_back(each);
  const std::string near = nearest_name(name, names);
  return Error(ErrorId::kObjectNotFound,
               "the SchedulingPolicy in force has no priority '" + name + "'" +
                   (near.empty() ? "; give a number, or one of its 'priorities'"
                                 : "; did you mean " + near + "?"));
}

Result<SchedulingPolicy> decode_scheduling_policy(const storage::Object& object) {
  SchedulingPolicy out =
      FALAJ_TRY(scheduler::simulate::decode_policy(object.spec, first_come().policy));
  if (out.queues.empty()) return out;
  return Error(ErrorId::kInvalidArgument,
               "SchedulingPolicy " + object.name +
                   ": 'queues' are for simulated tenants; declare Queue objects instead");
}

bool is_in_force(const storage::Object& object) {
  return object.kind == "SchedulingPolicy" && object.name == kPolicyInForce;
}

storage::KindInfo scheduling_policy_kind() {
  storage::KindInfo info;
  info.kind = "SchedulingPolicy";
  info.scope = storage::Scope::kPlatform;
  info.summary =
      "In which order jobs start, who gives way, what they cost, and how much worse a change may "
      "make things; the one named 'default' is in force.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    FALAJ_TRY(decode_scheduling_policy(object));
    return std::vector<storage::Reference>{};
  };
  info.check_beside = [](const storage::Object& object, const storage::FindObject& find) -> Status {
    if (!is_in_force(object)) return {};
    return check_power(find({"Node", "", std::string(kThisNode)}), &object);
  };
  return info;
}

}  // namespace falaj::jobs
