#include "security/audit.h"

#include <algorithm>

#include "base/json.h"
#include "crypto/base64.h"
#include "security/audit/request_ids.h"
#include "security/audit/tiles.h"
#include "security/audit/verify.h"

namespace falaj::security {
namespace {

using crypto::TreeHead;
using storage::SqlParams;
using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 10'000;
constexpr std::int64_t kAdvancePage = 4'096;
constexpr std::size_t kSaltBytes = 32;
constexpr std::string_view kInsert =
    "INSERT INTO audit (sequence, entry, action, object, project, actor) VALUES (?, ?, ?, ?, ?, ?)";

// The store's own reason stays readable: a full disk is still said to be full.
Error unwritten(const Error& cause) {
  return {ErrorId::kAuditUnavailable,
          "the audit entry was not written, so nothing was done: " + cause.message};
}

Result<std::int64_t> last_sequence(SqlTransaction& tx) {
  const SqlRows rows = FALAJ_TRY(tx.query("SELECT coalesce(max(sequence), 0) FROM audit"));
  return rows.front().integer(0);
}

Result<std::vector<std::string>> entry_bytes(SqlTransaction& tx, std::int64_t after,
                                             std::int64_t limit) {
  const SqlRows rows = FALAJ_TRY(
      tx.query("SELECT sequence, entry FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",
               {after, limit}));
  std::vector<std::string> entries;
  entries.reserve(rows.size());
  for (const SqlRow& row : rows) {
    const std::int64_t expected = after + 1 + static_cast<std::int64_t>(entries.size());
    if (row.integer(0) != expected) return audit_broken(expected, "is missing");
    entries.push_back(row.text(1));
  }
  return entries;
}

std::vector<Sha256> leaves_of(const std::vector<std::string>& entries) {
  std::vector<Sha256> leaves;
  leaves.reserve(entries.size());
  for (const std::string& bytes : entries) leaves.push_back(crypto::leaf_hash(bytes));
  return leaves;
}

// The tiles' tree and what is committed behind it, without writing.
Result<TreeHead> current_head(SqlTransaction& tx) {
  const std::uint64_t tiled = FALAJ_TRY(tiled_size(tx));
  const auto tail = FALAJ_TRY(entry_bytes(tx, static_cast<std::int64_t>(tiled), INT64_MAX));
  if (tail.empty()) {
    const Sha256 root = FALAJ_TRY(crypto::root_at(tile_reader(tx), tiled));
    return TreeHead{tiled, root};
  }
  const std::vector<Sha256> leaves = leaves_of(tail);
  const crypto::HashReader stored = tile_reader(tx);
  // A subtree across the border is joined from its halves, down to one side or one leaf.
  crypto::HashReader both;
  both = [&](unsigned level, std::uint64_t index) -> Result<Sha256> {
    if ((index + 1) << level <= tiled) return stored(level, index);
    if (level == 0) return leaves[index - tiled];
    const Sha256 left = FALAJ_TRY(both(level - 1, 2 * index));
    const Sha256 right = FALAJ_TRY(both(level - 1, 2 * index + 1));
    return crypto::node_hash(left, right);
  };
  const std::uint64_t size = tiled + leaves.size();
  const Sha256 root = FALAJ_TRY(crypto::root_at(both, size));
  return TreeHead{size, root};
}

constexpr const char* kFilter =
    " AND (?2 = '' OR action = ?2 OR (substr(?2, -1) = '.' AND"
    " substr(action, 1, length(?2)) = ?2))"
    " AND (?3 = '' OR object = ?3) AND (?4 = '' OR project = ?4)"
    " AND (?5 = '' OR actor = ?5) ORDER BY sequence ";

std::string list_sql(const AuditQuery& query) {
  const bool oldest = query.order == AuditQuery::Order::kOldestFirst;
  // Constant fragments only: every value is bound.
  return std::string("SELECT sequence, entry FROM audit WHERE ") +
         (oldest ? "sequence > ?1" : "(?1 = 0 OR sequence < ?1)") + kFilter +
         (oldest ? "ASC" : "DESC") + " LIMIT ?6";
}

Result<AuditEntry> entry_of(const SqlRow& row) {
  auto entry = parse_entry(row.text(1));
  if (!entry.ok() || entry->sequence != row.integer(0)) {
    return audit_broken(row.integer(0), "was altered");
  }
  return entry;
}

Status check_limit(std::int64_t limit, std::int64_t after) {
  if (limit >= 1 && limit <= kListMax && after >= 0) return {};
  return Error(ErrorId::kOutOfRange, "audit list: limit " + std::to_string(limit) +
                                         " must be 1 to " + std::to_string(kListMax) +
                                         " and after " + std::to_string(after) +
                                         " must not be negative");
}

std::string about_opening(std::int64_t sequence, const std::string& name) {
  return "audit/" + std::to_string(sequence) + "/" + name;
}

// The commitment into the entry, what opens it into the side table under the key of `project`.
Status commit_text(SqlTransaction& tx, OpeningVault* openings, const std::string& project,
                   const PersonalText& personal, AuditEntry& entry) {
  const std::string salt = crypto::system_random().bytes(kSaltBytes);
  entry.detail[personal.name] = commitment_of(salt, personal.text);
  if (openings == nullptr) return {};
  Value opening;
  opening["salt"] = crypto::base64(salt);
  opening["text"] = personal.text;
  const std::string sealed = FALAJ_TRY(
      openings->seal(project, about_opening(entry.sequence, personal.name), to_json(opening)));
  FALAJ_TRY(
      tx.execute("INSERT INTO audit_openings (sequence, name, project, sealed) VALUES (?, ?, ?, ?)",
                 {entry.sequence, personal.name, project, crypto::base64(sealed)}));
  return {};
}

}  // namespace

const storage::Migration kAuditMigration{
    "security-001-audit-tree",
    // The members that are searched for stand beside the entry too; verify() compares them.
    "CREATE TABLE audit ("
    " sequence INTEGER PRIMARY KEY, entry TEXT NOT NULL, action TEXT NOT NULL,"
    " object TEXT NOT NULL, project TEXT NOT NULL, actor TEXT NOT NULL) STRICT;"
    "CREATE TABLE audit_tiles ("
    " level INTEGER NOT NULL, tile INTEGER NOT NULL, hashes TEXT NOT NULL,"
    " PRIMARY KEY (level, tile)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE audit_heads (size INTEGER PRIMARY KEY, note TEXT NOT NULL) STRICT;"
    "CREATE TABLE audit_openings ("
    " sequence INTEGER NOT NULL, name TEXT NOT NULL, project TEXT NOT NULL, sealed TEXT NOT NULL,"
    " PRIMARY KEY (sequence, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE audit_witnessed ("
    " origin TEXT PRIMARY KEY, key TEXT NOT NULL, size INTEGER NOT NULL, root TEXT NOT NULL,"
    " at INTEGER NOT NULL) STRICT;"
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;"
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;"};

Audit::Audit(storage::SqlStore& store, const Clock& clock) : store_(store), clock_(clock) {}

Status Audit::learn_last_time(SqlTransaction& tx) {
  const MutexLock lock(mutex_);
  if (last_at_) return {};
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT sequence, entry FROM audit ORDER BY sequence DESC LIMIT 1"));
  last_at_ = Timestamp::min();
  // A damaged last entry is verify()'s to report; it does not stop the log from growing.
  if (rows.empty()) return {};
  const auto last = parse_entry(rows.front().text(1));
  if (last.ok()) last_at_ = last->at;
  return {};
}

// The log's time never runs back; when the machine's does, the entry says by how much.
Result<EntryPlace> Audit::next_place(SqlTransaction& tx) {
  const auto last = last_sequence(tx);
  if (!last.ok()) return unwritten(last.error());
  if (const Status known = learn_last_time(tx); !known.ok()) return unwritten(known.error());
  const Timestamp now = clock_.now();
  EntryPlace place;
  place.sequence = *last + 1;
  const MutexLock lock(mutex_);
  if (now < *last_at_) place.clock_behind = *last_at_ - now;
  last_at_ = std::max(*last_at_, now);
  place.at = *last_at_;
  return place;
}

Result<AuditEntry> Audit::commit_texts(SqlTransaction& tx, const AuditEvent& event,
                                       AuditEntry entry) {
  for (const PersonalText& personal : event.personal) {
    FALAJ_TRY(commit_text(tx, openings_, entry.project, personal, entry));
  }
  return entry;
}

Result<AuditEntry> Audit::append(SqlTransaction& tx, const RequestContext& context,
                                 const AuditEvent& event) {
  const EntryPlace place = FALAJ_TRY(next_place(tx));
  AuditEntry entry;
  entry.sequence = place.sequence;
  entry.at = place.at;
  entry.clock_behind = place.clock_behind;
  entry.actor = context.principal.id;
  entry.project = context.project.str();
  entry.action = event.action;
  entry.object = event.object;
  const RequestIds ids = request_ids_of(context.request_id);
  entry.request_id = ids.ours;
  entry.detail = event.detail;
  if (!event.personal.empty()) {
    auto committed = commit_texts(tx, event, std::move(entry));
    if (!committed.ok()) return unwritten(committed.error());
    entry = std::move(committed).value();
  }
  if (!ids.chosen.empty()) {
    // Of no project, so under the machine's key: an entry about a project whose keys are gone can
    // still be written.
    const PersonalText chosen{"request_id", std::string(ids.chosen)};
    const Status committed = commit_text(tx, openings_, "", chosen, entry);
    if (!committed.ok()) return unwritten(committed.error());
  }
  std::string bytes = FALAJ_TRY(canonical_entry(entry));
  entry.hash = crypto::leaf_hash(bytes).hex();
  SqlParams row{entry.sequence, std::move(bytes), entry.action,
                entry.object,   entry.project,    entry.actor};
  if (const auto written = tx.execute(kInsert, row); !written.ok()) {
    return unwritten(written.error());
  }
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

Status Audit::record_all(const std::vector<AuditRecord>& records) {
  std::vector<EntryDraft> drafts;
  drafts.reserve(records.size());
  for (const auto& [context, event] : records) {
    drafts.push_back(FALAJ_TRY(
        draft_entry({context.principal.id, context.project.str(), event.action, event.object,
                     request_ids_of(context.request_id).ours, event.detail})));
  }
  return store_.write([&](SqlTransaction& tx) -> Status {
    EntryPlace place = FALAJ_TRY(next_place(tx));
    SqlParams row(6);
    for (std::size_t i = 0; i < records.size(); ++i, ++place.sequence) {
      const auto& [context, event] = records[i];
      // Commitments depend on the entry's place.
      if (!event.personal.empty() || !request_ids_of(context.request_id).chosen.empty()) {
        const AuditEntry made = FALAJ_TRY(append(tx, context, event));
        place.at = made.at;
        place.clock_behind = made.clock_behind;
        continue;
      }
      row[0] = place.sequence;
      row[1] = FALAJ_TRY(finish_entry(drafts[i], place));
      row[2] = event.action;
      row[3] = event.object;
      row[4] = context.project.str();
      row[5] = context.principal.id;
      if (const auto written = tx.execute(kInsert, row); !written.ok()) {
        return unwritten(written.error());
      }
    }
    return {};
  });
}

Result<std::vector<AuditEntry>> Audit::list(const AuditQuery& query) const {
  FALAJ_TRY(check_limit(query.limit, query.after));
  const SqlRows rows = FALAJ_TRY(storage::query(
      store_, list_sql(query),
      {query.after, query.action, query.object, query.project, query.actor, query.limit}));
  std::vector<AuditEntry> entries;
  entries.reserve(rows.size());
  for (const SqlRow& row : rows) entries.push_back(FALAJ_TRY(entry_of(row)));
  return entries;
}

Result<AuditEntry> Audit::get(std::int64_t sequence) const {
  const SqlRows rows = FALAJ_TRY(
      storage::query(store_, "SELECT sequence, entry FROM audit WHERE sequence = ?", {sequence}));
  if (rows.empty()) {
    return Error(Code::kNotFound, "there is no audit entry " + std::to_string(sequence) +
                                      "; falaj audit list shows what exists");
  }
  return entry_of(rows.front());
}

Result<std::vector<std::string>> Audit::lines(std::int64_t first, std::int64_t limit) const {
  FALAJ_TRY(check_limit(limit, first - 1));
  std::vector<std::string> entries;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    entries = FALAJ_TRY(entry_bytes(tx, first - 1, limit));
    return {};
  }));
  return entries;
}

