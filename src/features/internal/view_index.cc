#include "features/internal/view_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace falaj::features {
namespace {

using table::Type;

auto version(const RowView& row) {
  return std::make_tuple(row.event(), row.created(), row.sequence());
}

void wipe(std::string& text) { std::fill(text.begin(), text.end(), '\0'); }

// Short texts lie inside their string.
std::int64_t heap_of(const std::string& text) {
  return text.capacity() > 15 ? static_cast<std::int64_t>(text.capacity()) + 1 : 0;
}

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

void ViewIndex::Shard::rebuild() {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>((live + 1) * 3, 16));
  table = std::vector<std::uint32_t>(size);  // assign() would keep the room of a larger one.
  for (std::size_t row = 0; row < hashes.size(); ++row) {
    if ((alive[row / kChunkRows] >> (row % kChunkRows) & 1) == 0) continue;
    std::size_t slot = hashes[row] & (size - 1);
    while (table[slot] != 0) slot = (slot + 1) & (size - 1);
    table[slot] = static_cast<std::uint32_t>(row) + 1;
  }
  taken = live;
}

// To a place that is free: what lies there is empty.
void ViewIndex::Shard::move_chunk(std::uint32_t from, std::uint32_t to) {
  chunks[to] = std::move(chunks[from]);
  alive[to] = std::exchange(alive[from], std::uint16_t{0});
  used[to] = used[from];
  if (open == from) open = to;
  for (std::size_t i = 0; i < kChunkRows; ++i) {
    const std::size_t old_row = from * kChunkRows + i;
    const std::size_t new_row = to * kChunkRows + i;
    hashes[new_row] = hashes[old_row];
    keys[new_row].swap(keys[old_row]);
    if (old_row < texts.size()) texts[new_row].swap(texts[old_row]);
  }
}

void ViewIndex::Shard::compact() {
  std::unordered_map<std::uint32_t, OldRow> kept;
  std::uint32_t count = 0;
  std::uint32_t next = 0;  // Where the hand is then.
  for (std::uint32_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunk == hand) next = count;
    if (chunks[chunk] == nullptr) continue;
    for (std::uint32_t i = 0; i < kChunkRows && !replaced.empty(); ++i) {
      auto old = replaced.extract(static_cast<std::uint32_t>(chunk * kChunkRows + i));
      if (old.empty()) continue;
      old.key() = static_cast<std::uint32_t>(count * kChunkRows + i);
      kept.insert(std::move(old));
    }
    if (chunk != count) move_chunk(chunk, count);
    ++count;
  }
  replaced = std::move(kept);
  hand = next;
  const auto cut = [](auto& of, std::size_t size) {
    if (size < of.size()) of.resize(size);
    of.shrink_to_fit();
  };
  cut(chunks, count);
  cut(alive, count);
  cut(used, count);
  cut(hashes, count * kChunkRows);
  cut(keys, count * kChunkRows);
  cut(texts, count * kChunkRows);
  cut(free, 0);
  if (live > 0) return rebuild();
  cut(table, 0);
  taken = 0;
}

void ViewIndex::Shard::open_chunk(std::size_t width) {
  if (free.empty()) {
    open = static_cast<std::uint32_t>(chunks.size());
    FALAJ_CHECK((open + 1) * kChunkRows < kNone);
    chunks.emplace_back();
    alive.push_back(0);
    used.push_back(0);
    hashes.resize(hashes.size() + kChunkRows);
    keys.resize(keys.size() + kChunkRows);
  } else {
    open = free.back();
    free.pop_back();
  }
  chunks[open] = std::make_unique<std::uint64_t[]>(kChunkRows * width);
  used[open] = 1;
  filled = 0;
}

