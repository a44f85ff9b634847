// storage/paired_writer.h — a blob writer that hashes for somebody else while it hashes for itself.
#pragma once

#include <string_view>

#include "base/two_hashes.h"
#include "storage/blob.h"

namespace falaj::storage {

// Of stores that name a blob by the hash of what lies on disk: whoever turns content into other
// bytes on its way there, and needs the content's hash too, gets both for the cost of one.
class PairedBlobWriter : public BlobWriter {
 public:
  // append(bytes), and hasher.update(data) beside it. After an error the hasher is of no use.
  virtual Status append_beside(std::string_view bytes, PairedHasher::Fed beside) = 0;
};

}  // namespace falaj::storage
