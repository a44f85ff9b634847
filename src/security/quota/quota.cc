#include "security/quota/quota.h"

#include <limits>

#include "base/decode.h"
#include "storage/objects.h"

namespace falaj::security {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kAbsent = -1;

std::optional<std::int64_t> limit(std::int64_t value) {
  if (value == kAbsent) return std::nullopt;
  return value;
}

}  // namespace

Result<Quota> decode_quota(const Value& quota, const std::string& where) {
  Fields fields(quota, where);
  const auto count = [&](std::string_view key) -> Result<std::optional<std::int64_t>> {
    if (fields.any(key).is_null()) return limit(kAbsent);
    return limit(FALAJ_TRY(fields.integer(key, 0, 0, kMost)));
  };
  Quota out;
  out.objects = FALAJ_TRY(count("objects"));
  out.jobs = FALAJ_TRY(count("jobs"));
  out.predictions_per_second = FALAJ_TRY(count("predictions_per_second"));
  out.storage_bytes = limit(FALAJ_TRY(fields.bytes("storage", kAbsent)));
  FALAJ_TRY(fields.finish());
  return out;
}

Result<Quota> quota_of(storage::SqlTransaction& tx, std::string_view project) {
  if (project.empty()) return Quota{};
  const auto declared = FALAJ_TRY(storage::find_object(tx, "Project", "", project));
  if (!declared) return Quota{};
  return decode_quota(declared->spec["quota"], "Project/" + declared->name + " quota");
}

Error quota_reached(std::string_view project, const std::string& what, Shortage shortage) {
  Error error{ErrorId::kQuotaReached, "project '" + std::string(project) + "' " + what};
  if (shortage == Shortage::kLasting) error.code = Code::kFailedPrecondition;
  return error;
}

}  // namespace falaj::security