std::uint32_t ViewIndex::Shard::add(std::string_view key, std::uint64_t hash, std::size_t width) {
  if ((taken + 1) * 2 > table.size()) rebuild();
  if (open == kNone || filled == kChunkRows) open_chunk(width);
  const auto row = static_cast<std::uint32_t>(open * kChunkRows + filled++);
  std::size_t slot = hash & (table.size() - 1);
  while (table[slot] != 0) slot = (slot + 1) & (table.size() - 1);
  table[slot] = row + 1;
  ++taken;
  ++live;
  hashes[row] = hash;
  keys[row] = key;
  long_bytes += heap_of(keys[row]);
  alive[open] = static_cast<std::uint16_t>(alive[open] | 1u << (row % kChunkRows));
  return row;
}

// Its place in the table stays taken, so that what was placed behind it is still found; a hash that
// no key in this shard has keeps anybody from finding the row.
void ViewIndex::Shard::bury(std::uint32_t row, std::size_t width) {
  const auto chunk = static_cast<std::uint32_t>(row / kChunkRows);
  long_bytes -= heap_of(keys[row]);
  wipe(keys[row]);
  std::string().swap(keys[row]);
  std::fill_n(chunks[chunk].get() + row % kChunkRows * width, width, 0);
  if (row < texts.size()) {
    long_bytes -= heap_of(texts[row]);
    wipe(texts[row]);
    std::string().swap(texts[row]);
  }
  hashes[row] = ~hashes[row];
  replaced.erase(row);
  alive[chunk] = static_cast<std::uint16_t>(alive[chunk] & ~(1u << (row % kChunkRows)));
  --live;
  if (alive[chunk] != 0) return;
  if (chunk == open) open = kNone;
  chunks[chunk].reset();
  free.push_back(chunk);
}

std::int64_t ViewIndex::Shard::bytes(std::size_t width) const {
  const std::size_t rows = (chunks.size() - free.size()) * kChunkRows * width * 8;
  const std::size_t places = table.capacity() * 4 + hashes.capacity() * 8 +
                             (keys.capacity() + texts.capacity()) * sizeof(std::string);
  return static_cast<std::int64_t>(rows + places) + long_bytes;
}

void ViewIndex::count(Shard& shard) {
  const std::int64_t now = shard.bytes(width_);
  const std::int64_t more = now - shard.counted;
  if (more == 0) return;
  shard.counted = now;
  own_bytes_ += more;
  bytes_ += more;
}

void ViewIndex::store(Shard& shard, std::uint32_t row, const RowView& from) {
  std::copy(from.words.begin(), from.words.end(), words_of(shard, row));
  if (from.texts.empty() && row >= shard.texts.size()) return;
  if (row >= shard.texts.size()) shard.texts.resize(row + 1);
  shard.long_bytes -= heap_of(shard.texts[row]);
  wipe(shard.texts[row]);
  shard.texts[row].assign(from.texts);
  shard.long_bytes += heap_of(shard.texts[row]);
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
    keys_.fetch_add(1, std::memory_order_relaxed);
    count(shard);
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
  count(shard);
  return Put::kNewer;
}

bool ViewIndex::erase(std::string_view key) {
  const std::uint64_t hash = hash64(key);
  Shard& shard = shards_[hash >> kShardShift];
  const MutexLock lock(shard.mutex);
  ++shard.gone;
  const std::uint32_t row = shard.find(key, hash);
  if (row == kNone) return false;
  shard.bury(row, width_);
  keys_.fetch_sub(1, std::memory_order_relaxed);
  count(shard);
  return true;
}

void ViewIndex::clear() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    ++shard.gone;
    for (auto& [row, old] : shard.replaced) {
      std::fill(old.words.begin(), old.words.end(), 0);
      wipe(old.texts);
    }
    for (std::size_t row = 0; row < shard.hashes.size(); ++row) {
      const bool alive = (shard.alive[row / kChunkRows] >> (row % kChunkRows) & 1) != 0;
      if (alive) shard.bury(static_cast<std::uint32_t>(row), width_);
    }
    shard.replaced.clear();
    shard.compact();
    count(shard);
  }
  keys_.store(0, std::memory_order_relaxed);
  complete_.store(true);
}

