#include "security/residency/exits.h"

#include <algorithm>
#include <array>

#include "base/thread_shard.h"
#include "security/residency/internal/ledger.h"

namespace falaj::security::residency {

const storage::Migration kResidencyMigration{
    "residency-001-ledger",
    "CREATE TABLE transfer_approvals ("
    " project TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL,"
    " approver TEXT NOT NULL, approved_at INTEGER NOT NULL,"
    " PRIMARY KEY (project, name, generation)) STRICT;"
    "CREATE TABLE zone_ledger ("
    " day TEXT NOT NULL, project TEXT NOT NULL, exit TEXT NOT NULL, from_zone TEXT NOT NULL,"
    " to_zone TEXT NOT NULL, transfer TEXT NOT NULL, flows INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, refused INTEGER NOT NULL,"
    " PRIMARY KEY (day, project, exit, from_zone, to_zone, transfer)) STRICT;"};

namespace {

using storage::Object;
using storage::SqlTransaction;

// How a person who acts stands in the log.
const std::string& actor_of(const RequestContext& context) { return context.principal.id; }

constexpr std::int64_t kDayNanos = Duration::days(1).nanos;
std::int64_t day_of(Timestamp at) { return at.nanos / kDayNanos; }
std::string day_text(std::int64_t day) { return to_rfc3339({day * kDayNanos}).substr(0, 10); }

enum class Told : std::uint8_t { kBefore, kAtTheEnd };

AuditEvent event_of(const Flow& flow, const Decision& decision, const FlowCounts& counts,
                    Told when) {
  Value detail = Value::object();
  detail["exit"] = exit_name(flow.exit);
  detail["from"] = flow.data.name();
  detail["to"] = flow.destination.name();
  detail["rule"] = decision.rule;
  if (!flow.purpose.empty()) detail["purpose"] = flow.purpose;
  if (decision.allowed) {
    // Bytes of flows that have their entries already, or flows with the bytes that they carried; of
    // one that is only beginning nobody knows how many it will be.
    const bool later = counts.flows == 0;
    if (!later) detail["flows"] = counts.flows;
    if (counts.bytes > 0 || when == Told::kAtTheEnd) detail["bytes"] = counts.bytes;
    detail["object"] = flow.object;
    return {later ? "transfer.sent" : "transfer.use",
            "Transfer/" + flow.project + "/" + decision.transfer, std::move(detail)};
  }
  detail["code"] = to_string(decision.error);
  detail["flows"] = counts.refused;
  return {"residency.refuse", flow.object, std::move(detail)};
}

Result<std::string> approver_of(SqlTransaction& tx, const Object& object) {
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT approver FROM transfer_approvals WHERE project = ? AND name = ?"
                         " AND generation = ?",
                         {object.project, object.name, object.generation}));
  return rows.empty() ? std::string() : rows.front().text(0);
}

Result<Transfer> load_transfer(SqlTransaction& tx, const Object& object) {
  Transfer transfer = FALAJ_TRY(decode_transfer(object));
  transfer.approver = FALAJ_TRY(approver_of(tx, object));
  return transfer;
}

// What cannot be read of the past stays unknown, and what is unknown is refused.
template <typename Info, typename Map>
void keep_readable(Result<Info> info, const std::string& name, Map& into) {
  if (info.ok()) into.insert_or_assign(name, std::move(*info));
}

// Zones and projects that were deleted count as they were at last: their runs, logs and entries
// are still there, and are still from where they are from.
Result<Snapshot> load_snapshot(SqlTransaction& tx, const std::vector<Regime>& regimes) {
  std::map<std::string, ZoneInfo> zones;
  Snapshot out;
  for (const Object& object : FALAJ_TRY(storage::object_history(tx, "Zone"))) {
    keep_readable(decode_zone(object), object.name, zones);
  }
  for (const Object& object : FALAJ_TRY(storage::object_history(tx, "Project"))) {
    keep_readable(decode_project(object), object.name, out.projects);
  }
  // What is declared now must be readable.
  for (const Object& object : FALAJ_TRY(storage::list_objects(tx, "Zone"))) {
    zones.insert_or_assign(object.name, FALAJ_TRY(decode_zone(object)));
  }
  for (const Object& object : FALAJ_TRY(storage::list_objects(tx, "Project"))) {
    out.projects.insert_or_assign(object.name, FALAJ_TRY(decode_project(object)));
  }
  for (const Object& object : FALAJ_TRY(storage::list_objects(tx, "Transfer"))) {
    out.transfers.push_back(FALAJ_TRY(load_transfer(tx, object)));
  }
  std::vector<ZoneInfo> infos;
  infos.reserve(zones.size());
  for (auto& [name, info] : zones) infos.push_back(std::move(info));
  out.zones = ZoneMap(std::move(infos), regimes);
  return out;
}

