#include "table/io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "table/arrow/files.h"
#include "table/internal/csv.h"

namespace falaj::table {
namespace {

Error file_error(const std::string& path, int number) {
  const Code code = number == ENOENT   ? Code::kNotFound
                    : number == EACCES ? Code::kPermissionDenied
                                       : Code::kInternal;
  return Error(code, path + ": " + std::strerror(number));
}

// An open file that closes itself.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

ByteSource bytes_of(const std::string& path, const File& file) {
  return [&path, &file](char* to, std::size_t room) -> Result<std::size_t> {
    while (true) {
      const ssize_t got = ::read(file.fd(), to, room);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return file_error(path, errno);
    }
  };
}

// A folder, pipe or device is not a table.
Status check_regular(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return file_error(path, errno);
  if (S_ISREG(info.st_mode)) return {};
  return Error(Code::kInvalidArgument, path + ": not a regular file; name one file");
}

Status write_bytes(const std::string& path, std::string_view bytes) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) return file_error(path, errno);
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file.fd(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return file_error(path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace

Result<Format> parse_format(std::string_view name) {
  if (name == "parquet") return Format::kParquet;
  if (name == "csv") return Format::kCsv;
  if (name == "arrow") return Format::kArrowIpc;
  return Error(Code::kInvalidArgument,
               "unknown table format \"" + std::string(name) + "\": use parquet, csv or arrow");
}

Result<Format> format_of_path(std::string_view path) {
  if (path.ends_with(".parquet") || path.ends_with(".pq")) return Format::kParquet;
  if (path.ends_with(".csv")) return Format::kCsv;
  if (path.ends_with(".arrow") || path.ends_with(".feather") || path.ends_with(".ipc")) {
    return Format::kArrowIpc;
  }
  return Error(Code::kInvalidArgument, "cannot tell the format of \"" + std::string(path) +
                                           "\": end it in .parquet, .csv or .arrow");
}

std::optional<Format> sniff_format(std::string_view head) {
  if (head.starts_with("PAR1")) return Format::kParquet;
  if (head.starts_with("ARROW1")) return Format::kArrowIpc;
  return std::nullopt;
}

Status read_file(const std::string& path, Format format, const ReadOptions& options,
                 const OnBatch& on_batch) {
  FALAJ_TRY(check_regular(path));
  if (format == Format::kParquet) return read_parquet(path, options, on_batch);
  if (format == Format::kArrowIpc) return read_arrow_ipc(path, options, on_batch);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return file_error(path, errno);
  const Status status = read_csv(bytes_of(path, file), options, on_batch);
  return status.ok() ? status : Status(status.error().within(path));
}

Result<Batch> read_all(const std::string& path, Format format, const ReadOptions& options) {
  Batch all;
  FALAJ_TRY(read_file(path, format, options,
                      [&](Batch batch, const std::vector<std::uint64_t>&) -> Status {
                        all.append(std::move(batch));
                        return {};
                      }));
  if (all.columns.empty()) {
    // No row came; the columns are still the file's.
    all = Batch(options.schema.fields.empty() ? FALAJ_TRY(read_schema(path, format))
                                              : options.schema);
  }
  return all;
}

Result<Schema> read_schema(const std::string& path, Format format) {
  FALAJ_TRY(check_regular(path));
  if (format == Format::kParquet) return read_parquet_schema(path);
  if (format == Format::kArrowIpc) return read_arrow_ipc_schema(path);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return file_error(path, errno);
  Result<Schema> schema = infer_csv_schema(bytes_of(path, file));
  return schema.ok() ? schema : Result<Schema>(schema.error().within(path));
}

Status write_file(const std::string& path, Format format, const Batch& batch,
                  const WriteOptions& options) {
  if (format == Format::kParquet) return write_parquet(path, batch, options);
  if (format == Format::kArrowIpc) return write_arrow_ipc(path, batch, options);
  std::string text;
  append_csv(text, batch);
  return write_bytes(path, text);
}

}  // namespace falaj::table
