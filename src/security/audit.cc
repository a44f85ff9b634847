#include "security/audit.h"

#include "base/hash.h"
#include "base/json.h"

namespace falaj::security {
namespace {

using storage::SqlParams;
using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 10'000;
constexpr std::int64_t kVerifyPage = 1'000;

const std::string& first_previous() {
  static const std::string kZeros(64, '0');
  return kZeros;
}

// The bytes that are hashed: everything but the hash itself.
std::string canonical(const AuditEntry& entry) {
  Value value = to_value(entry);
  value.as_object().erase("hash");
  return to_json(value);
}

Error broken(std::int64_t sequence, const std::string& what) {
  return {ErrorId::kAuditBroken,
          "audit entry " + std::to_string(sequence) + " " + what +
              "; nothing from there on can be trusted: compare with a backup"};
}

// Printing repairs invalid UTF-8, so two different texts could hash alike; none may have it.
bool has_readable_texts(const AuditEntry& entry) {
  return is_valid_utf8(entry.actor) && is_valid_utf8(entry.project) &&
         is_valid_utf8(entry.action) && is_valid_utf8(entry.object) &&
         is_valid_utf8(entry.request_id);
}

// Columns: sequence, at, actor, project, action, object, request_id, detail, previous, hash.
Result<AuditEntry> entry_from_row(const SqlRow& row) {
  AuditEntry entry{row.integer(0), Timestamp{row.integer(1)},
                   row.text(2),    row.text(3),
                   row.text(4),    row.text(5),
                   row.text(6),    Value(),
                   row.text(8),    row.text(9)};
  auto detail = parse_json(row.text(7));
  if (!detail.ok()) return broken(entry.sequence, "holds a detail that is no JSON");
  entry.detail = std::move(detail).value();
  return entry;
}

Result<AuditHead> read_head(SqlTransaction& tx) {
  const SqlRows rows = FALAJ_TRY(tx.query("SELECT sequence, hash FROM audit_head WHERE id = 1"));
  if (rows.size() != 1) return broken(0, "(the head of the chain) is missing");
  return AuditHead{rows.front().integer(0), rows.front().text(1)};
}

// `row` must continue the chain whose last link is `head`.
Result<AuditHead> check_link(const SqlRow& row, const AuditHead& head) {
  const std::int64_t expected = head.sequence + 1;
  if (row.integer(0) != expected) return broken(expected, "is missing");
  const AuditEntry entry = FALAJ_TRY(entry_from_row(row));
  if (to_json(entry.detail) != row.text(7)) return broken(expected, "has an altered detail");
  if (!has_readable_texts(entry)) return broken(expected, "holds a text that is not UTF-8");
  if (entry.previous != head.hash) return broken(expected, "does not follow the entry before it");
  if (sha256_hex(canonical(entry)) != entry.hash) return broken(expected, "was altered");
  return AuditHead{entry.sequence, entry.hash};
}

Result<AuditHead> verify_chain(SqlTransaction& tx) {
  AuditHead head{0, first_previous()};
  while (true) {
    const SqlRows rows = FALAJ_TRY(tx.query(
        "SELECT sequence, at, actor, project, action, object, request_id, detail, previous, hash"
        " FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",
        {head.sequence, kVerifyPage}));
    if (rows.empty()) break;
    for (const SqlRow& row : rows) head = FALAJ_TRY(check_link(row, head));
  }
  const SqlRows below = FALAJ_TRY(tx.query("SELECT count(*) FROM audit WHERE sequence < 1"));
  if (below.front().integer(0) != 0) return broken(0, "does not belong to the chain");
  const AuditHead stored = FALAJ_TRY(read_head(tx));
  if (stored.sequence != head.sequence || stored.hash != head.hash) {
    return broken(head.sequence + 1, "is missing: the log ends at " +
                                         std::to_string(head.sequence) + " but its head says " +
                                         std::to_string(stored.sequence));
  }
  return head;
}

Status insert(SqlTransaction& tx, const AuditEntry& entry) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO audit (sequence, at, actor, project, action, object, request_id, detail,"
      " previous, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {entry.sequence, entry.at.nanos, entry.actor, entry.project, entry.action, entry.object,
       entry.request_id, to_json(entry.detail), entry.previous, entry.hash}));
  FALAJ_TRY(tx.execute("UPDATE audit_head SET sequence = ?, hash = ? WHERE id = 1",
                       {entry.sequence, entry.hash}));
  return {};
}

