// storage/blob.h — immutable bytes that belong to somebody.
//
// A blob is named by the SHA-256 of what lies on disk, so that anybody can check it without a key.
// Who owns it stands in every call: an owner's blobs are invisible to all others, equal content is
// never shared between owners, and a sealing store takes its keys from the owner. There is no path
// to a blob: content never lies in a file by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "base/ids.h"
#include "base/result.h"
#include "storage/owner.h"

namespace falaj::storage {

struct StoredBlob {
  BlobId id;                   // Of what lies on disk.
  std::string content_sha256;  // Of what was written: equal content, equal text. Hexadecimal.
  std::int64_t bytes = 0;      // Of the content.
};

// Bytes on their way into the store. Dropped without commit(): nothing remains.
class BlobWriter : public ByteWriter {
 public:
  // Durable when it returns. Call once.
  virtual Result<StoredBlob> commit() = 0;
};

// What another process of this program needs to read one blob and nothing else: an open file of
// what lies on disk, and a ticket that opens it. The ticket is secret; it goes through a socket or
// a sealed memory file, never into a file, an argument or the environment.
struct BlobGrant {
  Descriptor file;     // Close-on-exec.
  std::string ticket;  // "" when the bytes on disk are the content.
};

// Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) = 0;
  virtual Result<StoredBlob> put(const Owner& owner, std::string_view bytes);
  // FJ-8006 when what lies on disk does not match its name, kNotFound if this owner has no such
  // blob. Cost: a whole read when the file was not looked at since it changed, one stat otherwise.
  virtual Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const = 0;
  // The whole content. Errors as open.
  virtual Result<std::string> get(const Owner& owner, const BlobId& id) const;
  // Bytes of the content.
  virtual Result<std::int64_t> size(const Owner& owner, const BlobId& id) const;
  // Errors as open.
  virtual Result<BlobGrant> grant(const Owner& owner, const BlobId& id) const = 0;
  virtual Status remove(const Owner& owner, const BlobId& id) = 0;
  // Ascending.
  virtual Result<std::vector<BlobId>> list(const Owner& owner) const = 0;
};

}  // namespace falaj::storage