Value transfer_row(const Transfer& transfer, const std::string& why_not) {
  Value row = Value::object();
  row["project"] = transfer.project;
  row["name"] = transfer.name;
  row["from"] = transfer.from.name();
  row["to"] = transfer.to.name();
  row["ground"] = transfer.ground;
  row["expires"] = to_rfc3339(transfer.expires);
  row["approver"] = transfer.approver;
  row["state"] = why_not.empty() ? "in force" : why_not;
  return row;
}

Error not_yours(const std::string& name, const std::string& actor) {
  return Error(ErrorId::kTransferInvalid,
               "Transfer " + name + " was declared by " + actor +
                   ": somebody else must approve it, with the role approver or admin there");
}

constexpr std::string_view kLocalDeveloper = "user:dev";

}  // namespace

Value to_value(const LedgerRow& row) {
  Value out = Value::object();
  out["day"] = row.day;
  out["project"] = row.project;
  out["exit"] = row.exit;
  out["from"] = row.from;
  out["to"] = row.to;
  out["transfer"] = row.transfer;
  out["flows"] = row.flows;
  out["bytes"] = row.bytes;
  out["refused"] = row.refused;
  return out;
}

namespace {

// The last visit of a thread that stayed in its zone, and what it was decided under.
constexpr std::size_t kHabits = 16;
struct alignas(64) Habit {
  Mutex mutex;
  std::shared_ptr<const Snapshot> under FALAJ_GUARDED_BY(mutex);
  std::int64_t day FALAJ_GUARDED_BY(mutex) = 0;
  Visit visit FALAJ_GUARDED_BY(mutex);
  std::shared_ptr<FlowCell> cell FALAJ_GUARDED_BY(mutex);
};

}  // namespace

struct Exits::Impl {
  storage::SqlStore& sql;
  Audit& audit;
  const Clock& clock;
  ExitOptions options;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::array<Habit, kHabits> habits{};
  Mutex refreshing{};  // One at a time, so that an older snapshot never replaces a newer one.

  Decision decide_flow(const Snapshot* snapshot, Flow& flow) const {
    static const Snapshot nothing;
    const Snapshot& known = snapshot == nullptr ? nothing : *snapshot;
    if (flow.purpose.empty()) {
      const auto project = known.projects.find(flow.project);
      if (project != known.projects.end()) flow.purpose = project->second.purpose;
    }
    return options.decider(flow, known.zones, known.transfers, clock.now());
  }

  Result<Passage> pass(const Flow& flow, const Decision& decision,
                       const std::function<RequestContext()>& context) {
    const FlowCounts counts{.flows = decision.allowed ? 1 : 0,
                            .bytes = decision.allowed ? flow.bytes : 0,
                            .refused = decision.allowed ? 0 : 1};
    std::shared_ptr<FlowCell> cell = ledger->cell(key_of(flow, decision.transfer));
    cell->add(counts);
    if (!decision.allowed) {
      ledger->note(context(), flow, decision, counts);
      return refusal(flow, decision);
    }
    Passage passage{std::move(cell)};
    if (!decision.transfer.empty()) {
      passage.crossing =
          std::make_shared<Crossing>(ledger, Note{context(), flow, decision, counts}, clock.now());
    }
    return passage;
  }

  LedgerKey key_of(const Flow& flow, const std::string& transfer) const {
    return {day_of(clock.now()),     flow.exit, flow.project, flow.data.name(),
            flow.destination.name(), transfer};
  }

