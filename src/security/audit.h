// security/audit.h — the append-only record of every change, as a tree that outsiders can check.
//
// An entry is written in the same transaction as the change it describes: there is no change
// without its entry and no entry without its change, and both are durable before anybody is told.
// If the entry cannot be written the change fails with it (FJ-7050). Entries are the leaves of the
// Merkle tree of RFC 9162 (crypto/merkle.h). There is no chain of hashes beside it: a second
// structure that is checked only at its ends proves nothing, and one root over all leaves proves
// every link. Signed heads of the tree (security/audit/heads.h) make a rewritten log visible to
// whoever keeps one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/value.h"
#include "crypto/checkpoint.h"
#include "crypto/merkle.h"
#include "crypto/random.h"
#include "security/audit/entry.h"
#include "security/context.h"
#include "storage/sql.h"

namespace falaj::security {

// A text about a person (a reason, an email). The entry holds a salted commitment under its name;
// what opens it is kept apart, sealed, and can be erased without breaking the log.
struct PersonalText {
  std::string name;  // The member of `detail` that the commitment becomes.
  std::string text;
};

struct AuditEvent {
  std::string action;
  std::string object;
  Value detail;
  std::vector<PersonalText> personal = {};
};

struct AuditRecord {
  RequestContext context;
  AuditEvent event;
};

struct AuditQuery {
  std::int64_t after = 0;    // Continue behind this sequence in the chosen order; 0 starts.
  std::int64_t limit = 100;  // 1 to 10 000, otherwise FJ-1006.
  enum class Order : std::uint8_t { kOldestFirst, kNewestFirst } order = Order::kNewestFirst;
  std::string action;   // Exact, or a prefix ending in '.'; "" for all.
  std::string object;   // Exact; "" for all.
  std::string project;  // "" for all.
  std::string actor;    // Exact; "" for all.
};

struct AuditHead {
  std::int64_t sequence = 0;  // Entries.
  std::string hash;           // Root over all of them, hex.
};

// Seals what opens a commitment. Kept by `app` from the key tree; thread-safe.
class OpeningVault {
 public:
  virtual ~OpeningVault() = default;
  // `project` chooses the key; `about` is bound to the sealed bytes.
  virtual Result<std::string> seal(const std::string& project, std::string_view about,
                                   std::string_view plaintext) = 0;
  virtual Result<std::string> open(const std::string& project, std::string_view about,
                                   std::string_view sealed) = 0;
};

struct Opening {
  std::string name;
  std::string salt;  // 32 bytes.
  std::string text;
};

extern const storage::Migration kAuditMigration;

// Thread-safe.
class Audit {
 public:
  Audit(storage::SqlStore& store, const Clock& clock);
  // Without a vault (tests, offline checks) commitments are made but their openings not kept.
  void set_openings(OpeningVault* vault) { openings_ = vault; }
  // Whose signature verify() demands of every head. Both are set once, before threads start.
  void set_log_key(crypto::NoteKey key) { log_key_ = std::move(key); }

  // Appends inside the caller's transaction. The one way to write. FJ-7050 when it cannot.
  Result<AuditEntry> append(storage::SqlTransaction& tx, const RequestContext& context,
                            const AuditEvent& event);
  // A transaction of its own, for events without another change.
  Result<AuditEntry> record(const RequestContext& context, const AuditEvent& event);
  // All or none of them, with one commit and one time: for those who gather events
  // (denials). Printed on the caller's thread, so that the log's one writer only writes.
  Status record_all(const std::vector<AuditRecord>& records);

  Result<std::vector<AuditEntry>> list(const AuditQuery& query) const;
  Result<AuditEntry> get(std::int64_t sequence) const;
  // The canonical bytes of entries from `first` on, at most `limit` (1 to 10 000), for export.
  Result<std::vector<std::string>> lines(std::int64_t first, std::int64_t limit) const;

  // The tree over everything committed. Reads tiles and the few entries behind them.
  Result<AuditHead> head() const;
  Result<crypto::TreeHead> tree_head() const;
  // Takes committed entries into the tiles and returns the head. Called by the ticker of the signed
  // heads; two calls at once are fine.
  Result<crypto::TreeHead> advance();
  // Of the first `size` entries; kOutOfRange past the tiles (advance() first).
  Result<crypto::TreeHead> head_at(std::uint64_t size) const;
  // That entry `sequence` is among the first `size`.
  Result<crypto::Proof> inclusion(std::int64_t sequence, std::uint64_t size) const;
  // That the tree of `second` entries begins with the tree of `first`.
  Result<crypto::Proof> consistency(std::uint64_t first, std::uint64_t second) const;

  // Recomputes every leaf from the entries, in one snapshot, and compares with the tiles and with
  // the root of every signed head that is kept, which must bear the log key's signature if that
  // is set. FJ-7001 with the first bad sequence.
  Result<AuditHead> verify() const;

  // What opens the commitments of an entry; those erased are left out.
  Result<std::vector<Opening>> openings(std::int64_t sequence) const;
  // Forgets them: the commitments stay, and stay unopenable. How many there were; FJ-0004 when
  // there were none. The erasure is an entry itself.
  Result<std::int64_t> erase_openings(const RequestContext& context, std::int64_t sequence);

 private:
  Result<AuditEntry> commit_texts(storage::SqlTransaction& tx, const AuditEvent& event,
                                  AuditEntry entry);
  Result<EntryPlace> next_place(storage::SqlTransaction& tx);
  Status learn_last_time(storage::SqlTransaction& tx);

  storage::SqlStore& store_;
  const Clock& clock_;
  OpeningVault* openings_ = nullptr;
  std::optional<crypto::NoteKey> log_key_;
  Mutex mutex_;
  std::optional<Timestamp> last_at_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security
