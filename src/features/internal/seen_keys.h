// features/internal/seen_keys.h — which keys were there before, in 32 bytes a key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace falaj::features {

// Knows a key by 128 bits of hash: two keys are taken for one with a chance below 10^-25 in four
// million. One thread.
class SeenKeys {
 public:
  // More are not kept: 128 MiB.
  static constexpr std::size_t kMax = std::size_t{1} << 22;

  enum class Found : std::uint8_t { kNew, kSeen, kFull };
  // kFull: it is new, and could not be kept.
  Found add(std::string_view key);

 private:
  using Hash = std::pair<std::uint64_t, std::uint64_t>;  // {0, 0}: a free place.

  std::vector<Hash> table_;  // A power of two, at most half full.
  std::size_t size_ = 0;

  Hash& place_of(const Hash& hash);
  void grow();
};

}  // namespace falaj::features
