#include "security/keys/internal/packed.h"

#include <cstring>

#include "crypto/aead.h"

namespace falaj::security::keys {

void PackedWriter::append(const void* bytes, std::size_t size) {
  crypto::SecretBytes longer(bytes_.size() + size);
  if (!bytes_.empty()) std::memcpy(longer.data(), bytes_.data(), bytes_.size());
  if (size > 0) std::memcpy(longer.data() + bytes_.size(), bytes, size);
  bytes_ = std::move(longer);  // Wipes the old ones.
}

void PackedWriter::number(std::uint64_t number) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(number >> (56 - 8 * i));
  append(bytes, sizeof bytes);
}

void PackedWriter::text(std::string_view text) {
  number(text.size());
  append(text.data(), text.size());
}

Result<std::uint64_t> PackedReader::number() {
  if (rest_.size() < 8) return crypto::decrypt_failed();
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) {
    number = number << 8 | static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]);
  }
  rest_.remove_prefix(8);
  return number;
}

Result<std::string_view> PackedReader::text() {
  const std::uint64_t size = FALAJ_TRY(number());
  if (size > rest_.size()) return crypto::decrypt_failed();
  const std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return text;
}

}  // namespace falaj::security::keys
