// table/encrypted_parquet.h — Parquet that leaves the server: Parquet's own modular encryption.
//
// AES_GCM_V1 with an encrypted footer and one key for footer and columns, so that any tool that
// knows the standard (pyarrow, Spark) opens it with the key and nobody without. `aad_prefix` says
// which data set and version it is; it is not stored in the file, so that one file cannot be passed
// off as another.
#pragma once

#include <string>

#include "table/io.h"

namespace falaj::table {

struct ParquetKey {
  std::string key;         // 16, 24 or 32 bytes.
  std::string aad_prefix;  // Needed again to read.
};

// kInvalidArgument for a key of another length. Not deterministic: nonces are random.
Status write_encrypted_parquet(ByteWriter& file, const Batch& batch, const ParquetKey& key);
// As read_table. FJ-3001 with another key or prefix than it was written with, and for a file that
// is not encrypted.
Status read_encrypted_parquet(const ByteReader& file, const ParquetKey& key,
                              const ReadOptions& options, const OnBatch& on_batch);

}  // namespace falaj::table
