// security/audit.h — the append-only, hash-chained record of every change.
//
// An entry is written in the same transaction as the change it describes: there is no change
// without its entry and no entry without its change. hash = SHA-256(canonical JSON of the entry
// with the previous hash inside), so a flipped byte anywhere breaks verify() from there on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "security/context.h"
#include "storage/sql.h"

namespace falaj::security {

struct AuditEntry {
  std::int64_t sequence = 0;  // 1, 2, 3 … without gaps.
  Timestamp at{};
  std::string actor;    // Principal id: opaque.
  std::string project;  // "" above projects.
  std::string action;   // "object.apply", "model.promote", "loop.retrain"
  std::string object;   // "FeatureView/payments/customer_activity"
  std::string request_id;
  Value detail;          // Evidence: hashes, counts, the decision's inputs. Never a feature value.
  std::string previous;  // Hash of the entry before; 64 zeros for the first.
  std::string hash;
};

Value to_value(const AuditEntry& entry);

struct AuditEvent {
  std::string action;
  std::string object;
  Value detail;
};

struct AuditQuery {
  std::int64_t after = 0;    // Continue behind this sequence in the chosen order; 0 starts.
  std::int64_t limit = 100;  // 1 to 10 000, otherwise FJ-1006.
  enum class Order : std::uint8_t { kOldestFirst, kNewestFirst } order = Order::kNewestFirst;
  std::string action;   // Exact, or a prefix ending in '.'; "" for all.
  std::string object;   // Exact; "" for all.
  std::string project;  // "" for all.
};

struct AuditHead {
  std::int64_t sequence = 0;
  std::string hash;
};

extern const storage::Migration kAuditMigration;

// Thread-safe.
class Audit {
 public:
  Audit(storage::SqlStore& store, const Clock& clock);

  // Appends inside the caller's transaction. The one way to write.
  Result<AuditEntry> append(storage::SqlTransaction& tx, const RequestContext& context,
                            const AuditEvent& event);
  // A transaction of its own, for events without another change.
  Result<AuditEntry> record(const RequestContext& context, const AuditEvent& event);

  Result<std::vector<AuditEntry>> list(const AuditQuery& query) const;
  Result<AuditEntry> get(std::int64_t sequence) const;
  Result<AuditHead> head() const;
  // Recomputes every hash from the first entry to the head, in one snapshot. FJ-7001 with the first
  // bad sequence. Who remembers an earlier head compares it with get(): a log that was cut and
  // written anew is consistent in itself.
  Result<AuditHead> verify() const;

 private:
  storage::SqlStore& store_;
  const Clock& clock_;
};

}  // namespace falaj::security
