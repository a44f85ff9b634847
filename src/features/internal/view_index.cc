#include "features/internal/view_index.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace falaj::features {
namespace {

using table::Type;

auto version(const RowView& row) {
  return std::make_tuple(row.event(), row.created(), row.sequence());
}

void wipe(std::string& text) { std::fill(text.begin(), text.end(), '\0'); }

}  // namespace

void RowWords::set_version(std::int64_t event, std::int64_t created, std::uint64_t sequence) {
  std::fill(words_.begin(), words_.end(), 0);
  texts_.clear();
  words_[0] = static_cast<std::uint64_t>(event);
  words_[1] = static_cast<std::uint64_t>(created);
  words_[2] = sequence;
}

void RowWords::set_null(std::size_t field) { words_[3 + field / 64] |= 1ULL << (field % 64); }

void RowWords::set_word(std::size_t field, std::uint64_t word) {
  words_[3 + (fields_ + 63) / 64 + field] = word;
}

void RowWords::set_text(std::size_t field, std::string_view text) {
  set_word(field, text_place(texts_.size(), text.size()));
  texts_.append(text);
}

std::uint64_t word_of(const table::Column& column, std::size_t row) {
  switch (column.type()) {
    case Type::kInt64:
    case Type::kTimestamp:
      return static_cast<std::uint64_t>(column.ints()[row]);
    case Type::kFloat64:
      return std::bit_cast<std::uint64_t>(column.doubles()[row]);
    case Type::kBool:
      return column.bools()[row];
    case Type::kString:
      break;
  }
  return 0;
}

double number_of(Type type, std::uint64_t word) {
  switch (type) {
    case Type::kInt64:
      return static_cast<double>(static_cast<std::int64_t>(word));
    case Type::kTimestamp:
      return static_cast<double>(static_cast<std::int64_t>(word)) * 1e-9;
    case Type::kFloat64:
      return std::bit_cast<double>(word);
    case Type::kBool:
      return word != 0 ? 1.0 : 0.0;
    case Type::kString:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
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

std::uint32_t ViewIndex::Shard::add(std::string_view key, std::uint64_t hash, std::size_t width) {
  if ((hashes.size() + 1) * 2 > table.size()) grow();
  const auto row = static_cast<std::uint32_t>(hashes.size());
  FALAJ_CHECK(row != kNone - 1);
  std::size_t slot = hash & (table.size() - 1);
  while (table[slot] != 0) slot = (slot + 1) & (table.size() - 1);
  table[slot] = row + 1;
  hashes.push_back(hash);
  keys.emplace_back(key);
  if (row % kChunkRows == 0) {
    chunks.push_back(std::make_unique<std::uint64_t[]>(kChunkRows * width));
  }
  return row;
}

void ViewIndex::store(Shard& shard, std::uint32_t row, const RowView& from) {
  std::copy(from.words.begin(), from.words.end(), words_of(shard, row));
  if (from.texts.empty() && row >= shard.texts.size()) return;
  if (row >= shard.texts.size()) shard.texts.resize(row + 1);
  wipe(shard.texts[row]);
  shard.texts[row].assign(from.texts);
}

ViewIndex::Put ViewIndex::put(std::string_view key, const RowView& row, Replaced replaced) {
  FALAJ_CHECK(row.words.size() == width_);
  const std::uint64_t hash = hash64(key);
  Shard& shard = shards_[hash >> kShardShift];
  const MutexLock lock(shard.mutex);
  const std::uint32_t found = shard.find(key, hash);
  if (found == kNone) {
    const std::uint32_t added = shard.add(key, hash, width_);
    store(shard, added, row);
    if (replaced == Replaced::kKeep) shard.replaced.try_emplace(added);
    ++shard.live;
    keys_.fetch_add(1, std::memory_order_relaxed);
    return Put::kNewer;
  }
  const RowView old = row_of(shard, found);
  if (version(row) == version(old)) return Put::kSame;
  if (version(row) < version(old)) return Put::kStale;
  // try_emplace: of two rows of one publish, readers keep what was there before both.
  if (replaced == Replaced::kKeep) {
    shard.replaced.try_emplace(
        found, OldRow{{old.words.begin(), old.words.end()}, std::string(old.texts)});
  }
  store(shard, found, row);
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
  wipe(shard.keys[row]);
  std::fill_n(words_of(shard, row), width_, 0);
  if (row < shard.texts.size()) wipe(shard.texts[row]);
  shard.hashes[row] = ~hash;
  shard.replaced.erase(row);
  --shard.live;
  keys_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void ViewIndex::clear() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (std::string& key : shard.keys) wipe(key);
    for (auto& chunk : shard.chunks) std::fill_n(chunk.get(), kChunkRows * width_, 0);
    for (std::string& texts : shard.texts) wipe(texts);
    for (auto& [row, old] : shard.replaced) {
      std::fill(old.words.begin(), old.words.end(), 0);
      wipe(old.texts);
    }
    keys_.fetch_sub(shard.live, std::memory_order_relaxed);
    shard.live = 0;
    shard.table.clear();
    shard.hashes.clear();
    shard.keys.clear();
    shard.chunks.clear();
    shard.texts.clear();
    shard.replaced.clear();
  }
}

void ViewIndex::settle() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.replaced.clear();
  }
}

}  // namespace falaj::features
