#include "features/internal/quarantine.h"

#include <array>
#include <charconv>
#include <utility>

namespace falaj::features {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;
constexpr std::size_t kRawMax = 4096;

void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
}

std::string cell_text(const table::Column& column, std::size_t row) {
  if (column.is_null(row)) return {};
  std::array<char, 32> digits{};
  switch (column.type()) {
    case table::Type::kInt64:
      return std::to_string(column.ints()[row]);
    case table::Type::kFloat64: {
      const auto end =
          std::to_chars(digits.data(), digits.data() + digits.size(), column.doubles()[row]);
      return {digits.data(), end.ptr};
    }
    case table::Type::kBool:
      return column.bools()[row] != 0 ? "true" : "false";
    case table::Type::kTimestamp:
      return to_rfc3339(Timestamp{column.ints()[row]});
    case table::Type::kString:
      break;
  }
  return std::string(column.strings()[row].substr(0, kRawMax));
}

}  // namespace

void Quarantine::add(const table::BadRow& row) {
  if (rows_++ == 0) buffer_ = "line,reason,raw\n";
  if (examples_.size() < kExamples) examples_.push_back({row.line, row.reason});
  buffer_ += std::to_string(row.line);
  buffer_.push_back(',');
  append_quoted(buffer_, row.reason);
  buffer_.push_back(',');
  append_quoted(buffer_, row.raw);
  buffer_.push_back('\n');
  if (buffer_.size() >= kBufferBytes) flush();
}

void Quarantine::flush() {
  if (!status_.ok()) return;
  if (writer_ == nullptr) {
    Result<std::unique_ptr<storage::BlobWriter>> created = blobs_.create(owner_);
    if (!created.ok()) {
      status_ = created.error();
      return;
    }
    writer_ = std::move(created).value();
  }
  status_ = writer_->append(buffer_);
  buffer_.clear();
}

Result<BlobId> Quarantine::finish() {
  if (rows_ == 0) return BlobId();
  flush();
  if (!status_.ok()) return status_.error().within("quarantine");
  const storage::StoredBlob stored = FALAJ_TRY(writer_->commit());
  return stored.id;
}

std::string row_text(const table::Batch& batch, std::size_t row) {
  std::string out;
  for (std::size_t i = 0; i < batch.columns.size() && out.size() < kRawMax; ++i) {
    if (i > 0) out.push_back(',');
    out += cell_text(batch.columns[i], row);
  }
  if (out.size() > kRawMax) out.resize(kRawMax);
  return out;
}

}  // namespace falaj::features
