#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <array>
#include <cstring>
#include <exception>

#include "table/arrow/convert.h"
#include "table/arrow/files.h"
#include "table/arrow/streams.h"

namespace falaj::table {
namespace {

using ::arrow::ipc::IpcReadOptions;

// One cap for all reads of this format together. It is never destroyed: the library reads on
// threads of its own, which may give a buffer back after the call that asked for it has returned.
::arrow::MemoryPool* ipc_pool() {
  constexpr std::int64_t kBytesMax = 4LL << 30;
  static auto* const pool =
      new ::arrow::CappedMemoryPool(::arrow::default_memory_pool(), kBytesMax);
  return pool;
}

// One of the two forms; `next` gives a null record at the end.
struct OpenIpc {
  explicit OpenIpc(const ByteReader& bytes)
      : file_bytes(bytes.size()), file(std::make_shared<ReaderStream>(bytes, ipc_pool())) {}
  std::int64_t file_bytes;
  std::shared_ptr<ReaderStream> file;
  std::shared_ptr<::arrow::ipc::RecordBatchFileReader> file_form;
  std::shared_ptr<::arrow::RecordBatchReader> stream_form;
  int next_index = 0;

  std::shared_ptr<::arrow::Schema> schema() const {
    return file_form ? file_form->schema() : stream_form->schema();
  }
  ::arrow::Result<std::shared_ptr<::arrow::RecordBatch>> next() {
    if (!file_form) {
      std::shared_ptr<::arrow::RecordBatch> record;
      ARROW_RETURN_NOT_OK(stream_form->ReadNext(&record));
      return record;
    }
    if (next_index == file_form->num_record_batches()) {
      return std::shared_ptr<::arrow::RecordBatch>();
    }
    return file_form->ReadRecordBatch(next_index++);
  }
};

::arrow::Status open_reader(OpenIpc& open) {
  IpcReadOptions options = IpcReadOptions::Defaults();
  options.memory_pool = ipc_pool();
  options.max_recursion_depth = 8;
  options.use_threads = false;
  std::array<char, 6> magic{};
  ARROW_ASSIGN_OR_RAISE(const auto got, open.file->ReadAt(0, 6, magic.data()));
  if (got == 6 && std::memcmp(magic.data(), "ARROW1", 6) == 0) {
    ARROW_ASSIGN_OR_RAISE(open.file_form,
                          ::arrow::ipc::RecordBatchFileReader::Open(open.file, options));
    return ::arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(open.stream_form,
                        ::arrow::ipc::RecordBatchStreamReader::Open(open.file, options));
  return ::arrow::Status::OK();
}

// Offsets and dictionary indices. Texts that are not UTF-8 are bad rows of ours, not a broken file,
// so they are looked at as bytes here.
::arrow::Status check_inside(const ::arrow::Array& column) {
  const auto id = column.type_id();
  if (id != ::arrow::Type::STRING && id != ::arrow::Type::LARGE_STRING) {
    return column.ValidateFull();
  }
  ARROW_ASSIGN_OR_RAISE(
      const auto bytes,
      column.View(id == ::arrow::Type::STRING ? ::arrow::binary() : ::arrow::large_binary()));
  return bytes->ValidateFull();
}

Status read_records(const std::string& path, OpenIpc& open, const ReadOptions& options,
                    const OnBatch& on_batch) {
  const Selection selection = FALAJ_TRY(select_columns(path, *open.schema(), options.schema));
  std::uint64_t row = 1;
  while (true) {
    const auto record = open.next();
    if (!record.ok()) return from_arrow(path, record.status());
    if (*record == nullptr) return {};
    const std::int64_t rows = (*record)->num_rows();
    FALAJ_TRY(check_row_count(path, rows, open.file_bytes));
    // This format carries offsets and indices that the library trusts unless asked to look.
    const auto wanted = (*record)->SelectColumns(selection.fields);
    if (!wanted.ok()) return from_arrow(path, wanted.status());
    if (const auto status = (*wanted)->Validate(); !status.ok()) return from_arrow(path, status);
    for (const auto& column : (*wanted)->columns()) {
      if (const auto status = check_inside(*column); !status.ok()) return from_arrow(path, status);
    }
    FALAJ_TRY(deliver(path, **wanted, selection, row, options, on_batch));
    row += static_cast<std::uint64_t>(rows);
  }
}

::arrow::Status write_records(const std::shared_ptr<WriterStream>& sink, const Batch& batch,
                              const WriteOptions& options) {
  const auto table = to_arrow(batch);
  ARROW_ASSIGN_OR_RAISE(auto writer, ::arrow::ipc::MakeFileWriter(sink, table->schema()));
  const std::size_t group = std::max<std::size_t>(options.row_group_rows, 1);
  ARROW_RETURN_NOT_OK(writer->WriteTable(*table, static_cast<std::int64_t>(group)));
  ARROW_RETURN_NOT_OK(writer->Close());
  return sink->Close();
}

}  // namespace

Status read_arrow_ipc(const NamedReader& file, const ReadOptions& options,
                      const OnBatch& on_batch) {
  OpenIpc open(file.bytes);
  Status status;
  try {
    const auto opened = open_reader(open);
    status = opened.ok() ? read_records(file.name, open, options, on_batch)
                         : Status(from_arrow(file.name, opened));
  } catch (const std::exception& problem) {
    status = Error(ErrorId::kMalformedTable, file.name + ": " + problem.what());
  }
  // What the store said comes before what the library made of it.
  if (const auto failure = open.file->failure(); failure && !status.ok()) return *failure;
  return status;
}

Result<Schema> read_arrow_ipc_schema(const NamedReader& file) {
  OpenIpc open(file.bytes);
  Error error(ErrorId::kMalformedTable, "");
  try {
    const auto opened = open_reader(open);
    if (opened.ok()) return FALAJ_TRY(select_columns(file.name, *open.schema(), {})).schema;
    error = from_arrow(file.name, opened);
  } catch (const std::exception& problem) {
    error = Error(ErrorId::kMalformedTable, file.name + ": " + problem.what());
  }
  if (const auto failure = open.file->failure()) return *failure;
  return error;
}

namespace {

class IpcGroups final : public GroupWriter {
 public:
  explicit IpcGroups(const NamedWriter& file)
      : sink_(std::make_shared<WriterStream>(file.bytes)), name_(file.name) {}

