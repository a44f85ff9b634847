// security/quota/quota.h — what one project may use, as its declaration says.
//
//   kind: Project
//   spec: {zone: ae-fin, quota: {objects: 200, storage: 10Gi, jobs: 4, predictions_per_second:
//   500}}
//
// Each limit is asked where the thing is made: objects in the catalog's transaction, jobs in the
// queue's, stored bytes at the blob store's door (counted_blobs.h), predictions in the gate. What
// passes with time (jobs, predictions) is answered 429 with Retry-After; what does not (objects,
// storage) 422. Both are FJ-7017.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"
#include "storage/sql.h"

namespace falaj::security {

// Absent: no limit. 0: none at all.
struct Quota {
  std::optional<std::int64_t> objects;                 // Declared in the project.
  std::optional<std::int64_t> storage_bytes;           // Of blobs: segments, sets, models.
  std::optional<std::int64_t> jobs;                    // Waiting and running.
  std::optional<std::int64_t> predictions_per_second;  // Requests, however many rows they have.
  bool operator==(const Quota&) const = default;
};

// The member `quota` of a Project's spec; null is no limit at all. FJ-1xxx when it is not one.
Result<Quota> decode_quota(const Value& quota, const std::string& where);
// Of a project as it is declared in this transaction; no limit for one that is not.
Result<Quota> quota_of(storage::SqlTransaction& tx, std::string_view project);

// FJ-7017. kLasting: only deleting or a higher quota helps; kPassing: waiting does.
enum class Shortage : std::uint8_t { kLasting, kPassing };
Error quota_reached(std::string_view project, const std::string& what, Shortage shortage);

}  // namespace falaj::security
