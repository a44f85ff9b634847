// security/sealed/kv.h — a key-value store in which neither keys nor values can be read.
#pragma once

#include <memory>

#include "security/keys/key_tree.h"
#include "storage/kv.h"

namespace falaj::security::sealed {

// A key (a customer's number, say) becomes a token: HMAC-SHA-256 under a key of the owner, 16
// bytes. A value is sealed together with its key (XAES-256-GCM) and bound to owner and token, so
// that one that was moved or changed does not open (FJ-7043). Both keys are the owner's object's:
// once that is shredded, nothing opens and no token can be made again (FJ-7041 or FJ-7043). Reading
// an owner that has nothing makes its keys.
//
// Thread-safe. About three microseconds a row beside `inner`.
std::unique_ptr<storage::KvStore> seal_kv(std::unique_ptr<storage::KvStore> inner,
                                          keys::KeyTree& keys);

// The key that a row with RowKey::kItsOwn is sealed under, for KeyTree::shred. A row whose key was
// destroyed is not there any more, wherever its bytes may lie.
Result<keys::KeyScope> row_scope(keys::KeyTree& keys, const storage::Owner& owner,
                                 std::string_view key);

}  // namespace falaj::security::sealed
