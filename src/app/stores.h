// app/stores.h — the stores of a data folder as the program keeps them: everything sealed.
//
// The one seam where sealing is put on. There is no setting for it: tests/plain links a program of
// its own without it, for the comparison of speeds and as the canary scan's negative control.
#pragma once

#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "security/keys/key_tree.h"
#include "storage/open.h"

namespace falaj::app {

// `keys` outlives what these return. Errors as storage/open.h; FJ-8004 for a folder of a version
// that did not seal.
Result<std::unique_ptr<storage::SqlStore>> open_metadata(const std::string& folder,
                                                         security::keys::KeyTree& keys);
// Around whichever engine holds the rows.
std::unique_ptr<storage::KvStore> seal_online(std::unique_ptr<storage::KvStore> rows,
                                              security::keys::KeyTree& keys);
Result<std::unique_ptr<storage::BlobStore>> open_blobs(const std::string& folder,
                                                       security::keys::KeyTree& keys);

// For the bodies of large requests.
Result<std::unique_ptr<Spool>> open_spool(const std::string& folder);
// In a training process: what the blob store granted.
Result<std::unique_ptr<ByteReader>> open_grant(Descriptor file, const std::string& ticket);

}  // namespace falaj::app