Result<TreeHead> Audit::tree_head() const {
  TreeHead head;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    head = FALAJ_TRY(current_head(tx));
    return {};
  }));
  return head;
}

Result<AuditHead> Audit::head() const {
  const TreeHead head = FALAJ_TRY(tree_head());
  return AuditHead{static_cast<std::int64_t>(head.size), head.root.hex()};
}

Result<TreeHead> Audit::advance() {
  while (true) {
    std::uint64_t tiled = 0;
    std::vector<Sha256> leaves;
    // Hashed in a snapshot, so that the writer is not held up.
    FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
      tiled = FALAJ_TRY(tiled_size(tx));
      leaves =
          leaves_of(FALAJ_TRY(entry_bytes(tx, static_cast<std::int64_t>(tiled), kAdvancePage)));
      return {};
    }));
    if (leaves.empty()) return head_at(tiled);
    FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
      const std::uint64_t now_tiled = FALAJ_TRY(tiled_size(tx));
      if (now_tiled != tiled) return {};  // Another caller was quicker: look again.
      return append_tiles(tx, tiled, leaves);
    }));
  }
}

Result<TreeHead> Audit::head_at(std::uint64_t size) const {
  TreeHead head{size, {}};
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    if (size > FALAJ_TRY(tiled_size(tx))) {
      return Error(ErrorId::kOutOfRange,
                   "the audit tree has no " + std::to_string(size) + " entries yet");
    }
    head.root = FALAJ_TRY(crypto::root_at(tile_reader(tx), size));
    return {};
  }));
  return head;
}

