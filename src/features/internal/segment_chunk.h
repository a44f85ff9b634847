// features/internal/segment_chunk.h — one column of one block of a segment, as bytes.
//
// Every encoding is read by place: a join that needs one row in ten pays for one in ten. The bytes
// are those of docs/reference/segment-format.md.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "table/batch.h"

namespace falaj::features {

// The numbers are part of the format.
enum class Encoding : std::uint8_t {
  kConstant = 0,  // Nothing stored: every value is `min`.
  kOffset8 = 1,   // What to add to `min`, in 1, 2 or 4 bytes.
  kOffset16 = 2,
  kOffset32 = 3,
  kPlain = 4,    // 8 bytes each.
  kFloat32 = 5,  // Doubles that are exactly floats.
  kText8 = 6,    // A dictionary, and codes of 1, 2 or 4 bytes.
  kText16 = 7,
  kText32 = 8,
};

// Bytes of a value; of a code for texts.
std::size_t value_bytes(Encoding encoding);

// What the segment's footer says of a chunk. Doubles stand as their bits; texts have no bounds.
struct ChunkInfo {
  Encoding encoding = Encoding::kConstant;
  std::uint32_t nulls = 0;
  std::uint32_t bytes = 0;
  std::int64_t min =
      0;  // Of the values that are not null (doubles: nor NaN); 0 when there is none.
  std::int64_t max = 0;
};

// Rows [begin, end) of a column; the shortest encoding that loses nothing. Deterministic.
ChunkInfo append_chunk(std::string& out, const table::Column& column, std::size_t begin,
                       std::size_t end);
ChunkInfo append_chunk(std::string& out, std::span<const std::int64_t> values);

// A chunk that can be read; a view of bytes that live elsewhere. Every place in it is inside them.
class Chunk {
 public:
  Chunk() = default;  // No rows.
  // FJ-3004 when the bytes are not `rows` values of that type.
  static Result<Chunk> open(std::string_view bytes, const ChunkInfo& info, table::Type type,
                            std::size_t rows);

  std::size_t size() const { return rows_; }
  Encoding encoding() const { return encoding_; }
  bool has_nulls() const { return valid_ != nullptr; }
  bool is_null(std::size_t row) const {
    return valid_ != nullptr && (static_cast<unsigned char>(valid_[row / 8]) >> row % 8 & 1) == 0;
  }
  // Texts only: which entry of the dictionary, and what it says.
  std::uint32_t code_at(std::size_t row) const;
  std::string_view text(std::uint32_t code) const;
  std::string_view text_at(std::size_t row) const { return text(code_at(row)); }
  // Numbers only; a null gives any value.
  std::int64_t int_at(std::size_t row) const;
  double double_at(std::size_t row) const;

  // Calls use(get) once, get(row) being int_at or double_at without its choice of encoding: for
  // loops over many rows.
  template <class Use>
  void with_ints(Use use) const {
    const auto base = static_cast<std::uint64_t>(min_);
    const char* at = values_;
    switch (encoding_) {
      case Encoding::kOffset8:
        return use([=](std::size_t row) { return sum(base, load<std::uint8_t>(at, row)); });
      case Encoding::kOffset16:
        return use([=](std::size_t row) { return sum(base, load<std::uint16_t>(at, row)); });
      case Encoding::kOffset32:
        return use([=](std::size_t row) { return sum(base, load<std::uint32_t>(at, row)); });
      case Encoding::kPlain:
        return use([=](std::size_t row) { return load<std::int64_t>(at, row); });
      default:
        return use([=](std::size_t) { return sum(base, 0); });
    }
  }
  template <class Use>
  void with_doubles(Use use) const {
    const char* at = values_;
    const double constant = std::bit_cast<double>(min_);
    switch (encoding_) {
      case Encoding::kPlain:
        return use([=](std::size_t row) { return load<double>(at, row); });
      case Encoding::kFloat32:
        return use([=](std::size_t row) { return static_cast<double>(load<float>(at, row)); });
      default:
        return use([=](std::size_t) { return constant; });
    }
  }

 private:
  template <class T>
  static T load(const char* values, std::size_t row) {
    T out;
    std::memcpy(&out, values + row * sizeof(T), sizeof(T));
    return out;
  }
  static std::int64_t sum(std::uint64_t base, std::uint64_t offset) {
    return static_cast<std::int64_t>(base + offset);
  }
  Status open_texts(std::string_view bytes);

  Encoding encoding_ = Encoding::kConstant;
  std::size_t rows_ = 0;
  std::int64_t min_ = 0;
  const char* valid_ = nullptr;  // A bit for each row, or none is null.
  const char* values_ = nullptr;
  std::uint32_t texts_ = 0;
  const char* text_ends_ = nullptr;
  const char* text_bytes_ = nullptr;
};

static_assert(std::endian::native == std::endian::little, "segments are little-endian");

}  // namespace falaj::features
