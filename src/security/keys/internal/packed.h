// security/keys/internal/packed.h — numbers and length-prefixed texts in wiped memory: the sealed
// file's content, which must not pass through a parser that copies it about.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "crypto/secret.h"

namespace falaj::security::keys {

class PackedWriter {
 public:
  void number(std::uint64_t number);
  void text(std::string_view text);
  crypto::SecretBytes take() { return std::move(bytes_); }

 private:
  void append(const void* bytes, std::size_t size);
  crypto::SecretBytes bytes_;
};

// FJ-7043 when the bytes end early.
class PackedReader {
 public:
  explicit PackedReader(std::string_view bytes) : rest_(bytes) {}
  Result<std::uint64_t> number();
  Result<std::string_view> text();  // Points into the bytes.

 private:
  std::string_view rest_;
};

}  // namespace falaj::security::keys
