#include "features/key.h"

namespace falaj::features {
namespace {

// A part begins with its type, so that no number looks like a text.
constexpr char kIntPart = '\x01';
constexpr char kTextPart = '\x02';

// With the sign bit turned, negative numbers are smaller than positive ones.
std::uint64_t bits_of(std::int64_t part) { return static_cast<std::uint64_t>(part) ^ (1ULL << 63); }

}  // namespace

void append_key_part(std::string& out, std::int64_t part) {
  // Big-endian: bytes compare as the numbers do.
  const std::uint64_t bits = bits_of(part);
  out.push_back(kIntPart);
  for (int shift = 56; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(bits >> shift)));
  }
}

void append_key_part(std::string& out, std::string_view part) {
  // NUL is doubled as 00 FF and 00 00 ends the part: no text runs into the next one, and a text
  // sorts before its own continuation.
  out.push_back(kTextPart);
  for (const char c : part) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xFF');
  }
  out.append(2, '\0');
}

std::string encode_key(const std::vector<KeyPart>& parts) {
  std::string out;
  for (const KeyPart& part : parts) {
    if (const auto* number = std::get_if<std::int64_t>(&part)) {
      append_key_part(out, *number);
    } else {
      append_key_part(out, std::string_view(std::get<std::string>(part)));
    }
  }
  return out;
}

std::uint64_t key_prefix(std::string_view key) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 1; i <= 8; ++i) {
    prefix = prefix << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0u);
  }
  return prefix;
}

std::uint64_t key_prefix(std::int64_t part) { return bits_of(part); }

void append_key_of_row(std::string& out, const std::vector<const table::Column*>& columns,
                       std::size_t row) {
  const std::size_t begin = out.size();
  for (const table::Column* column : columns) {
    if (column->is_null(row)) return out.resize(begin);
    if (column->type() == table::Type::kString) {
      append_key_part(out, column->strings()[row]);
    } else {
      append_key_part(out, column->ints()[row]);
    }
  }
}

std::string key_of_row(const std::vector<const table::Column*>& columns, std::size_t row) {
  std::string out;
  append_key_of_row(out, columns, row);
  return out;
}

}  // namespace falaj::features
