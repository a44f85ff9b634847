// security/sealed/pages.h — the pages of a database, sealed.
#pragma once

#include <memory>
#include <string>

#include "crypto/random.h"
#include "crypto/secret.h"
#include "storage/page_cipher.h"

namespace falaj::security::sealed {

// XAES-256-GCM with a fresh nonce for each write of a page, bound to `store`, the file, the offset,
// the page's number and the run of the log. `key` is the store's own (KeyTree::store_key). About
// three microseconds a page. Thread-safe if `random` is.
std::shared_ptr<const storage::PageCipher> make_page_cipher(
    const crypto::SecretBytes& key, const std::string& store,
    crypto::Random& random = crypto::system_random());

}  // namespace falaj::security::sealed
