#include "jobs/queues.h"

#include <cmath>

#include "base/decode.h"
#include "jobs/runtime.h"
#include "jobs/scheduling_policy.h"

namespace falaj::jobs {
namespace {

constexpr double kUnitsMost = 1e6;
constexpr std::int64_t kBytesMost = std::int64_t{1} << 50;  // Sums of many stay in range.
constexpr int kDepthMost = 6;  // Below the machine itself, within scheduler::kMaxDepth.

constexpr std::string_view kDefaultQueue = "default";

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

Result<ResourceQuota> decode_resource(Fields& quota, std::string_view name, Unit unit) {
  const Value value = FALAJ_TRY(quota.object(name));
  Fields fields(value, quota.where() + " " + std::string(name));
  ResourceQuota out;
  out.nominal = FALAJ_TRY(amount(fields, "nominal", 0, unit));
  out.borrow = FALAJ_TRY(amount(fields, "borrow", kNoLimit, unit));
  out.lend = FALAJ_TRY(amount(fields, "lend", kNoLimit, unit));
  FALAJ_TRY(fields.finish());
  return out;
}

// Follows the parents up: in a circle nobody would be at the top.
Status check_parents(const storage::Object& object, const storage::FindObject& find) {
  const storage::Object* at = &object;
  for (int depth = 1; depth <= kDepthMost; ++depth) {
    const std::string parent = at->spec.text("parent");
    if (parent.empty()) return {};
    if (parent == object.name) break;
    at = find({"Queue", object.project, parent});
    if (at == nullptr) return {};  // Said by the catalog.
  }
  return Error(ErrorId::kOutOfRange, "Queue " + object.name +
                                         ": its parents make a circle, or more than 6 queues "
                                         "stand above one another");
}

}  // namespace

Result<QueueSpec> decode_queue(const storage::Object& object) {
  Fields fields(object.spec, "Queue " + object.name + " spec");
  QueueSpec out;
  out.project = object.project;
  out.name = object.name;
  out.parent = FALAJ_TRY(fields.text("parent"));
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
  FALAJ_TRY(quota.finish());
  out.budgets = FALAJ_TRY(decode_budgets(fields));
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
  return {info, scheduling_policy_kind(), runtime_kind()};
}

}  // namespace falaj::jobs
