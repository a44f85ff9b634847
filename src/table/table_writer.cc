#include "table/table_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "table/arrow/files.h"
#include "table/internal/csv.h"

namespace falaj::table {
namespace {

class CsvGroups final : public GroupWriter {
 public:
  explicit CsvGroups(ByteWriter& file) : file_(file) {}
  Status add(const Batch& group) override {
    std::string text;
    append_csv_rows(text, group);
    return file_.append(text);
  }
  Status finish() override { return {}; }

 private:
  ByteWriter& file_;
};

Result<std::unique_ptr<GroupWriter>> open_groups(const NamedWriter& file, Format format,
                                                 const Schema& schema,
                                                 const WriteOptions& options) {
  if (format == Format::kParquet) return open_parquet_writer(file, schema, options);
  if (format == Format::kArrowIpc) return open_arrow_ipc_writer(file, schema);
  std::string header;
  append_csv_header(header, schema);
  FALAJ_TRY(file.bytes.append(header));
  return std::unique_ptr<GroupWriter>(std::make_unique<CsvGroups>(file.bytes));
}

// Rows [from, to) of a batch.
Batch rows_between(const Batch& batch, std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> rows(to - from);
  std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(from));
  return batch.take(rows);
}

}  // namespace

TableWriter::TableWriter(std::unique_ptr<GroupWriter> groups, const Schema& schema,
                         std::size_t group_rows)
    : groups_(std::move(groups)), pending_(schema), group_rows_(group_rows) {}
TableWriter::~TableWriter() = default;
TableWriter::TableWriter(TableWriter&&) noexcept = default;
TableWriter& TableWriter::operator=(TableWriter&&) noexcept = default;

Result<TableWriter> TableWriter::open(ByteWriter& file, Format format, const Schema& schema,
                                      const WriteOptions& options) {
  std::unique_ptr<GroupWriter> groups =
      FALAJ_TRY(open_groups({file, "the file"}, format, schema, options));
  return TableWriter(std::move(groups), schema, std::max<std::size_t>(options.row_group_rows, 1));
}

Status TableWriter::add(Batch batch) {
  if (batch.schema != pending_.schema) {
    return Error(Code::kInvalidArgument, "a batch with other columns than the table's");
  }
  pending_.append(std::move(batch));
  const std::size_t rows = pending_.rows();
  if (rows < group_rows_) return {};
  std::size_t from = 0;
  for (; rows - from >= group_rows_; from += group_rows_) {
    FALAJ_TRY(groups_->add(rows_between(pending_, from, from + group_rows_)));
  }
  pending_ = rows_between(pending_, from, rows);
  return {};
}

Status TableWriter::finish() {
  if (pending_.rows() > 0) FALAJ_TRY(groups_->add(pending_));
  return groups_->finish();
}

}  // namespace falaj::table
