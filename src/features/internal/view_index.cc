#include "features/internal/view_index.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace falaj::features {
namespace {

auto version(std::span<const std::uint64_t> words) {
  return std::make_tuple(static_cast<std::int64_t>(words[0]), static_cast<std::int64_t>(words[1]),
                         words[2]);
}

}  // namespace

void RowWords::set_version(std::int64_t event, std::int64_t created, std::uint64_t sequence) {
  std::fill(words_.begin(), words_.end(), 0);
  words_[0] = static_cast<std::uint64_t>(event);
  words_[1] = static_cast<std::uint64_t>(created);
  words_[2] = sequence;
}

void RowWords::set_null(std::size_t field) { words_[3 + field / 64] |= 1ULL << (field % 64); }

void RowWords::set_number(std::size_t field, double number) {
  words_[3 + (fields_ + 63) / 64 + field] = std::bit_cast<std::uint64_t>(number);
}

void ViewIndex::Shard::grow() {
  const std::size_t size = std::max<std::size_t>(table.size() * 2, 16);
  table.assign(size, 0);
  for (std::size_t row = 0; row < hashes.size(); ++row) {
    std::size_t slot = hashes[row] & (size - 1);
    while (table[slot] != 0) slot = (slot + 1) & (size - 1);
    table[slot] = static_cast<std::uint32_t>(row) + 1;
  }
}

std::uint32_t ViewIndex::Shard::add(std::string_view key, std::uint64_t hash) {
  if ((hashes.size() + 1) * 2 > table.size()) grow();
  const auto row = static_cast<std::uint32_t>(hashes.size());
  FALAJ_CHECK(row != kNone - 1);
  std::size_t slot = hash & (table.size() - 1);
  while (table[slot] != 0) slot = (slot + 1) & (table.size() - 1);
  table[slot] = row + 1;
  hashes.push_back(hash);
  key_bytes.append(key);
  key_ends.push_back(key_bytes.size());
  return row;
}

ViewIndex::Put ViewIndex::put(std::string_view key, std::span<const std::uint64_t> row,
                              Replaced replaced) {
  FALAJ_CHECK(row.size() == width_);
  const std::uint64_t hash = hash64(key);
  Shard& shard = shards_[hash >> kShardShift];
  const MutexLock lock(shard.mutex);
  const std::uint32_t found = shard.find(key, hash);
  if (found == kNone) {
    const std::uint32_t added = shard.add(key, hash);
    shard.words.insert(shard.words.end(), row.begin(), row.end());
    if (replaced == Replaced::kKeep) shard.replaced.try_emplace(added);
    ++shard.live;
    keys_.fetch_add(1, std::memory_order_relaxed);
    return Put::kNewer;
  }
  std::uint64_t* const there = shard.words.data() + found * width_;
  const std::span<const std::uint64_t> old(there, width_);
  if (version(row) == version(old)) return Put::kSame;
  if (version(row) < version(old)) return Put::kStale;
  // try_emplace: of two rows of one publish, readers keep what was there before both.
  if (replaced == Replaced::kKeep) {
    shard.replaced.try_emplace(found, std::vector<std::uint64_t>(old.begin(), old.end()));
  }
  std::copy(row.begin(), row.end(), there);
  return Put::kNewer;
}

// The slot stays taken, so that what was placed behind it is still found; a hash that no key in
// this shard has keeps anybody from finding the row.
bool ViewIndex::erase(std::string_view key) {
  const std::uint64_t hash = hash64(key);
  Shard& shard = shards_[hash >> kShardShift];
  const MutexLock lock(shard.mutex);
  const std::uint32_t row = shard.find(key, hash);
  if (row == kNone) return false;
  const std::uint64_t begin = row == 0 ? 0 : shard.key_ends[row - 1];
  std::fill_n(shard.key_bytes.begin() + static_cast<std::ptrdiff_t>(begin), key.size(), '\0');
  std::fill_n(shard.words.begin() + static_cast<std::ptrdiff_t>(row * width_), width_, 0);
  shard.hashes[row] = ~hash;
  shard.replaced.erase(row);
  --shard.live;
  keys_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void ViewIndex::clear() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    std::fill(shard.key_bytes.begin(), shard.key_bytes.end(), '\0');
    std::fill(shard.words.begin(), shard.words.end(), 0);
    for (auto& [row, words] : shard.replaced) std::fill(words.begin(), words.end(), 0);
    keys_.fetch_sub(shard.live, std::memory_order_relaxed);
    shard.live = 0;
    shard.table.clear();
    shard.hashes.clear();
    shard.key_ends.clear();
    shard.key_bytes.clear();
    shard.words.clear();
    shard.replaced.clear();
  }
}

void ViewIndex::show(std::uint64_t commit) {
  // A reader that holds a shard's mutex sees either the old number and the replaced rows, or the
  // new number; the rows are dropped only under that mutex.
  shown_.store(std::max(commit, shown_.load(std::memory_order_relaxed)), std::memory_order_release);
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.replaced.clear();
  }
}

}  // namespace falaj::features