  Status write_rows(SqlTransaction& tx, const std::map<LedgerKey, FlowCounts>& rows) const {
    for (const auto& [key, counts] : rows) {
      FALAJ_TRY(tx.execute(
          "INSERT INTO zone_ledger (day, project, exit, from_zone, to_zone, transfer, flows, bytes,"
          " refused) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
          " ON CONFLICT (day, project, exit, from_zone, to_zone, transfer) DO UPDATE SET"
          " flows = flows + excluded.flows, bytes = bytes + excluded.bytes,"
          " refused = refused + excluded.refused",
          {day_text(key.day), key.project, std::string(exit_name(key.exit)), key.from, key.to,
           key.transfer, counts.flows, counts.bytes, counts.refused}));
    }
    return {};
  }

  // Who declared the transfer as it is now; "" when the log does not say.
  Result<std::string> declared_by(const std::string& project, const std::string& name) const {
    AuditQuery query;
    query.limit = 1;
    query.action = "object.apply";
    query.object = "Transfer/" + project + "/" + name;
    const std::vector<AuditEntry> entries = FALAJ_TRY(audit.list(query));
    return entries.empty() ? std::string() : entries.front().actor;
  }
};

Exits::Exits(storage::SqlStore& sql, Audit& audit, const Clock& clock, ExitOptions options)
    : impl_(new Impl{sql, audit, clock, std::move(options)}) {
  published_.replace(std::make_shared<const Snapshot>());
}

Exits::~Exits() = default;

Status Exits::refresh() {
  const MutexLock lock(impl_->refreshing);
  auto next = std::make_shared<Snapshot>();
  FALAJ_TRY(impl_->sql.read([&](SqlTransaction& tx) -> Status {
    *next = FALAJ_TRY(load_snapshot(tx, impl_->options.regimes));
    return {};
  }));
  published_.replace(std::move(next));
  return {};
}

Zone Exits::zone_of(const std::string& project) const {
  const auto now = snapshot();
  const auto found = now->projects.find(project);
  return found == now->projects.end() ? Zone() : found->second.zone;
}

Result<std::map<std::string, std::vector<Zone>>> Exits::homes() const {
  std::map<std::string, std::vector<Zone>> homes;
  FALAJ_TRY(impl_->sql.read([&](SqlTransaction& tx) -> Status {
    for (const Object& project : FALAJ_TRY(storage::object_history(tx, "Project"))) {
      std::vector<Zone>& zones = homes[project.name];
      const Zone zone(project.spec.text("zone"));
      if (std::find(zones.begin(), zones.end(), zone) == zones.end()) zones.push_back(zone);
    }
    return {};
  }));
  return homes;
}

Result<Zone> Exits::derived(const std::vector<Zone>& sources) const {
  return snapshot()->zones.strictest(sources);
}

Zone Exits::machine_for(const Zone& data) const {
  const std::vector<Zone>& machine = impl_->options.machine;
  if (machine.empty()) return data;
  const auto now = snapshot();
  const auto fits = std::find_if(machine.begin(), machine.end(),
                                 [&](const Zone& zone) { return now->zones.holds(data, zone); });
  return fits == machine.end() ? machine.front() : *fits;
}

Zone Exits::caller_zone(const Zone& data, const Zone& declared, Caller caller) const {
  if (declared.labelled()) return declared;
  if (caller == Caller::kOnThisMachine) return machine_for(data);
  const auto now = snapshot();
  for (const Zone& zone : now->zones.chain(data)) {
    const std::string& name = now->zones.find(zone)->regime;
    if (name.empty()) continue;
    const auto regime = now->zones.regimes().find(name);
    // What a regime that is not known here asks for, nobody can say.
    if (regime == now->zones.regimes().end() ||
        regime->second.undeclared_clients == UndeclaredClients::kRefused) {
      return Zone();
    }
  }
  return machine_for(data);
}

Result<Passage> Exits::pass(const RequestContext& context, Flow flow) {
  const auto now = snapshot();
  return impl_->pass(flow, impl_->decide_flow(now.get(), flow), [&] { return context; });
}