Result<crypto::Proof> Audit::inclusion(std::int64_t sequence, std::uint64_t size) const {
  crypto::Proof proof;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    const std::uint64_t tiled = FALAJ_TRY(tiled_size(tx));
    if (sequence < 1 || size > tiled) {
      return Error(ErrorId::kOutOfRange, "no proof for entry " + std::to_string(sequence) +
                                             " among " + std::to_string(size) +
                                             " entries; the tree has " + std::to_string(tiled));
    }
    proof = FALAJ_TRY(
        crypto::inclusion_proof(tile_reader(tx), static_cast<std::uint64_t>(sequence - 1), size));
    return {};
  }));
  return proof;
}

Result<crypto::Proof> Audit::consistency(std::uint64_t first, std::uint64_t second) const {
  crypto::Proof proof;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    const std::uint64_t tiled = FALAJ_TRY(tiled_size(tx));
    if (second > tiled) {
      return Error(ErrorId::kOutOfRange, "no proof up to " + std::to_string(second) +
                                             " entries; the tree has " + std::to_string(tiled));
    }
    proof = FALAJ_TRY(crypto::consistency_proof(tile_reader(tx), first, second));
    return {};
  }));
  return proof;
}

Result<AuditHead> Audit::verify() const {
  TreeHead head;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    head = FALAJ_TRY(verify_log(tx, log_key_));
    return {};
  }));
  return AuditHead{static_cast<std::int64_t>(head.size), head.root.hex()};
}

