#include "table/arrow/streams.h"

#include <span>

namespace falaj::table {

::arrow::Status ReaderStream::Close() {
  closed_ = true;
  return ::arrow::Status::OK();
}

::arrow::Status ReaderStream::Seek(std::int64_t position) {
  if (position < 0) return ::arrow::Status::Invalid("negative position");
  position_ = position;
  return ::arrow::Status::OK();
}

::arrow::Result<std::int64_t> ReaderStream::ReadAt(std::int64_t offset, std::int64_t count,
                                                   void* out) {
  if (offset < 0 || count < 0) return ::arrow::Status::Invalid("negative place or length");
  const Result<std::size_t> got =
      bytes_.read_at(offset, std::span(static_cast<char*>(out), static_cast<std::size_t>(count)));
  if (got.ok()) return static_cast<std::int64_t>(*got);
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = got.error();
  return ::arrow::Status::IOError(got.error().message);
}

::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReaderStream::ReadAt(std::int64_t offset,
                                                                       std::int64_t count) {
  if (offset < 0 || count < 0) return ::arrow::Status::Invalid("negative place or length");
  // Never more than the file has: a claimed length is not worth an allocation.
  const std::int64_t room = std::min(count, std::max<std::int64_t>(bytes_.size() - offset, 0));
  ARROW_ASSIGN_OR_RAISE(auto buffer, ::arrow::AllocateResizableBuffer(room, pool_));
  ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(offset, room, buffer->mutable_data()));
  ARROW_RETURN_NOT_OK(buffer->Resize(got, /*shrink_to_fit=*/false));
  return std::shared_ptr<::arrow::Buffer>(std::move(buffer));
}

::arrow::Result<std::int64_t> ReaderStream::Read(std::int64_t count, void* out) {
  ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position_, count, out));
  position_ += got;
  return got;
}

::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReaderStream::Read(std::int64_t count) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, count));
  position_ += buffer->size();
  return buffer;
}

std::optional<Error> ReaderStream::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

::arrow::Status WriterStream::Close() {
  closed_ = true;
  return ::arrow::Status::OK();
}

::arrow::Status WriterStream::Write(const void* data, std::int64_t count) {
  const Status written = bytes_.append(
      std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(count)));
  if (!written.ok()) {
    if (!failure_) failure_ = written.error();
    return ::arrow::Status::IOError(written.error().message);
  }
  position_ += count;
  return ::arrow::Status::OK();
}

}  // namespace falaj::table
