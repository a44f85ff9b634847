// storage/blob.h — immutable bytes, named by their SHA-256.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace falaj::storage {

// Bytes on their way into the store. Dropped without commit(): nothing remains.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual Status append(std::string_view bytes) = 0;
  // Durable when it returns. The same content twice is kept once.
  virtual Result<BlobId> commit() = 0;
};

// Thread-safe.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual Result<std::unique_ptr<BlobWriter>> create() = 0;
  virtual Result<BlobId> put(std::string_view bytes) = 0;
  // Takes over a finished file in the store's staging folder (see staging_path), hashing it.
  virtual Result<BlobId> adopt(const std::string& path) = 0;
  // A fresh path on the same file system for a library that writes files by itself.
  virtual Result<std::string> staging_path() = 0;
  // The whole content, checked against its hash: FJ-8006 if it does not match, kNotFound if absent.
  virtual Result<std::string> get(const BlobId& id) const = 0;
  // A path for a library that reads files by itself. The content was checked since the file last
  // changed (FJ-8006 if it does not match): a whole read the first time, one stat after that.
  virtual Result<std::string> path(const BlobId& id) const = 0;
  virtual Result<std::int64_t> size(const BlobId& id) const = 0;
  virtual Status remove(const BlobId& id) = 0;
  virtual Result<std::vector<BlobId>> list() const = 0;
};

}  // namespace falaj::storage
