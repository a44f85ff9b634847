// features/internal/view_index.h — the hot index of one view: key → newest row, in memory.
//
// Sixty-four shards, each an open-addressed table under its own mutex, which a reader holds for
// tens of nanoseconds and a writer for one row at a time; rows never move, so that growing is short
// too. A reader names the commit that it reads at: of a row that a publish under way has replaced
// it still gets what was there before.
//
// Rows whose durable copy was made may be let go, those first that were not read for long: sixteen
// at a time, as they came in. From then on a key that is not here may be in the durable copy. A
// shard that is mostly free gives its room back.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "features/internal/segments.h"

namespace falaj::features {

// One row. Words: event, created, sequence, one null bit per field, then a word per field by its
// type: the bits of a double, an integer or a time as it is, 0 or 1 for a bool, for a text its
// place in `texts` (text_place).
struct RowView {
  std::span<const std::uint64_t> words;
  std::size_t fields;
  std::string_view texts{};

  std::int64_t event() const { return static_cast<std::int64_t>(words[0]); }
  std::int64_t created() const { return static_cast<std::int64_t>(words[1]); }
  std::uint64_t sequence() const { return words[2]; }
  bool is_null(std::size_t field) const { return (words[3 + field / 64] >> (field % 64) & 1) != 0; }
  std::uint64_t word(std::size_t field) const { return words[3 + (fields + 63) / 64 + field]; }
  std::string_view text(std::size_t field) const {
    return texts.substr(word(field) >> 32, word(field) & 0xFFFFFFFFu);
  }
};

// Of a text in the texts of its row or reply.
constexpr std::uint64_t text_place(std::size_t offset, std::size_t length) {
  return offset << 32 | static_cast<std::uint32_t>(length);
}

// Makes rows, one after another.
class RowWords {
 public:
  static std::size_t width(std::size_t fields) { return 3 + (fields + 63) / 64 + fields; }

  explicit RowWords(std::size_t fields) : fields_(fields), words_(width(fields)) {}
  // Begins a row.
  void set_version(std::int64_t event, std::int64_t created, std::uint64_t sequence);
  void set_null(std::size_t field);
  void set_word(std::size_t field, std::uint64_t word);
  void set_text(std::size_t field, std::string_view text);
  RowView row() const { return {words_, fields_, texts_}; }

 private:
  std::size_t fields_;
  std::vector<std::uint64_t> words_;
  std::string texts_;
};

// A field's word of a column's row; not for texts.
std::uint64_t word_of(const table::Column& column, std::size_t row);
// As a number for a model: times are seconds, a text is NaN.
double number_of(table::Type type, std::uint64_t word);

class ViewIndex {
 public:
  enum class Put : std::uint8_t { kNewer, kSame, kStale };
  // While loading nobody reads yet, so what is replaced need not be kept.
  enum class Replaced : std::uint8_t { kKeep, kForget };
  // kTooNew: the row at that commit is not kept any more; read at a later one. kElsewhere: it is
  // not in memory; if there is one, the durable copy has it.
  enum class Seen : std::uint8_t { kRow, kNothing, kTooNew, kElsewhere };

  // What it holds is added to `bytes`, which several may share and which outlives it.
  ViewIndex(std::size_t fields, std::atomic<std::int64_t>& bytes)
      : fields_(fields), width_(RowWords::width(fields)), bytes_(bytes) {}
  ~ViewIndex() { bytes_ -= own_bytes_; }

  std::size_t fields() const { return fields_; }
  // Those that were let go too.
  std::uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }
  // Nothing was let go: what is not here is nowhere.
  bool complete() const { return complete_.load(); }

  // Keeps the row if its (event, created, sequence) is larger than what is there. One writer.
  Put put(std::string_view key, const RowView& row, Replaced replaced);
  // Forgets the row and overwrites it. False when there was none.
  bool erase(std::string_view key);
  // Forgets every row and overwrites them all.
  void clear();
  // Forgets what the last publish has replaced: nobody begins to read at a commit before it.
  void settle();

  // While one lives nothing is let go: what was looked up stays.
  class Hold {
   public:
    explicit Hold(ViewIndex& index) : index_(index) { ++index_.holds_; }
    ~Hold() { --index_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    ViewIndex& index_;
  };
  // Lets go of rows of commits up to `copied`, of which the durable copy is made, until so many
  // bytes are free. What it freed. No shard is locked for more than a few of its rows, except to
  // give its room back, which takes as long as growing. One caller at a time.
  std::int64_t evict(std::int64_t bytes, std::uint64_t copied);
  // So many keys were left in the durable copy while it was loaded.
  void leave_out(std::uint64_t keys);
  // Takes a row back from the durable copy. Take the ticket first, then read the copy: nothing
  // happens when the index has the key, or let go or erased something meanwhile.
  std::uint64_t ticket(std::string_view key) const;
  void fill(std::string_view key, const RowView& row, std::uint64_t ticket);

