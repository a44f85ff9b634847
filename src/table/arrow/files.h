// table/arrow/files.h — the seam to Arrow and Parquet: plain types in, plain types out.
//
// The library parses foreign bytes, so every call here checks declared sizes against the file
// before it allocates, caps the memory the library may take, and turns its exceptions into errors.
#pragma once

#include <memory>
#include <string>

#include "table/table_writer.h"

namespace falaj::table {

// Bytes and how messages call them.
struct NamedReader {
  const ByteReader& bytes;
  std::string name;  // "the file", or a path that somebody gave.
};
struct NamedWriter {
  ByteWriter& bytes;
  std::string name;
};

// One group of rows after the other; finish() after the last, or there is no file.
class GroupWriter {
 public:
  virtual ~GroupWriter() = default;
  virtual Status add(const Batch& group) = 0;
  virtual Status finish() = 0;
};

Status read_parquet(const NamedReader& file, const ReadOptions& options, const OnBatch& on_batch);
Result<Schema> read_parquet_schema(const NamedReader& file);
Status write_parquet(const NamedWriter& file, const Batch& batch, const WriteOptions& options);
Result<std::unique_ptr<GroupWriter>> open_parquet_writer(const NamedWriter& file,
                                                         const Schema& schema,
                                                         const WriteOptions& options);

// Both the file and the stream form are read; the file form is written.
Status read_arrow_ipc(const NamedReader& file, const ReadOptions& options, const OnBatch& on_batch);
Result<Schema> read_arrow_ipc_schema(const NamedReader& file);
Status write_arrow_ipc(const NamedWriter& file, const Batch& batch, const WriteOptions& options);
Result<std::unique_ptr<GroupWriter>> open_arrow_ipc_writer(const NamedWriter& file,
                                                           const Schema& schema);

}  // namespace falaj::table