std::string list_sql(const AuditQuery& query) {
  const bool oldest = query.order == AuditQuery::Order::kOldestFirst;
  // Constant fragments only: every value is bound.
  return std::string(
             "SELECT sequence, at, actor, project, action, object, request_id, detail, previous,"
             " hash FROM audit WHERE ") +
         (oldest ? "sequence > ?1" : "(?1 = 0 OR sequence < ?1)") +
         " AND (?2 = '' OR action = ?2 OR (substr(?2, -1) = '.' AND"
         " substr(action, 1, length(?2)) = ?2))"
         " AND (?3 = '' OR object = ?3) AND (?4 = '' OR project = ?4) ORDER BY sequence " +
         (oldest ? "ASC" : "DESC") + " LIMIT ?5";
}

}  // namespace

const storage::Migration kAuditMigration{
    "security-001-audit",
    "CREATE TABLE audit ("
    " sequence INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL,"
    " project TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL,"
    " request_id TEXT NOT NULL, detail TEXT NOT NULL, previous TEXT NOT NULL,"
    " hash TEXT NOT NULL) STRICT;"
    // The last link, apart from the chain: entries cut off at the end are noticed.
    "CREATE TABLE audit_head ("
    " id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;"
    "INSERT INTO audit_head (id, sequence, hash) VALUES (1, 0,"
    " '0000000000000000000000000000000000000000000000000000000000000000');"
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;"
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;"};

Value to_value(const AuditEntry& entry) {
  Value value;
  value["sequence"] = entry.sequence;
  value["at"] = to_rfc3339(entry.at);
  value["actor"] = entry.actor;
  value["project"] = entry.project;
  value["action"] = entry.action;
  value["object"] = entry.object;
  value["request_id"] = entry.request_id;
  value["detail"] = entry.detail;
  value["previous"] = entry.previous;
  value["hash"] = entry.hash;
  return value;
}

Audit::Audit(storage::SqlStore& store, const Clock& clock) : store_(store), clock_(clock) {}

Result<AuditEntry> Audit::append(SqlTransaction& tx, const RequestContext& context,
                                 const AuditEvent& event) {
  const AuditHead head = FALAJ_TRY(read_head(tx));
  AuditEntry entry{head.sequence + 1,
                   clock_.now(),
                   context.principal.id,
                   context.project.str(),
                   event.action,
                   event.object,
                   context.request_id,
                   event.detail,
                   head.hash,
                   ""};
  if (!has_readable_texts(entry)) {
    return Error(ErrorId::kInvalidUtf8, "audit entry " + std::to_string(entry.sequence) +
                                            ": actor, project, action, object and request id must "
                                            "be UTF-8");
  }
  const std::string bytes = canonical(entry);
  // What cannot be read back could never be verified: refuse it now, not in an inspection.
  const auto readable = parse_json(bytes);
  if (!readable.ok()) return readable.error().within("audit entry for " + event.action);
  entry.detail = (*readable)["detail"];
  entry.hash = sha256_hex(bytes);
  FALAJ_TRY(insert(tx, entry));
  return entry;
}

Result<AuditEntry> Audit::record(const RequestContext& context, const AuditEvent& event) {
  AuditEntry entry;
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
    entry = FALAJ_TRY(append(tx, context, event));
    return {};
  }));
  return entry;
}

Result<std::vector<AuditEntry>> Audit::list(const AuditQuery& query) const {
  if (query.limit < 1 || query.limit > kListMax || query.after < 0) {
    return Error(ErrorId::kOutOfRange, "audit list: limit " + std::to_string(query.limit) +
                                           " must be 1 to " + std::to_string(kListMax) +
                                           " and after " + std::to_string(query.after) +
                                           " must not be negative");
  }
  const SqlRows rows = FALAJ_TRY(
      storage::query(store_, list_sql(query),
                     {query.after, query.action, query.object, query.project, query.limit}));
  std::vector<AuditEntry> entries;
  entries.reserve(rows.size());
  for (const SqlRow& row : rows) entries.push_back(FALAJ_TRY(entry_from_row(row)));
  return entries;
}

Result<AuditEntry> Audit::get(std::int64_t sequence) const {
  const SqlRows rows = FALAJ_TRY(storage::query(
      store_,
      "SELECT sequence, at, actor, project, action, object, request_id, detail, previous, hash"
      " FROM audit WHERE sequence = ?",
      {sequence}));
  if (rows.empty()) {
    return Error(Code::kNotFound, "there is no audit entry " + std::to_string(sequence) +
                                      "; falaj audit list shows what exists");
  }
  return entry_from_row(rows.front());
}

Result<AuditHead> Audit::head() const {
  AuditHead head;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    head = FALAJ_TRY(read_head(tx));
    return {};
  }));
  return head;
}

Result<AuditHead> Audit::verify() const {
  AuditHead head;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    head = FALAJ_TRY(verify_chain(tx));
    return {};
  }));
  return head;
}

}  // namespace falaj::security
