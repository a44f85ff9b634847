#include "features/internal/segment_chunk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/check.h"

namespace falaj::features {
namespace {

using table::Column;
using table::Type;

Error corrupt(std::string_view why) {
  return Error(ErrorId::kSegmentCorrupt, "a chunk of the segment " + std::string(why));
}

template <class T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// The rows that a chunk is made of.
struct Rows {
  const Column& column;
  std::size_t begin;
  std::size_t end;
  std::size_t size() const { return end - begin; }
  bool is_null(std::size_t i) const { return column.is_null(begin + i); }
};

std::uint32_t append_validity(std::string& out, const Rows& rows) {
  std::uint32_t nulls = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) nulls += rows.is_null(i) ? 1 : 0;
  if (nulls == 0) return 0;
  std::string bits((rows.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows.is_null(i)) bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << i % 8);
  }
  out += bits;
  return nulls;
}

Encoding offset_encoding(std::uint64_t range) {
  if (range == 0) return Encoding::kConstant;
  if (range <= std::numeric_limits<std::uint8_t>::max()) return Encoding::kOffset8;
  if (range <= std::numeric_limits<std::uint16_t>::max()) return Encoding::kOffset16;
  if (range <= std::numeric_limits<std::uint32_t>::max()) return Encoding::kOffset32;
  return Encoding::kPlain;
}

// Values of `get(i)`; what is_null(i) stands for nothing and is written as the smallest.
template <class Get, class IsNull>
void append_ints(std::string& out, ChunkInfo& info, std::size_t count, Get get, IsNull is_null) {
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_null(i)) continue;
    const std::int64_t value = get(i);
    info.min = any ? std::min(info.min, value) : value;
    info.max = any ? std::max(info.max, value) : value;
    any = true;
  }
  const auto base = static_cast<std::uint64_t>(info.min);
  info.encoding = offset_encoding(static_cast<std::uint64_t>(info.max) - base);
  if (info.encoding == Encoding::kConstant) return;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = is_null(i) ? info.min : get(i);
    const std::uint64_t offset = static_cast<std::uint64_t>(value) - base;
    switch (info.encoding) {
      case Encoding::kOffset8:
        append_raw(out, static_cast<std::uint8_t>(offset));
        break;
      case Encoding::kOffset16:
        append_raw(out, static_cast<std::uint16_t>(offset));
        break;
      case Encoding::kOffset32:
        append_raw(out, static_cast<std::uint32_t>(offset));
        break;
      default:
        append_raw(out, value);
    }
  }
}

std::int64_t bits_of(double value) { return std::bit_cast<std::int64_t>(value); }

// Narrowing is undefined for numbers that no float is near, and loses the payload of a NaN.
bool is_float(double value) {
  if (std::isnan(value)) return false;
  if (std::isfinite(value) &&
      std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    return false;
  }
  return bits_of(static_cast<double>(static_cast<float>(value))) == bits_of(value);
}

void append_doubles(std::string& out, ChunkInfo& info, const Rows& rows) {
  const double* values = rows.column.doubles().data() + rows.begin;
  double min = 0;
  double max = 0;
  bool any = false;
  bool constant = true;
  bool floats = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    constant = constant && bits_of(values[i]) == bits_of(values[0]);
    floats = floats && is_float(values[i]);
    if (rows.is_null(i) || std::isnan(values[i])) continue;
    min = any ? std::min(min, values[i]) : values[i];
    max = any ? std::max(max, values[i]) : values[i];
    any = true;
  }
  info.min = bits_of(constant ? values[0] : min);
  info.max = bits_of(constant ? values[0] : max);
  if (constant) return;
  info.encoding = floats ? Encoding::kFloat32 : Encoding::kPlain;
  if (!floats) {
    out.append(reinterpret_cast<const char*>(values), rows.size() * sizeof(double));
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) append_raw(out, static_cast<float>(values[i]));
}

// u32 count, an end for each text (u32), the texts, a code for each row.
void append_texts(std::string& out, ChunkInfo& info, const Rows& rows) {
  const table::StringColumn& texts = rows.column.strings();
  std::unordered_map<std::string_view, std::uint32_t> codes;
  std::vector<std::uint32_t> of_rows(rows.size());
  std::string ends;
  std::string bytes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view text = texts[rows.begin + i];
    const auto [known, added] = codes.emplace(text, static_cast<std::uint32_t>(codes.size()));
    of_rows[i] = known->second;
    if (!added) continue;
    bytes += text;
    append_raw(ends, static_cast<std::uint32_t>(bytes.size()));
  }
  append_raw(out, static_cast<std::uint32_t>(codes.size()));
  out += ends;
  out += bytes;
  info.encoding = codes.size() <= 0x100     ? Encoding::kText8
                  : codes.size() <= 0x10000 ? Encoding::kText16
                                            : Encoding::kText32;
  for (const std::uint32_t code : of_rows) {
    if (info.encoding == Encoding::kText8) {
      append_raw(out, static_cast<std::uint8_t>(code));
    } else if (info.encoding == Encoding::kText16) {
      append_raw(out, static_cast<std::uint16_t>(code));
    } else {
      append_raw(out, code);
    }
  }
}

