// table/arrow/files.h — the seam to Arrow and Parquet: plain types in, plain types out.
//
// The library parses foreign bytes, so every call here checks declared sizes against the file
// before it allocates, caps the memory the library may take, and turns its exceptions into errors.
#pragma once

#include <string>

#include "table/io.h"

namespace falaj::table {

Status read_parquet(const std::string& path, const ReadOptions& options, const OnBatch& on_batch);
Result<Schema> read_parquet_schema(const std::string& path);
Status write_parquet(const std::string& path, const Batch& batch, const WriteOptions& options);

// Both the file and the stream form are read; the file form is written.
Status read_arrow_ipc(const std::string& path, const ReadOptions& options, const OnBatch& on_batch);
Result<Schema> read_arrow_ipc_schema(const std::string& path);
Status write_arrow_ipc(const std::string& path, const Batch& batch, const WriteOptions& options);

}  // namespace falaj::table
