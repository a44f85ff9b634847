#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/internal/sha256_blocks.h"

namespace falaj {
namespace {

void compress(internal::Sha256State& state, const std::uint8_t* blocks, std::size_t count) {
  static const bool native = internal::sha256_has_instructions();
  if (native) {
    internal::sha256_blocks_native(state, blocks, count);
  } else {
    internal::sha256_blocks_portable(state, blocks, count);
  }
}

__extension__ typedef unsigned __int128 Wide;

// Folds the 128-bit product of two words: every input bit reaches every output bit.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Little-endian on every machine, so that hashes agree between them.
std::uint64_t word_at(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace

std::string Sha256::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Sha256Hasher::Sha256Hasher()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      buffer_{} {}

void Sha256Hasher::update(std::string_view data) { update(std::as_bytes(std::span(data))); }

void Sha256Hasher::update(std::span<const std::byte> data) {
  if (data.empty()) return;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
  std::size_t size = data.size();
  total_ += size;
  if (buffered_ > 0) {
    const std::size_t taken = std::min(size, buffer_.size() - buffered_);
    std::memcpy(buffer_.data() + buffered_, bytes, taken);
    buffered_ += taken;
    bytes += taken;
    size -= taken;
    if (buffered_ < buffer_.size()) return;
    compress(state_, buffer_.data(), 1);
    buffered_ = 0;
  }
  compress(state_, bytes, size / 64);
  buffered_ = size % 64;
  std::memcpy(buffer_.data(), bytes + (size - buffered_), buffered_);
}

Sha256 Sha256Hasher::finish() {
  const std::uint64_t bits = total_ * 8;
  // One set bit, zeros up to 56 modulo 64, then the length in bits, big-endian.
  std::array<std::uint8_t, 128> tail{};
  std::memcpy(tail.data(), buffer_.data(), buffered_);
  tail[buffered_] = 0x80;
  const std::size_t size = buffered_ < 56 ? 64 : 128;
  for (std::size_t i = 0; i < 8; ++i) {
    tail[size - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
  }
  compress(state_, tail.data(), size / 64);
  Sha256 digest;
  for (std::size_t i = 0; i < 32; ++i) {
    digest.bytes[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Sha256 sha256(std::string_view data) {
  Sha256Hasher hasher;
  hasher.update(data);
  return hasher.finish();
}

std::string sha256_hex(std::string_view data) { return sha256(data).hex(); }

std::uint64_t hash64(std::string_view data, std::uint64_t seed) {
  // Odd constants with about half of their bits set.
  constexpr std::uint64_t kA = 0x9e3779b97f4a7c15;
  constexpr std::uint64_t kB = 0xd1b54a32d192ed03;
  constexpr std::uint64_t kC = 0x8cb92ba72f3d8dd7;
  std::uint64_t hash = fold(seed ^ kA, kB);
  const char* bytes = data.data();
  std::size_t left = data.size();
  for (; left > 16; left -= 16, bytes += 16) {
    hash = fold(word_at(bytes, 8) ^ kB, word_at(bytes + 8, 8) ^ hash);
  }
  const std::size_t first = std::min<std::size_t>(left, 8);
  const std::uint64_t low = first > 0 ? word_at(bytes, first) : 0;
  const std::uint64_t high = left > 8 ? word_at(bytes + 8, left - 8) : 0;
  hash = fold(low ^ kC, high ^ hash);
  return fold(hash ^ kA, static_cast<std::uint64_t>(data.size()) ^ kC);
}

}  // namespace falaj