Result<Passage> Exits::answer(const Visit& visit, const std::function<std::string()>& object,
                              const std::function<RequestContext()>& context) {
  const auto now = snapshot();
  Habit& habit = impl_->habits[thread_shard(kHabits)];
  const std::int64_t today = day_of(impl_->clock.now());
  {
    const MutexLock lock(habit.mutex);
    if (habit.under == now && habit.day == today && habit.visit == visit) {
      habit.cell->add({.flows = 1});
      return Passage{habit.cell};
    }
  }
  Flow flow;
  flow.exit = visit.exit;
  flow.project = visit.project;
  flow.data = zone_of(visit.project);
  flow.destination = caller_zone(flow.data, visit.declared, visit.caller);
  flow.object = object();
  const Decision decision = impl_->decide_flow(now.get(), flow);
  Passage passage = FALAJ_TRY(impl_->pass(flow, decision, context));
  // A transfer expires, and each of its uses is audited: those are decided every time.
  if (!decision.transfer.empty()) return passage;
  const MutexLock lock(habit.mutex);
  habit.under = now;
  habit.day = today;
  habit.visit = visit;
  habit.cell = passage.cell;
  return passage;
}

Result<Passage> Exits::pass_recorded(const RequestContext& context, Flow flow) {
  const auto now = snapshot();
  const Decision decision = impl_->decide_flow(now.get(), flow);
  const FlowCounts counts{.flows = decision.allowed ? 1 : 0,
                          .bytes = decision.allowed ? flow.bytes : 0,
                          .refused = decision.allowed ? 0 : 1};
  const LedgerKey key = impl_->key_of(flow, decision.transfer);
  std::shared_ptr<FlowCell> cell = impl_->ledger->cell(key);
  if (!decision.allowed || !decision.transfer.empty()) {
    // With its row: after a crash too the ledger counts what the log says.
    FALAJ_TRY(impl_->sql.write([&](SqlTransaction& tx) -> Status {
      FALAJ_TRY(impl_->audit.append(tx, context, event_of(flow, decision, counts, Told::kBefore)));
      return impl_->write_rows(tx, {{key, counts}});
    }));
  } else {
    cell->add(counts);
  }
  if (!decision.allowed) return refusal(flow, decision);
  Passage passage{std::move(cell)};
  if (!decision.transfer.empty()) {
    passage.crossing = std::make_shared<Crossing>(
        impl_->ledger, Note{context, std::move(flow), decision, {}}, impl_->clock.now());
  }
  return passage;
}

Decision Exits::would_pass(Flow flow) const {
  const auto now = snapshot();
  return impl_->decide_flow(now.get(), flow);
}

void Exits::count(const Passage& passage, std::int64_t bytes) {
  passage.cell->add({.bytes = bytes});
  if (passage.crossing != nullptr) passage.crossing->add(bytes, impl_->clock.now());
}

Status Exits::check_purpose(const std::string& project, const std::string& purpose,
                            const std::string& what) const {
  const auto now = snapshot();
  const auto found = now->projects.find(project);
  if (found == now->projects.end() || purpose.empty()) return {};
  const std::string& declared = found->second.purpose;
  if (declared.empty() || declared == purpose) return {};
  return Error(ErrorId::kPurposeRefused, what + " is for purpose '" + purpose + "', but project " +
                                             project + " holds data collected for '" + declared +
                                             "'");
}

Status Exits::check_erasable(const std::string& project, const Zone& zone, Timestamp created,
                             const std::string& what) const {
  const auto now = snapshot();
  const auto found = now->projects.find(project);
  if (found != now->projects.end() && !found->second.legal_hold.empty()) {
    return Error(ErrorId::kRetentionHeld, what + " is under legal hold: project " + project +
                                              " holds it for '" + found->second.legal_hold + "'");
  }
  const Timestamp until = now->zones.retention_until(zone, created);
  if (impl_->clock.now() >= until) return {};
  return Error(ErrorId::kRetentionHeld,
               what + " must be kept until " + to_rfc3339(until) + " (zone " + zone.name() + ")");
}

