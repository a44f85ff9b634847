// security/sealed/blobs.h — a blob store whose content nobody reads without the owner's key.
#pragma once

#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "security/keys/key_tree.h"
#include "storage/blob.h"

namespace falaj::security::sealed {

// On disk: "FJB1" ‖ header of the data key (24 bytes) ‖ sealed stream (crypto/stream.h). The data
// key is one for each blob, under the owner's object key; the stream is bound to the owner. So a
// blob that was moved to another owner, cut, lengthened or changed does not open (FJ-7043), and
// after the object was shredded none does (FJ-7041).
//
// `inner` keeps what lies on disk; ids are its ids. Thread-safe.
std::unique_ptr<storage::BlobStore> seal_blobs(std::unique_ptr<storage::BlobStore> inner,
                                               keys::KeyTree& keys);

// What a grant of that store gives to another process. An empty ticket: the bytes lie in clear.
Result<std::unique_ptr<ByteReader>> open_granted(Descriptor file, const std::string& ticket);

// A spool whose bytes are sealed under a key that exists in this process only.
Result<std::unique_ptr<Spool>> seal_spool(std::unique_ptr<Spool> inner);

}  // namespace falaj::security::sealed
