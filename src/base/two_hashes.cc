#include "base/two_hashes.h"

#include <algorithm>
#include <cstring>

#include "base/internal/sha256_blocks.h"

namespace falaj {
namespace {

constexpr std::size_t kBlock = 64;

bool has_instructions() {
  static const bool kNative = internal::sha256_has_instructions();
  return kNative;
}

const std::uint8_t* bytes_of(std::string_view data) {
  return reinterpret_cast<const std::uint8_t*>(data.data());
}

}  // namespace

PairedHasher::PairedHasher()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

// Takes the whole blocks of `data`.
void PairedHasher::compress(std::string_view& data) {
  const std::size_t count = data.size() / kBlock;
  if (has_instructions()) {
    internal::sha256_blocks_native(state_, bytes_of(data), count);
  } else {
    internal::sha256_blocks_portable(state_, bytes_of(data), count);
  }
  data.remove_prefix(count * kBlock);
}

// Completes the block that was begun, as far as `data` goes.
void PairedHasher::fill(std::string_view& data) {
  total_ += data.size();
  if (buffered_ == 0) return;
  const std::size_t taken = std::min(data.size(), kBlock - buffered_);
  std::memcpy(buffer_.data() + buffered_, data.data(), taken);
  data.remove_prefix(taken);
  buffered_ += taken;
  if (buffered_ < kBlock) return;
  std::string_view block(reinterpret_cast<const char*>(buffer_.data()), kBlock);
  compress(block);
  buffered_ = 0;
}

// Less than a block, behind what fill() and compress() took.
void PairedHasher::keep(std::string_view rest) {
  if (rest.empty()) return;
  std::memcpy(buffer_.data(), rest.data(), rest.size());
  buffered_ = rest.size();
}

void PairedHasher::update(std::string_view data) {
  fill(data);
  compress(data);
  keep(data);
}

void PairedHasher::update_both(Fed a, Fed b) {
  a.hasher.fill(a.data);
  b.hasher.fill(b.data);
  const std::size_t count = std::min(a.data.size(), b.data.size()) / kBlock;
  if (count > 0 && has_instructions()) {
    internal::sha256_blocks_native({a.hasher.state_, bytes_of(a.data)},
                                   {b.hasher.state_, bytes_of(b.data)}, count);
    a.data.remove_prefix(count * kBlock);
    b.data.remove_prefix(count * kBlock);
  }
  for (const Fed* each : {&a, &b}) {
    std::string_view rest = each->data;
    each->hasher.compress(rest);
    each->hasher.keep(rest);
  }
}

Sha256 PairedHasher::finish() {
  // One set bit, noughts up to 56 modulo 64, then the length in bits, big-endian.
  const std::uint64_t bits = total_ * 8;
  std::array<char, kBlock + 8> padding{'\x80'};
  const std::size_t size = (buffered_ < 56 ? 56 : 120) - buffered_;
  for (std::size_t i = 0; i < 8; ++i) padding[size + i] = static_cast<char>(bits >> (56 - 8 * i));
  update({padding.data(), size + 8});
  Sha256 digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace falaj
