// features/internal/view_index.h — the hot index of one view: key → newest row, in memory.
//
// Sixty-four shards, each an open-addressed table under its own mutex, which a reader holds for
// tens of nanoseconds and a writer for a few rows. Rows of one publish are shown together: until
// show() a reader still gets the row that a new one replaced.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "features/internal/segments.h"

namespace falaj::features {

// A row as words: event, created, sequence, one null bit per field, then a word per field (the
// bits of a double; a text is kept as NaN).
class RowWords {
 public:
  static std::size_t width(std::size_t fields) { return 3 + (fields + 63) / 64 + fields; }

  explicit RowWords(std::size_t fields) : fields_(fields), words_(width(fields)) {}
  void set_version(std::int64_t event, std::int64_t created, std::uint64_t sequence);
  void set_null(std::size_t field);
  void set_number(std::size_t field, double number);
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  std::size_t fields_;
  std::vector<std::uint64_t> words_;
};

// Reads what RowWords wrote.
struct RowView {
  std::span<const std::uint64_t> words;
  std::size_t fields;

  std::int64_t event() const { return static_cast<std::int64_t>(words[0]); }
  std::int64_t created() const { return static_cast<std::int64_t>(words[1]); }
  std::uint64_t sequence() const { return words[2]; }
  bool is_null(std::size_t field) const { return (words[3 + field / 64] >> (field % 64) & 1) != 0; }
  double number(std::size_t field) const {
    return std::bit_cast<double>(words[3 + (fields + 63) / 64 + field]);
  }
};

class ViewIndex {
 public:
  enum class Put : std::uint8_t { kNewer, kSame, kStale };
  // While loading nobody reads yet, so what is replaced need not be kept.
  enum class Replaced : std::uint8_t { kKeep, kForget };

  explicit ViewIndex(std::size_t fields) : fields_(fields), width_(RowWords::width(fields)) {}

  std::size_t fields() const { return fields_; }
  std::uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }

  // Keeps the row if its (event, created, sequence) is larger than what is there. One writer.
  Put put(std::string_view key, std::span<const std::uint64_t> row, Replaced replaced);
  // Forgets the row and overwrites it. False when there was none.
  bool erase(std::string_view key);
  // Forgets every row and overwrites them all.
  void clear();
  // Rows of commits up to this one are visible from now on.
  void show(std::uint64_t commit);

  // Calls use(RowView) with the visible row; false when there is none. `use` must be short.
  template <class Use>
  bool read(std::string_view key, Use use) const {
    const std::uint64_t hash = hash64(key);
    const Shard& shard = shards_[hash >> kShardShift];
    const MutexLock lock(shard.mutex);
    const std::uint32_t row = shard.find(key, hash);
    if (row == kNone) return false;
    std::span<const std::uint64_t> words = shard.words_of(row, width_);
    if (commit_of(words[2]) > shown_.load(std::memory_order_relaxed)) {
      const auto before = shard.replaced.find(row);
      if (before == shard.replaced.end() || before->second.empty()) return false;
      words = before->second;
    }
    use(RowView{words, fields_});
    return true;
  }

 private:
  static constexpr std::size_t kShards = 64;
  static constexpr int kShardShift = 58;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  struct Shard {
    mutable Mutex mutex;
    std::vector<std::uint32_t> table;  // Row + 1; 0 is free. A power of two, at most half full.
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint64_t> key_ends;
    std::string key_bytes;
    std::vector<std::uint64_t> words;
    std::uint64_t live = 0;  // Rows that were not erased.
    // What the rows of the publish under way have replaced; empty words: nothing was there.
    std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> replaced;

    std::string_view key_of(std::uint32_t row) const {
      const std::uint64_t begin = row == 0 ? 0 : key_ends[row - 1];
      return std::string_view(key_bytes).substr(begin, key_ends[row] - begin);
    }
    std::span<const std::uint64_t> words_of(std::uint32_t row, std::size_t width) const {
      return {words.data() + row * width, width};
    }
    std::uint32_t find(std::string_view key, std::uint64_t hash) const {
      if (table.empty()) return kNone;
      const std::size_t mask = table.size() - 1;
      for (std::size_t slot = hash & mask; table[slot] != 0; slot = (slot + 1) & mask) {
        const std::uint32_t row = table[slot] - 1;
        if (hashes[row] == hash && key_of(row) == key) return row;
      }
      return kNone;
    }
    std::uint32_t add(std::string_view key, std::uint64_t hash);
    void grow();
  };

  std::size_t fields_;
  std::size_t width_;
  std::atomic<std::uint64_t> keys_{0};
  std::atomic<std::uint64_t> shown_{0};
  std::array<Shard, kShards> shards_;
};

}  // namespace falaj::features