Result<Approval> Exits::approve(const RequestContext& context, const std::string& name) {
  const std::string& project = context.project.str();
  const std::string author = FALAJ_TRY(impl_->declared_by(project, name));
  const std::string& approver = actor_of(context);
  if (author == approver && approver != kLocalDeveloper) return not_yours(name, author);
  const auto now = snapshot();
  Approval approval{approver};
  FALAJ_TRY(impl_->sql.write([&](SqlTransaction& tx) -> Status {
    const Object object = FALAJ_TRY(storage::get_object(tx, "Transfer", project, name));
    Transfer transfer = FALAJ_TRY(load_transfer(tx, object));
    approval.before = !transfer.approver.empty();
    if (approval.before) approval.approver = transfer.approver;
    transfer.approver = approval.approver;
    const std::string why = unfit(transfer, now->zones, impl_->clock.now());
    if (!why.empty()) {
      return Error(ErrorId::kTransferInvalid, "Transfer " + name + " " + why);
    }
    if (approval.before) return {};
    FALAJ_TRY(
        tx.execute("INSERT INTO transfer_approvals (project, name, generation, approver,"
                   " approved_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                   {project, name, object.generation, approver, impl_->clock.now().nanos}));
    Value detail = Value::object();
    detail["generation"] = object.generation;
    detail["from"] = transfer.from.name();
    detail["to"] = transfer.to.name();
    detail["ground"] = transfer.ground;
    detail["expires"] = to_rfc3339(transfer.expires);
    FALAJ_TRY(impl_->audit.append(
        tx, context, {"transfer.approve", "Transfer/" + project + "/" + name, std::move(detail)}));
    return {};
  }));
  FALAJ_TRY(refresh());
  return approval;
}

Result<Value> Exits::transfers(const std::string& project) const {
  const auto now = snapshot();
  Value list = Value::array();
  for (const Transfer& transfer : now->transfers) {
    if (!project.empty() && transfer.project != project) continue;
    list.push(transfer_row(transfer, unfit(transfer, now->zones, impl_->clock.now())));
  }
  Value out = Value::object();
  out["transfers"] = std::move(list);
  return out;
}

Status Exits::tick() {
  Ledger::Taken taken = impl_->ledger->take();
  if (taken.rows.empty() && taken.notes.empty()) return {};
  const Status written = impl_->sql.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(impl_->write_rows(tx, taken.rows));
    for (const Note& note : taken.notes) {
      FALAJ_TRY(impl_->audit.append(
          tx, note.context, event_of(note.flow, note.decision, note.counts, Told::kAtTheEnd)));
    }
    return {};
  });
  if (!written.ok()) impl_->ledger->put_back(std::move(taken));
  return written;
}

Result<std::vector<LedgerRow>> Exits::ledger(const std::string& project) const {
  // By text, as the store orders them.
  std::map<std::array<std::string, 6>, FlowCounts> all;
  const auto add = [&](std::array<std::string, 6> key, const FlowCounts& counts) {
    FlowCounts& sum = all[std::move(key)];
    sum.flows += counts.flows;
    sum.bytes += counts.bytes;
    sum.refused += counts.refused;
  };
  for (const auto& [key, counts] : impl_->ledger->waiting()) {
    add({day_text(key.day), key.project, std::string(exit_name(key.exit)), key.from, key.to,
         key.transfer},
        counts);
  }
  FALAJ_TRY(impl_->sql.read([&](SqlTransaction& tx) -> Status {
    for (const storage::SqlRow& row :
         FALAJ_TRY(tx.query("SELECT day, project, exit, from_zone, to_zone, transfer, flows, bytes,"
                            " refused FROM zone_ledger"))) {
      add({row.text(0), row.text(1), row.text(2), row.text(3), row.text(4), row.text(5)},
          {.flows = row.integer(6), .bytes = row.integer(7), .refused = row.integer(8)});
    }
    return {};
  }));
  std::vector<LedgerRow> out;
  for (const auto& [key, counts] : all) {
    if (!project.empty() && key[1] != project) continue;
    out.push_back({key[0], key[1], key[2], key[3], key[4], key[5], counts.flows, counts.bytes,
                   counts.refused});
  }
  return out;
}

}  // namespace falaj::security::residency
