// table/arrow/streams.h — our byte streams as the library wants them.
//
// The library turns every failure into a text. What a store said (damaged, sealed for somebody
// else) must reach the caller as it was, so the first failure is kept here and wins.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>

#include <memory>
#include <optional>

#include "base/byte_stream.h"
#include "base/mutex.h"
#include "table/arrow/files.h"

namespace falaj::table {

// Does not own `bytes`. Thread-safe where the library asks for it (ReadAt).
class ReaderStream final : public ::arrow::io::RandomAccessFile {
 public:
  ReaderStream(const ByteReader& bytes, ::arrow::MemoryPool* pool) : bytes_(bytes), pool_(pool) {}

  ::arrow::Status Close() override;
  bool closed() const override { return closed_; }
  ::arrow::Result<std::int64_t> Tell() const override { return position_; }
  ::arrow::Status Seek(std::int64_t position) override;
  ::arrow::Result<std::int64_t> GetSize() override { return bytes_.size(); }
  ::arrow::Result<std::int64_t> Read(std::int64_t count, void* out) override;
  ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Read(std::int64_t count) override;
  ::arrow::Result<std::int64_t> ReadAt(std::int64_t offset, std::int64_t count, void* out) override;
  ::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReadAt(std::int64_t offset,
                                                           std::int64_t count) override;
  // What the store said, if it said no.
  std::optional<Error> failure() const;

 private:
  const ByteReader& bytes_;
  ::arrow::MemoryPool* const pool_;
  std::int64_t position_ = 0;
  bool closed_ = false;
  mutable Mutex mutex_;
  std::optional<Error> failure_ FALAJ_GUARDED_BY(mutex_);
};

// Does not own `bytes`. One thread.
class WriterStream final : public ::arrow::io::OutputStream {
 public:
  explicit WriterStream(ByteWriter& bytes) : bytes_(bytes) {}

  ::arrow::Status Close() override;
  bool closed() const override { return closed_; }
  ::arrow::Result<std::int64_t> Tell() const override { return position_; }
  ::arrow::Status Write(const void* data, std::int64_t count) override;
  using ::arrow::io::OutputStream::Write;
  const std::optional<Error>& failure() const { return failure_; }

 private:
  ByteWriter& bytes_;
  std::int64_t position_ = 0;
  bool closed_ = false;
  std::optional<Error> failure_;
};

}  // namespace falaj::table
