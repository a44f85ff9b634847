// security/residency/exits.h — the door that every flow passes: decide, count, and leave a trace.
//
// One service for the ten exits. Decisions read an immutable snapshot of zones, projects and
// transfers (published by refresh()), so that pass() never blocks and may be called on an
// event-loop thread. What passed is counted in the ledger by day, project, exit and zones; refusals
// and each use of a Transfer become audit entries.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/published.h"
#include "security/audit.h"
#include "security/context.h"
#include "security/residency/declarations.h"
#include "security/residency/residency.h"
#include "storage/sql.h"

namespace falaj::security::residency {

extern const storage::Migration kResidencyMigration;

// What decisions are made from. Immutable once published.
struct Snapshot {
  ZoneMap zones;
  std::map<std::string, ProjectInfo, std::less<>> projects;
  std::vector<Transfer> transfers;
};

// The decision itself. Tests replace it to see that a missing check is noticed.
using Decider =
    std::function<Decision(const Flow&, const ZoneMap&, std::span<const Transfer>, Timestamp)>;

struct ExitOptions {
  std::vector<Regime> regimes{};
  // Where this machine and its stores stand; several for one that may hold several. Empty: in each
  // project's own zone, as on a machine that serves one firm in one place.
  std::vector<Zone> machine{};
  Decider decider = decide;
};

// One line of the ledger.
struct LedgerRow {
  std::string day;  // "2026-11-16", UTC.
  std::string project;
  std::string exit;
  std::string from;
  std::string to;        // "" when it was not declared.
  std::string transfer;  // The one it stood on; "" when none was needed.
  std::int64_t flows = 0;
  std::int64_t bytes = 0;
  std::int64_t refused = 0;  // Flows that were; they carried no byte.
};
Value to_value(const LedgerRow& row);

class FlowCell;
class Crossing;
// What became of a flow that may pass: where its bytes are counted later. The use of a transfer is
// audited when the last copy is gone, with the bytes that were counted till then.
struct Passage {
  std::shared_ptr<FlowCell> cell;
  std::shared_ptr<Crossing> crossing{};  // Null when it needed no transfer.
};

// Who approved a Transfer as it is declared now.
struct Approval {
  std::string approver;
  bool before = false;  // Somebody had done so already, and nothing was written.
};

// A caller, as far as residency cares.
enum class Caller : std::uint8_t { kElsewhere, kOnThisMachine };

// What an answer's residency depends on, besides what is declared.
struct Visit {
  Exit exit = Exit::kServe;
  std::string project{};
  Zone declared{};  // Where the caller is, as declared for it.
  Caller caller = Caller::kElsewhere;

  bool operator==(const Visit&) const = default;
};

// Thread-safe.
class Exits {
 public:
  // Everything is refused until the first refresh().
  Exits(storage::SqlStore& sql, Audit& audit, const Clock& clock, ExitOptions options);
  ~Exits();

  // Reads zones, projects, transfers and their approvals, and publishes them. Call after every
  // change of declared objects. Blocks.
  Status refresh();
  // The newest. Never blocks.
  std::shared_ptr<const Snapshot> snapshot() const { return published_.load(); }

  // The project's zone; unlabelled when there is no such project. Never blocks.
  Zone zone_of(const std::string& project) const;
  // Every zone that a project of this name was ever declared in, also of those that are no more:
  // what it did there stays in the log. Blocks.
  Result<std::map<std::string, std::vector<Zone>>> homes() const;
  // Where what is derived from these may be; see ZoneMap::strictest. Never blocks.
  Result<Zone> derived(const std::vector<Zone>& sources) const;
  // Where this machine stands for data of that zone: one of its zones that may hold it, else its
  // first, so that decide() can say why not.
  Zone machine_for(const Zone& data) const;
  // Where a caller is: what it declared; this machine for one that sits here; for others what the
  // data's regime says of callers without a zone (this machine, or unlabelled and so refused).
  Zone caller_zone(const Zone& data, const Zone& declared, Caller caller) const;

  // Decides, and counts flow.bytes. A refusal (FJ-7030, 7031, 7032) is audited by the next tick(),
  // and a use of a transfer (transfer.use) by the next one after the passage is gone, one of hours
  // every minute; those that are alike in one entry with their number and bytes. Never blocks.
  Result<Passage> pass(const RequestContext& context, Flow flow);
  // An answer of a declared project: caller_zone() and pass() in one, for the hot path. A visit
  // like the last one of its thread, which stayed in its zone under the same declarations, is
  // counted and not decided again; object and context are asked for only when they are needed.
  Result<Passage> answer(const Visit& visit, const std::function<std::string()>& object,
                         const std::function<RequestContext()>& context);
  // The same, but entry and row are durable before this returns; FJ-7050 errors of the log refuse
  // the flow. For what leaves in bulk: backups, exports, webhooks. Bytes that are counted later
  // have an entry of their own (transfer.sent). Blocks.
  Result<Passage> pass_recorded(const RequestContext& context, Flow flow);
  // What pass() would decide; leaves no trace. Never blocks.
  Decision would_pass(Flow flow) const;
  // Bytes of a flow that passed, counted where they are written. Never blocks.
  void count(const Passage& passage, std::int64_t bytes);

  // FJ-7033 when the project was declared for another purpose; either being empty fits all.
  Status check_purpose(const std::string& project, const std::string& purpose,
                       const std::string& what) const;
  // FJ-7034 while what was made then must be kept: by its zone's longest retention, or by the
  // project's legal hold.
  Status check_erasable(const std::string& project, const Zone& zone, Timestamp created,
                        const std::string& what) const;

  // Approves the Transfer as it is declared now; a change of it needs a new approval. The caller
  // was allowed transfers.approve. FJ-7032 when the transfer could not stand on its regime: then
  // there is nothing to approve; also when the approver is who declared it last, unless there is
  // nobody else (the local developer). One that is approved already keeps its approver.
  Result<Approval> approve(const RequestContext& context, const std::string& transfer);
  // Every transfer of a project (all for ""), with its approver and why it would not count now.
  Result<Value> transfers(const std::string& project) const;

  // Writes what was counted and queued. Called every second and at the end.
  Status tick();
  // Written rows and those of memory, by day, project, exit, from, to, transfer. Empty project:
  // all. They count no less than the entries about transfers that were in the log before the call.
  Result<std::vector<LedgerRow>> ledger(const std::string& project) const;

 private:
  struct Impl;
  Published<Snapshot> published_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::security::residency
