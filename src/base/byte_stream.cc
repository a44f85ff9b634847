#include "base/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace falaj {
namespace {

Error file_error(const std::string& path, int number) {
  const Code code = number == ENOENT   ? Code::kNotFound
                    : number == EACCES ? Code::kPermissionDenied
                                       : Code::kInternal;
  return Error(code, path + ": " + std::strerror(number));
}

class FileReader final : public ByteReader {
 public:
  FileReader(Descriptor file, std::int64_t size, std::string path)
      : file_(std::move(file)), size_(size), path_(std::move(path)) {}

  std::int64_t size() const override { return size_; }

  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    if (offset < 0) return Error(Code::kInvalidArgument, "an offset is never negative");
    std::size_t got = 0;
    while (got < out.size()) {
      const ssize_t n = ::pread(file_.get(), out.data() + got, out.size() - got,
                                offset + static_cast<std::int64_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return file_error(path_, errno);
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

 private:
  const Descriptor file_;
  const std::int64_t size_;
  const std::string path_;
};

Result<std::unique_ptr<ByteReader>> take_over(Descriptor file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Error(Code::kInvalidArgument, path + ": not a regular file; name one file");
  }
  return std::unique_ptr<ByteReader>(
      std::make_unique<FileReader>(std::move(file), std::int64_t{info.st_size}, path));
}

class MemorySpool final : public Spool {
 public:
  Status append(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  Result<std::shared_ptr<const ByteReader>> finish() override {
    return std::shared_ptr<const ByteReader>(std::make_shared<TextReader>(std::move(bytes_)));
  }

 private:
  std::string bytes_;
};

}  // namespace

Result<std::unique_ptr<Spool>> make_memory_spool() {
  return std::unique_ptr<Spool>(std::make_unique<MemorySpool>());
}

Result<std::string> read_whole(const ByteReader& reader, std::int64_t bytes_max) {
  if (reader.size() > bytes_max) {
    return Error(Code::kResourceExhausted, std::to_string(reader.size()) +
                                               " bytes are more than the " +
                                               std::to_string(bytes_max) + " that fit here");
  }
  std::string out(static_cast<std::size_t>(reader.size()), '\0');
  const std::size_t got = FALAJ_TRY(reader.read_at(0, out));
  out.resize(got);
  return out;
}

Result<std::unique_ptr<ByteReader>> open_local_file(const std::string& path) {
  // Non-blocking: a named pipe must be refused, not waited for.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return file_error(path, errno);
  return take_over(std::move(file), path);
}

Result<std::unique_ptr<ByteReader>> open_descriptor(Descriptor file) {
  return take_over(std::move(file), "the open file");
}

}  // namespace falaj
