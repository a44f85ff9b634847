#include "jobs/queues.h"

#include <cmath>

#include "base/decode.h"
#include "jobs/node.h"
#include "jobs/runtime.h"
#include "jobs/scheduling_policy.h"

namespace falaj::jobs {
namespace {

constexpr double kUnitsMost = 1e6;
constexpr std::int64_t kBytesMost = std::int64_t{1} << 50;  // Sums of many stay in range.
constexpr int kDepthMost = 6;  // Below the machine itself, within scheduler::kMaxDepth.

constexpr std::string_view kDefaultQueue = "default";
constexpr std::size_t kModelsMax = 16;
constexpr Duration kMinRunMost = Duration::days(30);

enum class Unit : std::uint8_t { kMilli, kBytes };

Result<std::int64_t> amount(Fields& fields, std::string_view key, std::int64_t fallback,
                            Unit unit) {
  if (fields.any(key).is_null()) return fallback;
  if (unit == Unit::kBytes) {
    const std::int64_t bytes = FALAJ_TRY(fields.bytes(key, 0));
    if (bytes >= 0 && bytes <= kBytesMost) return bytes;
  } else {
    const double units = FALAJ_TRY(fields.number(key, 0));
    if (units >= 0 && units <= kUnitsMost) return std::int64_t{std::llround(units * 1000)};
  }
  return Error(ErrorId::kOutOfRange, fields.where() + ": '" + std::string(key) +
                                         "' is within 0 and " +
                                         (unit == Unit::kBytes ? "1024Ti" : "1000000"));
}

Error both(const Fields& fields, std::string_view ours, std::string_view kueues) {
  return Error(ErrorId::kInvalidArgument, fields.where() + ": '" + std::string(ours) + "' and '" +
                                              std::string(kueues) + "' mean the same: say one");
}

// Under our name or under Kueue's.
Result<std::int64_t> either(Fields& fields, std::string_view ours, std::string_view kueues,
                            std::int64_t fallback, Unit unit) {
  if (fields.any(kueues).is_null()) return amount(fields, ours, fallback, unit);
  if (!fields.any(ours).is_null()) return both(fields, ours, kueues);
  return amount(fields, kueues, fallback, unit);
}

// `parent`, or `cohort`; "" for none.
std::string parent_of(const Value& spec) {
  const std::string parent = spec.text("parent");
  return parent.empty() ? spec.text("cohort") : parent;
}

Result<ResourceQuota> decode_resource(Fields& quota, std::string_view name, Unit unit) {
  const Value value = FALAJ_TRY(quota.object(name));
  Fields fields(value, quota.where() + " " + std::string(name));
  ResourceQuota out;
  out.nominal = FALAJ_TRY(either(fields, "nominal", "nominalQuota", 0, unit));
  out.borrow = FALAJ_TRY(either(fields, "borrow", "borrowingLimit", kNoLimit, unit));
  out.lend = FALAJ_TRY(either(fields, "lend", "lendingLimit", kNoLimit, unit));
  FALAJ_TRY(fields.finish());
  return out;
}

// gpu.a100: {nominal: 4}
Status decode_models(Fields& quota, const Value& value, QueueSpec& out) {
  constexpr std::string_view kModel = "gpu.";
  if (!value.is_object()) return {};
  for (const auto& [key, each] : value.as_object()) {
    if (!key.starts_with(kModel)) continue;
    const std::string model = key.substr(kModel.size());
    FALAJ_TRY(check_name("model", model));
    out.gpu_models[model] = FALAJ_TRY(decode_resource(quota, key, Unit::kMilli));
  }
  if (out.gpu_models.size() <= kModelsMax) return {};
  return Error(ErrorId::kOutOfRange, quota.where() + " lists at most 16 models of GPUs");
}

// Follows the parents up: in a circle nobody would be at the top.
Status check_parents(const storage::Object& object, const storage::FindObject& find) {
  const storage::Object* at = &object;
  for (int depth = 1; depth <= kDepthMost; ++depth) {
    const std::string parent = parent_of(at->spec);
    if (parent.empty()) return {};
    if (parent == object.name) break;
    at = find({"Queue", object.project, parent});
    if (at == nullptr) return {};  // Said by the catalog.
  }
  return Error(ErrorId::kOutOfRange, "Queue " + object.name +
                                         ": its parents make a circle, or more than 6 queues "
                                         "stand above one another");
}

// Who may be pushed out for its jobs: in our words, or in Kueue's under `preemption`.
Status decode_preemption(Fields& fields, QueueSpec& out) {
  using scheduler::Reclaim;
  using scheduler::WithinQueue;
  const std::string reclaim =
      FALAJ_TRY(fields.choice("reclaim", {"any", "lower-priority", "never"}));
  const std::string within =
      FALAJ_TRY(fields.choice("within", {"lower-priority", "later", "never"}));
  out.reclaim = reclaim == "any"     ? Reclaim::kAny
                : reclaim == "never" ? Reclaim::kNever
                                     : Reclaim::kLowerPriority;
  out.within = within == "later"   ? WithinQueue::kSubmittedLater
               : within == "never" ? WithinQueue::kNever
                                   : WithinQueue::kLowerPriority;
  const Value value = FALAJ_TRY(fields.object("preemption"));
  if (fields.any("preemption").is_null()) return {};
  if (!fields.any("reclaim").is_null()) return both(fields, "reclaim", "preemption");
  if (!fields.any("within").is_null()) return both(fields, "within", "preemption");
  Fields kueue(value, fields.where() + " preemption");
  const std::string cohort =
      FALAJ_TRY(kueue.choice("reclaimWithinCohort", {"Never", "LowerPriority", "Any"}));
  const std::string own = FALAJ_TRY(
      kueue.choice("withinClusterQueue", {"Never", "LowerPriority", "LowerOrNewerEqualPriority"}));
  FALAJ_TRY(kueue.finish());
  out.reclaim = cohort == "Any"     ? Reclaim::kAny
                : cohort == "Never" ? Reclaim::kNever
                                    : Reclaim::kLowerPriority;
  out.within = own == "Never"           ? WithinQueue::kNever
               : own == "LowerPriority" ? WithinQueue::kLowerPriority
                                        : WithinQueue::kSubmittedLater;
  return {};
}

}  // namespace

Result<QueueSpec> decode_queue(const storage::Object& object) {
  Fields fields(object.spec, "Queue " + object.name + " spec");
  QueueSpec out;
  out.project = object.project;
  out.name = object.name;
  out.parent = FALAJ_TRY(fields.text("parent"));
  const std::string cohort = FALAJ_TRY(fields.text("cohort"));
  if (!cohort.empty() && !out.parent.empty()) return both(fields, "parent", "cohort");
  if (out.parent.empty()) out.parent = cohort;
  if (!out.parent.empty()) FALAJ_TRY(check_name("parent", out.parent));
  const double weight = FALAJ_TRY(fields.number("weight", 1));
  if (!(weight >= 0.001 && weight <= kUnitsMost)) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": 'weight' is within 0.001 and 1000000");
  }
  out.weight_milli = std::llround(weight * 1000);
  const Value value = FALAJ_TRY(fields.object("quota"));
  Fields quota(value, fields.where() + " quota");
  out.cpu = FALAJ_TRY(decode_resource(quota, "cpu", Unit::kMilli));
  out.memory = FALAJ_TRY(decode_resource(quota, "memory", Unit::kBytes));
  out.gpu = FALAJ_TRY(decode_resource(quota, "gpu", Unit::kMilli));
  FALAJ_TRY(decode_models(quota, value, out));
  FALAJ_TRY(quota.finish());
  out.budgets = FALAJ_TRY(decode_budgets(fields));
  FALAJ_TRY(decode_preemption(fields, out));
  out.min_run = FALAJ_TRY(fields.duration("min_run", Duration{}));
  if (out.min_run.nanos < 0 || out.min_run > kMinRunMost) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": 'min_run' is at most 30 days");
  }
  FALAJ_TRY(fields.finish());
  return out;
}

std::string queue_name(const std::string& project, const std::string& name) {
  return project + "/" + (name.empty() ? std::string(kDefaultQueue) : name);
}

std::vector<storage::KindInfo> kinds() {
  storage::KindInfo info;
  info.kind = "Queue";
  info.summary = "A share of the machine for jobs: what is its own, what it may borrow and lend.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const QueueSpec queue = FALAJ_TRY(decode_queue(object));
    if (queue.parent.empty()) return std::vector<storage::Reference>{};
    return std::vector<storage::Reference>{{"Queue", object.project, queue.parent}};
  };
  info.check_beside = check_parents;
  return {info, scheduling_policy_kind(), node_kind(), runtime_kind()};
}

}  // namespace falaj::jobs
