// table/table_writer.h — a table that is written while its rows come, in the memory of one group.
#pragma once

#include <cstddef>
#include <memory>

#include "table/io.h"

namespace falaj::table {

class GroupWriter;  // How a format writes one group of rows after the other.

// Holds one group of rows (options.row_group_rows) at most, beside the batch that is added. The
// same rows give the same bytes, however they were cut into batches. One thread.
class TableWriter {
 public:
  // `file` outlives it.
  static Result<TableWriter> open(ByteWriter& file, Format format, const Schema& schema,
                                  const WriteOptions& options = {});
  ~TableWriter();
  TableWriter(TableWriter&&) noexcept;
  TableWriter& operator=(TableWriter&&) noexcept;

  // kInvalidArgument unless it has the schema of open().
  Status add(Batch batch);
  // Call once, after the last row: without it the file is none.
  Status finish();

 private:
  TableWriter(std::unique_ptr<GroupWriter> groups, const Schema& schema, std::size_t group_rows);

  std::unique_ptr<GroupWriter> groups_;
  Batch pending_;
  std::size_t group_rows_;
};

}  // namespace falaj::table