bool fits(Encoding encoding, Type type) {
  switch (encoding) {
    case Encoding::kConstant:
      return type != Type::kString;
    case Encoding::kPlain:
      return type != Type::kString;
    case Encoding::kOffset8:
    case Encoding::kOffset16:
    case Encoding::kOffset32:
      return type != Type::kString && type != Type::kFloat64;
    case Encoding::kFloat32:
      return type == Type::kFloat64;
    case Encoding::kText8:
    case Encoding::kText16:
    case Encoding::kText32:
      return type == Type::kString;
  }
  return false;
}

}  // namespace

std::size_t value_bytes(Encoding encoding) {
  switch (encoding) {
    case Encoding::kConstant:
      return 0;
    case Encoding::kOffset8:
    case Encoding::kText8:
      return 1;
    case Encoding::kOffset16:
    case Encoding::kText16:
      return 2;
    case Encoding::kOffset32:
    case Encoding::kFloat32:
    case Encoding::kText32:
      return 4;
    case Encoding::kPlain:
      return 8;
  }
  return 0;
}

ChunkInfo append_chunk(std::string& out, const Column& column, std::size_t begin, std::size_t end) {
  const Rows rows{column, begin, end};
  const std::size_t before = out.size();
  ChunkInfo info;
  info.nulls = append_validity(out, rows);
  const auto is_null = [&](std::size_t i) { return info.nulls > 0 && rows.is_null(i); };
  switch (column.type()) {
    case Type::kInt64:
    case Type::kTimestamp: {
      const std::int64_t* values = column.ints().data() + begin;
      append_ints(
          out, info, rows.size(), [=](std::size_t i) { return values[i]; }, is_null);
      break;
    }
    case Type::kBool: {
      const std::uint8_t* values = column.bools().data() + begin;
      append_ints(
          out, info, rows.size(), [=](std::size_t i) { return std::int64_t{values[i]}; }, is_null);
      break;
    }
    case Type::kFloat64:
      append_doubles(out, info, rows);
      break;
    case Type::kString:
      append_texts(out, info, rows);
      break;
  }
  FALAJ_CHECK(out.size() - before <= std::numeric_limits<std::uint32_t>::max());
  info.bytes = static_cast<std::uint32_t>(out.size() - before);
  return info;
}

ChunkInfo append_chunk(std::string& out, std::span<const std::int64_t> values) {
  const std::size_t before = out.size();
  ChunkInfo info;
  append_ints(
      out, info, values.size(), [&](std::size_t i) { return values[i]; },
      [](std::size_t) { return false; });
  info.bytes = static_cast<std::uint32_t>(out.size() - before);
  return info;
}

Result<Chunk> Chunk::open(std::string_view bytes, const ChunkInfo& info, Type type,
                          std::size_t rows) {
  if (!fits(info.encoding, type)) return corrupt("has an encoding that its type does not know");
  if (bytes.size() != info.bytes || info.nulls > rows) return corrupt("is cut short");
  Chunk out;
  out.encoding_ = info.encoding;
  out.rows_ = rows;
  out.min_ = info.min;
  if (info.nulls > 0) {
    const std::size_t bits = (rows + 7) / 8;
    if (bytes.size() < bits) return corrupt("is cut short");
    out.valid_ = bytes.data();
    bytes.remove_prefix(bits);
  }
  if (type == Type::kString) {
    FALAJ_TRY(out.open_texts(bytes));
    return out;
  }
  if (bytes.size() != rows * value_bytes(info.encoding)) return corrupt("is cut short");
  out.values_ = bytes.data();
  return out;
}

Status Chunk::open_texts(std::string_view bytes) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  if (bytes.size() < kWord) return corrupt("has no dictionary");
  texts_ = load<std::uint32_t>(bytes.data(), 0);
  bytes.remove_prefix(kWord);
  const std::size_t codes = rows_ * value_bytes(encoding_);
  if (texts_ > rows_ || bytes.size() < texts_ * kWord + codes) {
    return corrupt("has a dictionary that is cut short");
  }
  text_ends_ = bytes.data();
  text_bytes_ = bytes.data() + texts_ * kWord;
  values_ = bytes.data() + (bytes.size() - codes);
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < texts_; ++i) {
    const auto end = load<std::uint32_t>(text_ends_, i);
    if (end < before) return corrupt("has a dictionary out of order");
    before = end;
  }
  if (before != static_cast<std::size_t>(values_ - text_bytes_)) {
    return corrupt("has a dictionary of another length");
  }
  for (std::size_t row = 0; row < rows_; ++row) {
    if (code_at(row) >= texts_) return corrupt("names a text that its dictionary does not have");
  }
  return {};
}

std::uint32_t Chunk::code_at(std::size_t row) const {
  if (encoding_ == Encoding::kText8) return load<std::uint8_t>(values_, row);
  if (encoding_ == Encoding::kText16) return load<std::uint16_t>(values_, row);
  return load<std::uint32_t>(values_, row);
}

std::string_view Chunk::text(std::uint32_t code) const {
  const std::uint32_t begin = code == 0 ? 0 : load<std::uint32_t>(text_ends_, code - 1);
  return {text_bytes_ + begin, load<std::uint32_t>(text_ends_, code) - begin};
}

std::int64_t Chunk::int_at(std::size_t row) const {
  std::int64_t out = 0;
  with_ints([&](auto get) { out = get(row); });
  return out;
}

double Chunk::double_at(std::size_t row) const {
  double out = 0;
  with_doubles([&](auto get) { out = get(row); });
  return out;
}

}  // namespace falaj::features
