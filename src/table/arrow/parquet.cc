#include <arrow/util/secure_string.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/encryption/encryption.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <array>
#include <cstring>
#include <exception>
#include <numeric>

#include "table/arrow/convert.h"
#include "table/arrow/files.h"
#include "table/arrow/streams.h"
#include "table/encrypted_parquet.h"

namespace falaj::table {
namespace {

constexpr std::int64_t kFooterTail = 8;  // Length of the metadata, then "PAR1".
constexpr std::int64_t kFooterMax = 64LL << 20;

Error malformed(const std::string& path, std::string_view what) {
  return Error(ErrorId::kMalformedTable,
               path + ": not a readable Parquet file: " + std::string(what));
}

// Everything that must outlive the reader, in one place.
struct OpenParquet {
  explicit OpenParquet(const ByteReader& bytes)
      : pool(::arrow::default_memory_pool(), memory_limit(bytes.size())),
        stream(std::make_shared<ReaderStream>(bytes, &pool)) {}
  ::arrow::CappedMemoryPool pool;
  std::shared_ptr<ReaderStream> stream;
  std::unique_ptr<::parquet::arrow::FileReader> reader;
  std::shared_ptr<::arrow::Schema> schema;
};

using Decryption = std::shared_ptr<::parquet::FileDecryptionProperties>;

// The metadata's length, checked against the file before the library sees it. `end`: "PAR1", or
// "PARE" of an encrypted footer.
Result<std::int64_t> footer_length(const std::string& path, ::arrow::io::RandomAccessFile& file,
                                   std::int64_t file_bytes, const std::string& end) {
  std::array<std::uint8_t, kFooterTail> tail{};
  if (file_bytes < kFooterTail + 4) return malformed(path, "too short");
  const auto got = file.ReadAt(file_bytes - kFooterTail, kFooterTail, tail.data());
  if (!got.ok()) return from_arrow(path, got.status());
  if (std::memcmp(tail.data() + 4, end.data(), 4) != 0) {
    return malformed(path, "it does not end in " + end + "; it may be cut off");
  }
  std::uint32_t length = 0;
  std::memcpy(&length, tail.data(), 4);
  if (length == 0 || length > kFooterMax || length > file_bytes - kFooterTail - 4) {
    return malformed(path, "its metadata claims " + std::to_string(length) + " bytes");
  }
  return std::int64_t{length};
}

Result<std::int64_t> size_of(const std::string& path, ReaderStream& stream) {
  const auto size = stream.GetSize();
  if (!size.ok()) return from_arrow(path, size.status());
  return *size;
}

// A column chunk lies inside the file, and the row groups sum up to the file's rows.
Status check_metadata(const std::string& path, const ::parquet::FileMetaData& metadata,
                      std::int64_t file_bytes) {
  FALAJ_TRY(check_row_count(path, metadata.num_rows(), file_bytes));
  std::int64_t rows = 0;
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    const auto group = metadata.RowGroup(g);
    if (group->num_rows() < 0 || group->num_rows() > metadata.num_rows() - rows) {
      return malformed(path, "row group " + std::to_string(g) + " has an impossible row count");
    }
    rows += group->num_rows();
    for (int c = 0; c < group->num_columns(); ++c) {
      const auto chunk = group->ColumnChunk(c);
      const std::int64_t start = chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0
                                     ? chunk->dictionary_page_offset()
                                     : chunk->data_page_offset();
      const std::int64_t size = chunk->total_compressed_size();
      if (start < 0 || size < 0 || start > file_bytes || size > file_bytes - start) {
        return malformed(path, "row group " + std::to_string(g) + ", column " + std::to_string(c) +
                                   " lies outside the file");
      }
    }
  }
  if (rows != metadata.num_rows()) return malformed(path, "row counts disagree");
  return {};
}

Status open_parquet(const std::string& path, std::size_t batch_rows, OpenParquet& open,
                    const Decryption& decryption = nullptr) {
  const std::int64_t size = FALAJ_TRY(size_of(path, *open.stream));
  const std::int64_t footer =
      FALAJ_TRY(footer_length(path, *open.stream, size, decryption == nullptr ? "PAR1" : "PARE"));
  ::parquet::ReaderProperties properties(&open.pool);
  if (decryption != nullptr) properties.file_decryption_properties(decryption);
  // Nothing in the metadata can be larger or more numerous than the metadata has bytes.
  properties.set_thrift_string_size_limit(static_cast<std::int32_t>(footer));
  properties.set_thrift_container_size_limit(
      static_cast<std::int32_t>(std::min<std::int64_t>(footer, 100'000)));
  ::parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_batch_size(static_cast<std::int64_t>(batch_rows));
  arrow_properties.set_pre_buffer(false);

  ::parquet::arrow::FileReaderBuilder builder;
  if (const auto status = builder.Open(open.stream, properties); !status.ok()) {
    return from_arrow(path, status);
  }
  FALAJ_TRY(check_metadata(path, *builder.raw_reader()->metadata(), size));
  builder.memory_pool(&open.pool)->properties(arrow_properties);
  auto built = builder.Build();
  if (!built.ok()) return from_arrow(path, built.status());
  open.reader = std::move(*built);
  if (const auto status = open.reader->GetSchema(&open.schema); !status.ok()) {
    return from_arrow(path, status);
  }
  return {};
}

// The library reads a column by the number of its leaf, which differs from the field's when an
// earlier field is nested.
Result<std::vector<int>> leaves(const std::string& path, const ::parquet::arrow::FileReader& reader,
                                const Selection& selection) {
  std::vector<int> out;
  for (const int field : selection.fields) {
    const auto& place = reader.manifest().schema_fields[static_cast<std::size_t>(field)];
    if (!place.is_leaf()) return malformed(path, "a wanted column is nested");
    out.push_back(place.column_index);
  }
  return out;
}

Status read_groups(const std::string& path, OpenParquet& open, const ReadOptions& options,
                   const OnBatch& on_batch) {
  const Selection selection = FALAJ_TRY(select_columns(path, *open.schema, options.schema));
  const std::vector<int> columns = FALAJ_TRY(leaves(path, *open.reader, selection));
  std::uint64_t row = 1;
  for (int group = 0; group < open.reader->num_row_groups(); ++group) {
    auto batches = open.reader->GetRecordBatchReader({group}, columns);
    if (!batches.ok()) return from_arrow(path, batches.status());
    while (true) {
      std::shared_ptr<::arrow::RecordBatch> record;
      if (const auto status = (*batches)->ReadNext(&record); !status.ok()) {
        return from_arrow(path + " (row group " + std::to_string(group) + ")", status);
      }
      if (record == nullptr) break;
      if (const auto status = record->Validate(); !status.ok()) return from_arrow(path, status);
      // The library answers in the file's order; put the columns into ours.
      std::vector<int> order;
      for (const Field& field : selection.schema.fields) {
        order.push_back(record->schema()->GetFieldIndex(field.name));
      }
      const auto ordered = record->SelectColumns(order);
      if (!ordered.ok()) return from_arrow(path, ordered.status());
      FALAJ_TRY(deliver(path, **ordered, selection, row, options, on_batch));
      row += static_cast<std::uint64_t>(record->num_rows());
    }
  }
  return {};
}

using Encryption = std::shared_ptr<::parquet::FileEncryptionProperties>;

std::shared_ptr<::parquet::WriterProperties> writer_properties(const Schema& schema,
                                                               const Encryption& encryption) {
  ::parquet::WriterProperties::Builder builder;
  if (encryption != nullptr) builder.encryption(encryption);
  builder.version(::parquet::ParquetVersion::PARQUET_2_6)
      ->created_by("falaj")
      ->compression(::arrow::Compression::ZSTD)
      ->compression_level(-1)  // Measured on features: a quarter less time for 3 % more bytes.
      ->disable_statistics();  // Nobody here reads them; segments are pruned by their records.
  for (const Field& field : schema.fields) {
    // A dictionary pays off for texts. Differences are smaller and quicker for integers, above all
    // for sorted ones; measured values rarely repeat.
    if (field.type != Type::kString) builder.disable_dictionary(field.name);
    if (field.type == Type::kTimestamp || field.type == Type::kInt64) {
      builder.encoding(field.name, ::parquet::Encoding::DELTA_BINARY_PACKED);
    }
  }
  return builder.build();
}

using Writer = std::unique_ptr<::parquet::arrow::FileWriter>;

::arrow::Result<Writer> open_writer(const std::shared_ptr<WriterStream>& sink,
                                    const ::arrow::Schema& fields, const WriteOptions& options,
                                    std::shared_ptr<::parquet::WriterProperties> properties) {
  ARROW_ASSIGN_OR_RAISE(Writer writer,
                        ::parquet::arrow::FileWriter::Open(fields, ::arrow::default_memory_pool(),
                                                           sink, std::move(properties)));
  if (options.metadata.empty()) return writer;
  // Of the schema's own metadata the library keeps nothing unless it keeps the whole schema.
  const auto metadata = std::make_shared<::arrow::KeyValueMetadata>();
  for (const auto& [key, value] : options.metadata) metadata->Append(key, value);
  ARROW_RETURN_NOT_OK(writer->AddKeyValueMetadata(metadata));
  return writer;
}

::arrow::Status write_to(const std::shared_ptr<WriterStream>& sink, const Batch& batch,
                         const WriteOptions& options, const Encryption& encryption) {
  const auto table = to_arrow(batch);
  ARROW_ASSIGN_OR_RAISE(
      const Writer writer,
      open_writer(sink, *table->schema(), options, writer_properties(batch.schema, encryption)));
  ARROW_RETURN_NOT_OK(writer->WriteTable(
      *table, static_cast<std::int64_t>(std::max<std::size_t>(options.row_group_rows, 1))));
  ARROW_RETURN_NOT_OK(writer->Close());
  return sink->Close();
}

}  // namespace

namespace {

Status read_guarded(const NamedReader& file, const ReadOptions& options, const OnBatch& on_batch,
                    const Decryption& decryption) {
  OpenParquet open(file.bytes);
  Status status;
  try {
    status = open_parquet(file.name, options.batch_rows, open, decryption);
    if (status.ok()) status = read_groups(file.name, open, options, on_batch);
  } catch (const std::exception& problem) {
    status = malformed(file.name, problem.what());
  }
  // What the store said comes before what the library made of it.
  if (const auto failure = open.stream->failure(); failure && !status.ok()) return *failure;
  return status;
}

}  // namespace

Status read_parquet(const NamedReader& file, const ReadOptions& options, const OnBatch& on_batch) {
  return read_guarded(file, options, on_batch, nullptr);
}

Result<Schema> read_parquet_schema(const NamedReader& file) {
  OpenParquet open(file.bytes);
  Status status;
  try {
    status = open_parquet(file.name, 1, open);
    if (status.ok()) return FALAJ_TRY(select_columns(file.name, *open.schema, {})).schema;
  } catch (const std::exception& problem) {
    status = malformed(file.name, problem.what());
  }
  if (const auto failure = open.stream->failure()) return *failure;
  return status.error();
}

namespace {

Status write_guarded(const NamedWriter& file, const Batch& batch, const WriteOptions& options,
                     const Encryption& encryption) {
  const auto sink = std::make_shared<WriterStream>(file.bytes);
  std::string problem;
  try {
    const auto status = write_to(sink, batch, options, encryption);
    if (status.ok()) return {};
    problem = status.message();
  } catch (const std::exception& thrown) {
    problem = thrown.what();
  }
  if (sink->failure()) return *sink->failure();
  return Error(Code::kInternal, "cannot write " + file.name + ": " + problem);
}

// The sink keeps what the store said; the library's exceptions end here.
class ParquetGroups final : public GroupWriter {
 public:
  explicit ParquetGroups(const NamedWriter& file)
      : sink_(std::make_shared<WriterStream>(file.bytes)), name_(file.name) {}

  Status begin(const Schema& schema, const WriteOptions& options) {
    return guarded([&]() -> ::arrow::Status {
      ARROW_ASSIGN_OR_RAISE(writer_, open_writer(sink_, *to_arrow(Batch(schema))->schema(), options,
                                                 writer_properties(schema, nullptr)));
      return ::arrow::Status::OK();
    });
  }
  Status add(const Batch& group) override {
    return guarded([&] {
      return writer_->WriteTable(*to_arrow(group), static_cast<std::int64_t>(group.rows()));
    });
  }
  Status finish() override {
    return guarded([&]() -> ::arrow::Status {
      ARROW_RETURN_NOT_OK(writer_->Close());
      return sink_->Close();
    });
  }

 private:
  template <class Work>
  Status guarded(const Work& work) {
    std::string problem;
    try {
      const ::arrow::Status status = work();
      if (status.ok()) return {};
      problem = status.message();
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
    if (sink_->failure()) return *sink_->failure();
    return Error(Code::kInternal, "cannot write " + name_ + ": " + problem);
  }

  std::shared_ptr<WriterStream> sink_;
  std::string name_;
  Writer writer_;
};

Status check_key(const ParquetKey& key) {
  if (key.key.size() == 16 || key.key.size() == 24 || key.key.size() == 32) return {};
  return Error(Code::kInvalidArgument,
               "a key of " + std::to_string(key.key.size()) + " bytes: Parquet takes 16, 24 or 32");
}

}  // namespace

Result<std::unique_ptr<GroupWriter>> open_parquet_writer(const NamedWriter& file,
                                                         const Schema& schema,
                                                         const WriteOptions& options) {
  auto groups = std::make_unique<ParquetGroups>(file);
  FALAJ_TRY(groups->begin(schema, options));
  return std::unique_ptr<GroupWriter>(std::move(groups));
}

Status write_parquet(const NamedWriter& file, const Batch& batch, const WriteOptions& options) {
  return write_guarded(file, batch, options, nullptr);
}

Status write_encrypted_parquet(ByteWriter& file, const Batch& batch, const ParquetKey& key) {
  FALAJ_TRY(check_key(key));
  Encryption encryption;
  try {
    ::parquet::FileEncryptionProperties::Builder builder{
        ::arrow::util::SecureString(std::string(key.key))};
    builder.algorithm(::parquet::ParquetCipher::AES_GCM_V1)->aad_prefix(key.aad_prefix);
    encryption = builder.disable_aad_prefix_storage()->build();
  } catch (const std::exception& problem) {
    return Error(Code::kInternal, std::string("Parquet encryption: ") + problem.what());
  }
  return write_guarded({file, "the export"}, batch, {}, encryption);
}

Status read_encrypted_parquet(const ByteReader& file, const ParquetKey& key,
                              const ReadOptions& options, const OnBatch& on_batch) {
  FALAJ_TRY(check_key(key));
  Decryption decryption;
  try {
    ::parquet::FileDecryptionProperties::Builder builder;
    builder.footer_key(::arrow::util::SecureString(std::string(key.key)));
    decryption = builder.aad_prefix(key.aad_prefix)->build();
  } catch (const std::exception& problem) {
    return Error(Code::kInternal, std::string("Parquet decryption: ") + problem.what());
  }
  return read_guarded({file, "the export"}, options, on_batch, decryption);
}

}  // namespace falaj::table
