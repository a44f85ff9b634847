// security/audit/verify.h — the whole log against itself: entries, tiles and signed heads.
#pragma once

#include <optional>
#include <string>

#include "crypto/checkpoint.h"
#include "storage/sql.h"

namespace falaj::security {

// FJ-7001 naming the first entry that cannot be trusted.
Error audit_broken(std::int64_t sequence, const std::string& what);

// Recomputes the tree from the entries' bytes. Every entry must be canonical, in sequence, not
// earlier than the one before, and hash to its place in the tiles; every signed head's root must be
// the root of the entries it counts, and bear `key`'s signature if one is given. Cost: about two
// microseconds an entry; one snapshot.
Result<crypto::TreeHead> verify_log(storage::SqlTransaction& tx,
                                    const std::optional<crypto::NoteKey>& key);

}  // namespace falaj::security
