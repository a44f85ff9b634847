// security/access/emergencies.h — break-glass, seen: each use is an audit entry and an open alarm.
//
// An alarm stands for one principal in one project (or above projects) until somebody else closes
// it; further uses are counted on it. The stated reasons are openings of the audit entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::security::access {

extern const storage::Migration kEmergenciesMigration;

struct Emergency {
  std::int64_t id = 0;
  std::string project;  // "": above projects, or of several.
  std::string principal;
  std::string action;  // Of the newest use, as are the three below.
  std::string object;
  std::string request_id;
  std::int64_t entry = 0;  // Sequence in the audit log.
  std::int64_t uses = 0;
  Timestamp first_at{};
  Timestamp last_at{};
  Timestamp closed_at{};
  std::string closed_by;  // "" while it is open.
  bool open() const { return closed_by.empty(); }
};
// {kind: "break-glass", id, project, principal, action, …, open}
Value to_value(const Emergency& emergency);

// Thread-safe; every call may block.
class Emergencies {
 public:
  Emergencies(storage::SqlStore& sql, Audit& audit, telemetry::Metrics& metrics,
              const Clock& clock);

  // Writes the entry and opens the alarm, or counts on the open one, in one transaction.
  // `event.detail` holds `action`. FJ-7050 as Audit::append.
  Status record(const RequestContext& context, const AuditEvent& event);
  // Newest first, the open ones before the closed; at most 1000. "": those above projects.
  Result<std::vector<Emergency>> list(const std::string& project) const;
  // kNotFound when there is no such.
  Result<Emergency> get(std::int64_t id) const;
  // Seen and dealt with. kPermissionDenied for the one who broke the glass, kConflict when it is
  // closed.
  Result<Emergency> close(const RequestContext& context, std::int64_t id);

 private:
  storage::SqlStore& sql_;
  Audit& audit_;
  const Clock& clock_;
  telemetry::Gauge& open_;
};

}  // namespace falaj::security::access
