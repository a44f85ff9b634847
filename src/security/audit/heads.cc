#include "security/audit/heads.h"

#include <algorithm>

#include "base/log.h"
#include "security/audit/wire.h"

namespace falaj::security {
namespace {

using crypto::NoteKey;
using crypto::TreeHead;
using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::int64_t kListMax = 1'000;
// Past this many, only heads at every 4 096th entry are kept besides the newest: any later head
// proves the earlier ones.
constexpr std::int64_t kKept = 128;
constexpr std::int64_t kKeptEvery = 4'096;

Result<SignedHead> head_of(const SqlRow& row) {
  const crypto::Note note = FALAJ_TRY(crypto::parse_note(row.text(1)));
  const crypto::Checkpoint checkpoint = FALAJ_TRY(crypto::parse_body(note.body));
  return SignedHead{checkpoint.head, row.text(1)};
}

// Notes of one body: every signature of either, once.
std::string join_notes(crypto::Note mine, const crypto::Note& other) {
  for (const crypto::NoteSignature& signature : other.signatures) {
    const bool known = std::any_of(
        mine.signatures.begin(), mine.signatures.end(), [&](const crypto::NoteSignature& each) {
          return each.name == signature.name && each.blob == signature.blob;
        });
    if (!known && mine.signatures.size() < 16) mine.signatures.push_back(signature);
  }
  return crypto::to_text(mine);
}

}  // namespace

Heads::Heads(storage::SqlStore& store, Audit& audit, Signer& signer, const Clock& clock,
             Witness* witness)
    : store_(store), audit_(audit), signer_(signer), clock_(clock), witness_(witness) {}

Status Heads::check_continues(const TreeHead& known, const std::string& who) const {
  if (known.size == 0) return {};
  const TreeHead now = FALAJ_TRY(audit_.tree_head());
  if (now.size < known.size) {
    return Error(ErrorId::kRolledBack, "the audit log has " + std::to_string(now.size) +
                                           " entries, but " + who + " has a signed head of " +
                                           std::to_string(known.size) +
                                           ": this data folder is an old copy, or its end was cut "
                                           "off. Restore the newest one");
  }
  const TreeHead then = FALAJ_TRY(audit_.head_at(known.size));
  if (then.root == known.root) return {};
  return Error(ErrorId::kRolledBack, "the first " + std::to_string(known.size) +
                                         " entries of the audit log are not those that " + who +
                                         " has a signed head of: the log was rewritten, or this is "
                                         "another log. Restore the data folder it belongs to");
}

Status Heads::check_start(std::string* warning) {
  const SignerInfo info = FALAJ_TRY(signer_.info());
  FALAJ_TRY(audit_.advance());
  FALAJ_TRY(check_continues(info.last, "the signer"));
  if (witness_ == nullptr) return {};
  const auto held = witness_->held(info.origin);
  if (!held.ok()) {
    *warning = "the witness cannot be asked: " + held.error().message;
    return {};
  }
  const auto seen = witness_->seen(info.origin);
  if (!seen.ok()) {
    *warning = "the witness cannot be asked: " + seen.error().message;
    return {};
  }
  FALAJ_TRY(check_continues(*seen, "the witness"));
  if (!held->has_value()) return {};
  const crypto::Note note = FALAJ_TRY(crypto::parse_note(**held));
  FALAJ_TRY(crypto::verify_note(note, info.log_key));
  const crypto::Checkpoint checkpoint = FALAJ_TRY(crypto::parse_body(note.body));
  return check_continues(checkpoint.head, "the witness");
}

Status Heads::keep(const TreeHead& head, const std::string& note) {
  return store_.write([&](SqlTransaction& tx) -> Status {
    const auto size = static_cast<std::int64_t>(head.size);
    FALAJ_TRY(
        tx.execute("INSERT INTO audit_heads (size, note) VALUES (?, ?)"
                   " ON CONFLICT (size) DO UPDATE SET note = excluded.note",
                   {size, note}));
    FALAJ_TRY(tx.execute(
        "DELETE FROM audit_heads WHERE size < (SELECT min(size) FROM (SELECT size FROM audit_heads"
        " ORDER BY size DESC LIMIT ?1)) AND size / ?2 = (SELECT next.size / ?2 FROM audit_heads"
        " AS next WHERE next.size > audit_heads.size ORDER BY next.size LIMIT 1)",
        {kKept, kKeptEvery}));
    return {};
  });
}

Result<SignedHead> Heads::latest() const {
  const SqlRows rows = FALAJ_TRY(
      storage::query(store_, "SELECT size, note FROM audit_heads ORDER BY size DESC LIMIT 1"));
  if (rows.empty()) {
    return Error(Code::kNotFound, "no head of the audit log was signed yet; it is within a second");
  }
  return head_of(rows.front());
}

Result<std::vector<SignedHead>> Heads::list(std::uint64_t after, std::int64_t limit) const {
  if (limit < 1 || limit > kListMax) {
    return Error(ErrorId::kOutOfRange, "signed heads: limit " + std::to_string(limit) +
                                           " must be 1 to " + std::to_string(kListMax));
  }
  const SqlRows rows = FALAJ_TRY(storage::query(
      store_, "SELECT size, note FROM audit_heads WHERE size > ? ORDER BY size LIMIT ?",
      {static_cast<std::int64_t>(after), limit}));
  std::vector<SignedHead> heads;
  for (const SqlRow& row : rows) heads.push_back(FALAJ_TRY(head_of(row)));
  return heads;
}

Result<SignedHead> Heads::tick() {
  const MutexLock lock(ticking_);
  const TreeHead head = FALAJ_TRY(audit_.advance());
  const auto newest = latest();
  const bool grew = !newest.ok() || !(newest->head == head);
  if (!grew && (witness_ == nullptr || told_ == head.size)) return newest;
  const SignerInfo info = FALAJ_TRY(signer_.info());
  if (!grew) {
    tell_witness(*newest, info);
    return latest();
  }
  crypto::Proof proof;
  if (info.last.size > 0 && info.last.size <= head.size) {
    proof = FALAJ_TRY(audit_.consistency(info.last.size, head.size));
  }
  std::string note = FALAJ_TRY(signer_.sign_head(head, proof, clock_.now()));
  SignedHead made{head, std::move(note)};
  FALAJ_TRY(keep(head, made.note));
  if (witness_ == nullptr) return made;
  tell_witness(made, info);
  return latest();
}

void Heads::tell_witness(const SignedHead& head, const SignerInfo& info) {
  const Status handed = hand_over(head, info);
  if (handed.ok()) told_ = head.head.size;
  const std::string trouble = handed.ok() ? "" : handed.error().message;
  const MutexLock lock(mutex_);
  if (trouble.empty() != witness_trouble_.empty()) {
    log::warn("audit witness", {{"state", trouble.empty() ? "cosigns again" : trouble}});
  }
  witness_trouble_ = trouble;
}

Status Heads::hand_over(const SignedHead& head, const SignerInfo& info) {
  const std::uint64_t since = FALAJ_TRY(witness_->seen(info.origin)).size;
  const crypto::Proof proof = FALAJ_TRY(audit_.consistency(since, head.head.size));
  const auto cosigned = FALAJ_TRY(witness_->submit(head, info.log_key, since, proof));
  if (!cosigned) return {};
  return merge_cosigned(*cosigned, info);
}

// The witness's answer is outside input: it counts only for a head that this log signed and keeps.
Status Heads::merge_cosigned(const std::string& text, const SignerInfo& info) {
  const crypto::Note note = FALAJ_TRY(crypto::parse_note(text));
  const crypto::Checkpoint checkpoint = FALAJ_TRY(crypto::parse_body(note.body));
  FALAJ_TRY(crypto::verify_note(note, info.log_key));
  const SqlRows rows =
      FALAJ_TRY(storage::query(store_, "SELECT size, note FROM audit_heads WHERE size = ?",
                               {static_cast<std::int64_t>(checkpoint.head.size)}));
  if (rows.empty()) return {};
  const crypto::Note mine = FALAJ_TRY(crypto::parse_note(rows.front().text(1)));
  if (mine.body != note.body) {
    return Error(ErrorId::kWitnessRefused, "the witness cosigned another head of " +
                                               std::to_string(checkpoint.head.size) + " entries");
  }
  return keep(checkpoint.head, join_notes(mine, note));
}

std::string Heads::witness_trouble() const {
  const MutexLock lock(mutex_);
  return witness_trouble_;
}

}  // namespace falaj::security
