#include "security/audit/verify.h"

#include <map>

#include "crypto/merkle.h"
#include "security/audit/entry.h"
#include "security/audit/tiles.h"

namespace falaj::security {
namespace {

using crypto::Checkpoint;
using crypto::TreeHead;
using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kPage = 1'024;  // A multiple of a tile's width.

using Heads = std::map<std::uint64_t, Sha256>;

Result<Heads> read_heads(SqlTransaction& tx, const std::optional<crypto::NoteKey>& key) {
  const SqlRows rows = FALAJ_TRY(tx.query("SELECT size, note FROM audit_heads ORDER BY size"));
  Heads heads;
  for (const SqlRow& row : rows) {
    const auto size = static_cast<std::uint64_t>(row.integer(0));
    const std::string name = "(signed head of " + std::to_string(size) + " entries) ";
    const auto note = crypto::parse_note(row.text(1));
    if (!note.ok()) return audit_broken(row.integer(0), name + "is no signed note");
    const auto checkpoint = crypto::parse_body(note->body);
    if (!checkpoint.ok() || checkpoint->head.size != size) {
      return audit_broken(row.integer(0), name + "states another size");
    }
    if (key && !crypto::verify_note(*note, *key).ok()) {
      return audit_broken(row.integer(0), name + "does not bear the log's signature");
    }
    heads.emplace(size, checkpoint->head.root);
  }
  return heads;
}

// Walks the log once and holds what the next entry must agree with.
class Walk {
 public:
  Walk(SqlTransaction& tx, Heads heads, std::uint64_t tiled)
      : tx_(tx), heads_(std::move(heads)), tiled_(tiled) {}

  Status check(const SqlRow& row) {
    const auto expected = static_cast<std::int64_t>(frontier_.size()) + 1;
    if (row.integer(0) != expected) return audit_broken(expected, "is missing");
    const auto entry = parse_entry(row.text(1));
    if (!entry.ok() || entry->sequence != expected) return audit_broken(expected, "was altered");
    if (entry->action != row.text(2) || entry->object != row.text(3) ||
        entry->project != row.text(4) || entry->actor != row.text(5)) {
      return audit_broken(expected, "is listed under other words than its own");
    }
    if (entry->at < last_at_) return audit_broken(expected, "is earlier than the one before it");
    last_at_ = entry->at;
    const Sha256 leaf = crypto::leaf_hash(row.text(1));
    FALAJ_TRY(check_tile(expected, leaf));
    frontier_.append(leaf);
    const auto head = heads_.find(frontier_.size());
    if (head == heads_.end()) return {};
    if (head->second != frontier_.root()) {
      return audit_broken(expected, "or one before it is not what the signed head says");
    }
    heads_.erase(head);
    return {};
  }

  Result<TreeHead> finish() {
    const auto next = static_cast<std::int64_t>(frontier_.size()) + 1;
    if (tiled_ > frontier_.size()) {
      return audit_broken(next, "is missing: the tree holds " + std::to_string(tiled_));
    }
    heads_.erase(0);
    if (!heads_.empty()) {
      return audit_broken(
          next, "is missing: a signed head counts " + std::to_string(heads_.begin()->first));
    }
    const Sha256 stored = FALAJ_TRY(crypto::root_at(tile_reader(tx_), tiled_));
    const TreeHead head{frontier_.size(), frontier_.root()};
    if (tiled_ == head.size && stored != head.root) {
      return audit_broken(0, "(a tile above the leaves) was altered");
    }
    return head;
  }

 private:
  Status check_tile(std::int64_t sequence, const Sha256& leaf) {
    const std::uint64_t index = frontier_.size();
    if (index >= tiled_) return {};
    if (index % 256 == 0) tile_ = FALAJ_TRY(leaf_tile(tx_, index / 256));
    if (index % 256 >= tile_.size() || tile_[index % 256] != leaf) {
      return audit_broken(sequence, "was altered");
    }
    return {};
  }

  SqlTransaction& tx_;
  Heads heads_;
  const std::uint64_t tiled_;
  crypto::Frontier frontier_;
  std::vector<Sha256> tile_;
  Timestamp last_at_ = Timestamp::min();
};

}  // namespace

Error audit_broken(std::int64_t sequence, const std::string& what) {
  return {ErrorId::kAuditBroken,
          "audit entry " + std::to_string(sequence) + " " + what +
              "; nothing from there on can be trusted: compare with a backup"};
}

Result<TreeHead> verify_log(SqlTransaction& tx, const std::optional<crypto::NoteKey>& key) {
  Heads heads = FALAJ_TRY(read_heads(tx, key));
  const std::uint64_t tiled = FALAJ_TRY(tiled_size(tx));
  Walk walk(tx, std::move(heads), tiled);
  std::int64_t after = 0;
  while (true) {
    const SqlRows rows =
        FALAJ_TRY(tx.query("SELECT sequence, entry, action, object, project, actor FROM audit"
                           " WHERE sequence > ? ORDER BY sequence LIMIT ?",
                           {after, kPage}));
    if (rows.empty()) break;
    for (const SqlRow& row : rows) FALAJ_TRY(walk.check(row));
    after = rows.back().integer(0);
  }
  const SqlRows below = FALAJ_TRY(tx.query("SELECT count(*) FROM audit WHERE sequence < 1"));
  if (below.front().integer(0) != 0) return audit_broken(0, "does not belong to the log");
  return walk.finish();
}

}  // namespace falaj::security