  // Calls use(RowView) with the row as it was at that commit. `use` must be short.
  template <class Use>
  Seen read(std::string_view key, std::uint64_t commit, Use use) const {
    const std::uint64_t hash = hash64(key);
    const Shard& shard = shards_[hash >> kShardShift];
    const MutexLock lock(shard.mutex);
    const std::uint32_t row = shard.find(key, hash);
    if (row == kNone) return complete_.load() ? Seen::kNothing : Seen::kElsewhere;
    shard.used[row / kChunkRows] = 1;
    RowView seen = row_of(shard, row);
    if (commit_of(seen.sequence()) > commit) {
      const auto before = shard.replaced.find(row);
      if (before == shard.replaced.end()) return Seen::kTooNew;
      if (before->second.words.empty()) return Seen::kNothing;
      seen = {before->second.words, fields_, before->second.texts};
      if (commit_of(seen.sequence()) > commit) return Seen::kTooNew;
    }
    use(seen);
    return Seen::kRow;
  }

 private:
  static constexpr std::size_t kShards = 64;
  static constexpr int kShardShift = 58;
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  static constexpr std::size_t kChunkRows = 16;    // Allocated together.
  static constexpr std::size_t kChunksAtOnce = 8;  // Looked at under one lock by who evicts.

  struct OldRow {
    std::vector<std::uint64_t> words;
    std::string texts;
  };
  struct Shard {
    mutable Mutex mutex;
    std::vector<std::uint32_t> table;  // Row + 1; 0 is free. A power of two, at most half full.
    std::vector<std::uint64_t> hashes;
    std::vector<std::string> keys;
    std::vector<std::unique_ptr<std::uint64_t[]>> chunks;  // Null: free.
    std::vector<std::uint16_t> alive;                      // Of each chunk, a bit for each row.
    mutable std::vector<std::uint8_t> used;  // Of each chunk: whether it was read of late.
    std::vector<std::uint32_t> free;         // Chunks.
    std::uint32_t open = kNone;              // The chunk that new rows go to, and how many it has.
    std::uint32_t filled = 0;
    std::size_t taken = 0;           // Places of `table`, those of rows that are gone too.
    std::uint64_t gone = 0;          // How often something was let go or erased.
    std::vector<std::string> texts;  // Of each row; none in a view without texts.
    std::uint64_t live = 0;          // Rows that are here.
    // What the rows of the publish under way have replaced; empty words: nothing was there.
    std::unordered_map<std::uint32_t, OldRow> replaced;

    std::uint32_t find(std::string_view key, std::uint64_t hash) const {
      if (table.empty()) return kNone;
      const std::size_t mask = table.size() - 1;
      for (std::size_t slot = hash & mask; table[slot] != 0; slot = (slot + 1) & mask) {
        const std::uint32_t row = table[slot] - 1;
        if (hashes[row] == hash && keys[row] == key) return row;
      }
      return kNone;
    }
    std::uint32_t add(std::string_view key, std::uint64_t hash, std::size_t width);
    void open_chunk(std::size_t width);
    void rebuild();
    bool mostly_free() const { return free.size() * 2 > chunks.size(); }
    // Closes the gaps of free chunks, and gives back what its vectors do not need.
    void compact();
    void move_chunk(std::uint32_t from, std::uint32_t to);
    // Nobody finds the row any more; it is overwritten.
    void bury(std::uint32_t row, std::size_t width);
    std::int64_t bytes(std::size_t width) const;
    std::int64_t counted = 0;     // bytes() when it was last looked at.
    std::int64_t long_bytes = 0;  // Of keys and texts that do not lie inside their strings.
    std::uint32_t hand = 0;       // The chunk that is looked at next; of who evicts.
  };

  std::uint64_t* words_of(const Shard& shard, std::uint32_t row) const {
    return shard.chunks[row / kChunkRows].get() + row % kChunkRows * width_;
  }
  RowView row_of(const Shard& shard, std::uint32_t row) const {
    const std::string_view texts = row < shard.texts.size() ? shard.texts[row] : std::string_view();
    return {{words_of(shard, row), width_}, fields_, texts};
  }
  void store(Shard& shard, std::uint32_t row, const RowView& from);
  // Takes the shard's share of bytes_ to what it is.
  void count(Shard& shard);
  bool may_go(const Shard& shard, std::uint32_t chunk, std::uint64_t copied) const;
  // One evict() under way: until own_bytes_ is down to `enough`.
  struct Sweep {
    static constexpr std::size_t kUnseen = ~std::size_t{0};
    std::int64_t enough;
    std::uint64_t copied;
    std::array<std::size_t, kShards> left;  // Chunks of each shard that are still to be looked at.
  };
  // Looks at a few chunks of the shard.
  void sweep_some(std::size_t number, Sweep& sweep);
  void let_go(Shard& shard, std::uint32_t chunk);

  std::size_t fields_;
  std::size_t width_;
  std::atomic<std::int64_t>& bytes_;
  std::atomic<std::int64_t> own_bytes_{0};
  std::atomic<std::uint64_t> keys_{0};
  std::atomic<bool> complete_{true};
  std::atomic<int> holds_{0};
  std::size_t hand_ = 0;  // The shard that is looked at next; of who evicts.
  std::array<Shard, kShards> shards_;
};

}  // namespace falaj::features
