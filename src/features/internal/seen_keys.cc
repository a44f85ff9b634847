#include "features/internal/seen_keys.h"

#include <algorithm>

#include "base/hash.h"

namespace falaj::features {
namespace {

constexpr std::uint64_t kOtherSeed = 0x9E3779B97F4A7C15ull;

}  // namespace

SeenKeys::Hash& SeenKeys::place_of(const Hash& hash) {
  const std::size_t mask = table_.size() - 1;
  std::size_t place = hash.first & mask;
  while (table_[place] != Hash{} && table_[place] != hash) place = (place + 1) & mask;
  return table_[place];
}

void SeenKeys::grow() {
  std::vector<Hash> before(std::max<std::size_t>(table_.size() * 2, 1024));
  before.swap(table_);
  for (const Hash& hash : before) {
    if (hash != Hash{}) place_of(hash) = hash;
  }
}

SeenKeys::Found SeenKeys::add(std::string_view key) {
  if ((size_ + 1) * 2 > table_.size() && size_ < kMax) grow();
  Hash hash{hash64(key), hash64(key, kOtherSeed)};
  if (hash == Hash{}) hash.second = 1;
  Hash& place = place_of(hash);
  if (place == hash) return Found::kSeen;
  if (size_ == kMax) return Found::kFull;
  place = hash;
  ++size_;
  return Found::kNew;
}

}  // namespace falaj::features
