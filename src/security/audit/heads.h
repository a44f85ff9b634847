// security/audit/heads.h — signed heads of the audit tree: made, kept, witnessed, and held against
// the log at start.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "security/audit.h"
#include "security/audit/signer.h"

namespace falaj::security {

struct SignedHead {
  crypto::TreeHead head;
  std::string note;  // Text: body, signature, cosignatures.
};

// Somebody under another administration who keeps what was signed. Thread-safe; may block.
class Witness {
 public:
  virtual ~Witness() = default;
  // The newest signed head of this log that the witness holds; absent if it holds none.
  // kUnavailable when it cannot be asked.
  virtual Result<std::optional<std::string>> held(const std::string& origin) = 0;
  // Hands over a head and the proof that it continues the one of `since` entries. Returns a note
  // with cosignatures if there is one already, of this head or an earlier one.
  virtual Result<std::optional<std::string>> submit(const SignedHead& head,
                                                    const crypto::NoteKey& key, std::uint64_t since,
                                                    const crypto::Proof& proof) = 0;
  // The last head that the witness cosigned: where the next proof begins. The empty tree if none.
  virtual Result<crypto::TreeHead> seen(const std::string& origin) = 0;
};

// A folder on another machine or medium. Falaj drops NAME.checkpoint (signed head) and NAME.proof
// there; whoever watches it leaves NAME.cosigned. `folder` must exist.
std::unique_ptr<Witness> make_file_witness(std::string folder);
// Of one log in that folder: its name with everything but letters and digits as '_'.
std::string drop_name(std::string_view origin);
// The watcher's side: cosigns every checkpoint in the folder that continues what `signer` has seen.
// Returns how many were cosigned; the first refusal ends it.
Result<int> cosign_drops(const std::string& folder, Signer& signer, Timestamp now);

// Thread-safe.
class Heads {
 public:
  Heads(storage::SqlStore& store, Audit& audit, Signer& signer, const Clock& clock,
        Witness* witness = nullptr);

  // Before anything is appended: the log must still begin with the last head that was signed, and
  // with the one that the witness holds. FJ-7051 naming both sizes: the store is an old copy or
  // was rewritten. An unreachable witness is only a warning in `warning`.
  Status check_start(std::string* warning);

  // Takes committed entries into the tree and, if it grew, has the head signed, keeps it and hands
  // it to the witness. Returns the newest signed head. An unreachable witness does not fail it: it
  // is logged once, and the next tick tries again.
  Result<SignedHead> tick();
  // The newest that is kept; kNotFound before the first.
  Result<SignedHead> latest() const;
  // Ascending by size, from `after` on, at most `limit` (1 to 1 000).
  Result<std::vector<SignedHead>> list(std::uint64_t after, std::int64_t limit) const;

  Signer& signer() { return signer_; }
  Audit& audit() { return audit_; }
  // Why the witness could not be reached the last time; "" when it could or there is none.
  std::string witness_trouble() const;

 private:
  Status check_continues(const crypto::TreeHead& known, const std::string& who) const;
  Status keep(const crypto::TreeHead& head, const std::string& note);
  Status hand_over(const SignedHead& head, const SignerInfo& info);
  void tell_witness(const SignedHead& head, const SignerInfo& info) FALAJ_REQUIRES(ticking_);
  Status merge_cosigned(const std::string& note, const SignerInfo& info);

  storage::SqlStore& store_;
  Audit& audit_;
  Signer& signer_;
  const Clock& clock_;
  Witness* const witness_;
  Mutex ticking_;
  std::uint64_t told_ FALAJ_GUARDED_BY(ticking_) = 0;  // Size that the witness took last.
  mutable Mutex mutex_;
  std::string witness_trouble_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security
