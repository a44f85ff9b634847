// base/byte_stream.h — bytes that are read by place and written in order, wherever they lie: a
// file, a sealed blob, memory. The seam between those who keep bytes and those who parse them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace falaj {

// Immutable while it is open. Thread-safe: several threads may read at once.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  virtual std::int64_t size() const = 0;
  // Fills `out` from `offset`; fewer bytes only at the end, 0 behind it. A negative offset is
  // kInvalidArgument.
  virtual Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const = 0;
};

// One thread at a time.
class ByteWriter {
 public:
  virtual ~ByteWriter() = default;
  virtual Status append(std::string_view bytes) = 0;
};

// Bytes in memory, owned.
class TextReader final : public ByteReader {
 public:
  explicit TextReader(std::string bytes) : bytes_(std::move(bytes)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    if (offset < 0) return Error(Code::kInvalidArgument, "an offset is never negative");
    if (offset >= size()) return std::size_t{0};
    const std::string_view rest = std::string_view(bytes_).substr(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(rest.size(), out.size());
    if (count > 0) std::memcpy(out.data(), rest.data(), count);
    return count;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class TextWriter final : public ByteWriter {
 public:
  Status append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Bytes that come in order and are then read by place: the body of a large request on its way in.
// Dropped: nothing remains.
class Spool : public ByteWriter {
 public:
  // No append() after it. The bytes live as long as what it returns. Call once.
  virtual Result<std::shared_ptr<const ByteReader>> finish() = 0;
};
using MakeSpool = std::function<Result<std::unique_ptr<Spool>>()>;
Result<std::unique_ptr<Spool>> make_memory_spool();

// All of it, in memory. kResourceExhausted above `bytes_max`.
Result<std::string> read_whole(const ByteReader& reader,
                               std::int64_t bytes_max = std::int64_t{4} << 30);

// A file that somebody named: kNotFound, kPermissionDenied, kInvalidArgument for what is no regular
// file. The message begins with the path.
Result<std::unique_ptr<ByteReader>> open_local_file(const std::string& path);
// An open file. Its size is taken once, now.
Result<std::unique_ptr<ByteReader>> open_descriptor(Descriptor file);

}  // namespace falaj