void ViewIndex::leave_out(std::uint64_t keys) {
  if (keys == 0) return;
  complete_.store(false);
  keys_.fetch_add(keys, std::memory_order_relaxed);
}

std::uint64_t ViewIndex::ticket(std::string_view key) const {
  const Shard& shard = shards_[hash64(key) >> kShardShift];
  const MutexLock lock(shard.mutex);
  return shard.gone;
}

void ViewIndex::fill(std::string_view key, const RowView& row, std::uint64_t ticket) {
  FALAJ_CHECK(row.words.size() == width_);
  const std::uint64_t hash = hash64(key);
  Shard& shard = shards_[hash >> kShardShift];
  const MutexLock lock(shard.mutex);
  if (shard.gone != ticket || shard.find(key, hash) != kNone) return;
  store(shard, shard.add(key, hash, width_), row);
  count(shard);
}

bool ViewIndex::may_go(const Shard& shard, std::uint32_t chunk, std::uint64_t copied) const {
  for (std::uint32_t i = 0; i < kChunkRows; ++i) {
    const auto row = static_cast<std::uint32_t>(chunk * kChunkRows + i);
    if ((shard.alive[chunk] >> i & 1) == 0) continue;
    const bool settled = !shard.replaced.contains(row);
    if (!settled || commit_of(row_of(shard, row).sequence()) > copied) return false;
  }
  return true;
}

void ViewIndex::let_go(Shard& shard, std::uint32_t chunk) {
  complete_.store(false);  // Before a reader can miss it.
  ++shard.gone;
  for (std::uint32_t i = 0; i < kChunkRows; ++i) {
    const auto row = static_cast<std::uint32_t>(chunk * kChunkRows + i);
    if ((shard.alive[chunk] >> i & 1) != 0) shard.bury(row, width_);
  }
  count(shard);
}

void ViewIndex::sweep_some(std::size_t number, Sweep& sweep) {
  Shard& shard = shards_[number];
  std::size_t& left = sweep.left[number];
  const MutexLock lock(shard.mutex);
  if (holds_.load() > 0) {
    left = 0;
    return;
  }
  // Twice around: what was read since the last time stays at first.
  if (left == Sweep::kUnseen) left = 2 * shard.chunks.size();
  for (std::size_t i = 0; i < kChunksAtOnce && left > 0; ++i, --left) {
    if (own_bytes_.load() <= sweep.enough) return;
    if (shard.hand >= shard.chunks.size()) shard.hand = 0;
    const std::uint32_t chunk = shard.hand++;
    if (shard.alive[chunk] == 0) continue;
    if (std::exchange(shard.used[chunk], std::uint8_t{0}) != 0) continue;
    if (may_go(shard, chunk, sweep.copied)) let_go(shard, chunk);
  }
  if (!shard.mostly_free()) return;
  const std::size_t rounds = (left + shard.chunks.size() - 1) / shard.chunks.size();
  shard.compact();
  count(shard);
  left = rounds * shard.chunks.size();
}

// A few chunks of each shard in turn: readers of one get in while the others are looked at.
std::int64_t ViewIndex::evict(std::int64_t bytes, std::uint64_t copied) {
  const std::int64_t before = own_bytes_.load();
  Sweep sweep{before - bytes, copied, {}};
  sweep.left.fill(Sweep::kUnseen);
  for (std::size_t done = 0; done < kShards && own_bytes_.load() > sweep.enough;) {
    sweep_some(hand_, sweep);
    done = sweep.left[hand_] == 0 ? done + 1 : 0;
    hand_ = (hand_ + 1) % kShards;
  }
  return before - own_bytes_.load();
}

void ViewIndex::settle() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.replaced.clear();
  }
}

}  // namespace falaj::features