  Status begin(const Schema& schema) {
    return told([&]() -> ::arrow::Status {
      ARROW_ASSIGN_OR_RAISE(writer_,
                            ::arrow::ipc::MakeFileWriter(sink_, to_arrow(Batch(schema))->schema()));
      return ::arrow::Status::OK();
    }());
  }
  Status add(const Batch& group) override { return told(writer_->WriteTable(*to_arrow(group))); }
  Status finish() override {
    FALAJ_TRY(told(writer_->Close()));
    return told(sink_->Close());
  }

 private:
  Status told(const ::arrow::Status& status) const {
    if (status.ok()) return {};
    if (sink_->failure()) return *sink_->failure();
    return Error(Code::kInternal, "cannot write " + name_ + ": " + status.message());
  }

  std::shared_ptr<WriterStream> sink_;
  std::string name_;
  std::shared_ptr<::arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace

Result<std::unique_ptr<GroupWriter>> open_arrow_ipc_writer(const NamedWriter& file,
                                                           const Schema& schema) {
  auto groups = std::make_unique<IpcGroups>(file);
  FALAJ_TRY(groups->begin(schema));
  return std::unique_ptr<GroupWriter>(std::move(groups));
}

Status write_arrow_ipc(const NamedWriter& file, const Batch& batch, const WriteOptions& options) {
  const auto sink = std::make_shared<WriterStream>(file.bytes);
  std::string problem;
  try {
    const auto status = write_records(sink, batch, options);
    if (status.ok()) return {};
    problem = status.message();
  } catch (const std::exception& thrown) {
    problem = thrown.what();
  }
  if (sink->failure()) return *sink->failure();
  return Error(Code::kInternal, "cannot write " + file.name + ": " + problem);
}

}  // namespace falaj::table