Result<std::vector<Opening>> Audit::openings(std::int64_t sequence) const {
  if (openings_ == nullptr) return std::vector<Opening>{};
  const SqlRows rows = FALAJ_TRY(storage::query(
      store_, "SELECT name, project, sealed FROM audit_openings WHERE sequence = ? ORDER BY name",
      {sequence}));
  std::vector<Opening> all;
  for (const SqlRow& row : rows) {
    const std::string sealed = FALAJ_TRY(crypto::from_base64(row.text(2)));
    const Result<std::string> plain =
        openings_->open(row.text(1), about_opening(sequence, row.text(0)), sealed);
    if (!plain.ok() &&
        (plain.error().id == ErrorId::kKeyMissing || plain.error().id == ErrorId::kDecryptFailed)) {
      continue;  // Its project was shredded.
    }
    const Value value = FALAJ_TRY(parse_json(FALAJ_TRY(plain)));
    std::string salt = FALAJ_TRY(crypto::from_base64(value.text("salt")));
    all.push_back({row.text(0), std::move(salt), value.text("text")});
  }
  return all;
}

Result<std::int64_t> Audit::erase_openings(const RequestContext& context, std::int64_t sequence) {
  std::int64_t erased = 0;
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) -> Status {
    erased = FALAJ_TRY(tx.execute("DELETE FROM audit_openings WHERE sequence = ?", {sequence}));
    if (erased == 0) {
      return Error{Code::kNotFound,
                   "entry " + std::to_string(sequence) + " has no text to erase, or none any more"};
    }
    Value detail;
    detail["erased"] = erased;
    FALAJ_TRY(
        append(tx, context, {"audit.erase", "AuditEntry/" + std::to_string(sequence), detail}));
    return {};
  }));
  return erased;
}

}  // namespace falaj::security
