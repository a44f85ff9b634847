#include "table/io.h"

#include <fcntl.h>
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

ByteSource bytes_of(const ByteReader& reader) {
  return [&reader, offset = std::int64_t{0}](char* to,
                                             std::size_t room) mutable -> Result<std::size_t> {
    const std::size_t got = FALAJ_TRY(reader.read_at(offset, std::span(to, room)));
    offset += static_cast<std::int64_t>(got);
    return got;
  };
}

// A plain file, written as it comes.
class FileWriter final : public ByteWriter {
 public:
  FileWriter(const File& file, const std::string& path) : file_(file), path_(path) {}
  Status append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(file_.fd(), bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return file_error(path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return {};
  }

 private:
  const File& file_;
  const std::string& path_;
};

constexpr const char* kUnnamed = "the file";

Status read(const NamedReader& file, Format format, const ReadOptions& options,
            const OnBatch& on_batch) {
  if (format == Format::kParquet) return read_parquet(file, options, on_batch);
  if (format == Format::kArrowIpc) return read_arrow_ipc(file, options, on_batch);
  const Status status = read_csv(bytes_of(file.bytes), options, on_batch);
  return status.ok() ? status : Status(status.error().within(file.name));
}

Result<Schema> schema_of(const NamedReader& file, Format format) {
  if (format == Format::kParquet) return read_parquet_schema(file);
  if (format == Format::kArrowIpc) return read_arrow_ipc_schema(file);
  Result<Schema> schema = infer_csv_schema(bytes_of(file.bytes));
  return schema.ok() ? schema : Result<Schema>(schema.error().within(file.name));
}

Result<Batch> whole(const NamedReader& file, Format format, const ReadOptions& options) {
  Batch all;
  FALAJ_TRY(
      read(file, format, options, [&](Batch batch, const std::vector<std::uint64_t>&) -> Status {
        all.append(std::move(batch));
        return {};
      }));
  if (all.columns.empty()) {
    // No row came; the columns are still the file's.
    all =
        Batch(options.schema.fields.empty() ? FALAJ_TRY(schema_of(file, format)) : options.schema);
  }
  return all;
}

Status write(const NamedWriter& file, Format format, const Batch& batch,
             const WriteOptions& options) {
  if (format == Format::kParquet) return write_parquet(file, batch, options);
  if (format == Format::kArrowIpc) return write_arrow_ipc(file, batch, options);
  std::string text;
  append_csv(text, batch);
  return file.bytes.append(text);
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

Status read_table(const ByteReader& file, Format format, const ReadOptions& options,
                  const OnBatch& on_batch) {
  return read({file, kUnnamed}, format, options, on_batch);
}

Result<Batch> read_all(const ByteReader& file, Format format, const ReadOptions& options) {
  return whole({file, kUnnamed}, format, options);
}

Result<Schema> read_schema(const ByteReader& file, Format format) {
  return schema_of({file, kUnnamed}, format);
}

Status write_table(ByteWriter& file, Format format, const Batch& batch,
                   const WriteOptions& options) {
  return write({file, kUnnamed}, format, batch, options);
}

Status read_file(const std::string& path, Format format, const ReadOptions& options,
                 const OnBatch& on_batch) {
  const std::unique_ptr<ByteReader> file = FALAJ_TRY(open_local_file(path));
  return read({*file, path}, format, options, on_batch);
}

Result<Batch> read_all(const std::string& path, Format format, const ReadOptions& options) {
  const std::unique_ptr<ByteReader> file = FALAJ_TRY(open_local_file(path));
  return whole({*file, path}, format, options);
}

Result<Schema> read_schema(const std::string& path, Format format) {
  const std::unique_ptr<ByteReader> file = FALAJ_TRY(open_local_file(path));
  return schema_of({*file, path}, format);
}

Status write_file(const std::string& path, Format format, const Batch& batch,
                  const WriteOptions& options) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd() < 0) return file_error(path, errno);
  FileWriter writer(file, path);
  return write({writer, path}, format, batch, options);
}

}  // namespace falaj::table
