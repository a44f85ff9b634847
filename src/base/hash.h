// base/hash.h — SHA-256, the content hash of everything Falaj keeps, and a fast 64-bit mix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace falaj {

struct Sha256 {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const Sha256&) const = default;
  std::string hex() const;  // 64 lower-case digits.
};

// Incremental. Uses the processor's SHA instructions when it has them.
class Sha256Hasher {
 public:
  Sha256Hasher();
  void update(std::string_view data);
  void update(std::span<const std::byte> data);
  Sha256 finish();  // The hasher may not be used afterwards.

 private:
  std::array<std::uint32_t, 8> state_;
  std::array<std::uint8_t, 64> buffer_;
  std::size_t buffered_ = 0;
  std::uint64_t total_ = 0;
};

Sha256 sha256(std::string_view data);
std::string sha256_hex(std::string_view data);

// Not for security: spreads keys over tables and buckets; the same on every machine and build.
std::uint64_t hash64(std::string_view data, std::uint64_t seed = 0);

}  // namespace falaj
