// features/internal/segment_cursor.h — asks one segment many questions in ascending order, reading
// each block at most once and only blocks that may hold an answer.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "features/internal/key_column.h"
#include "features/internal/probes.h"
#include "features/internal/segment_file.h"

namespace falaj::features {

// A key to look for: its prefix, and all of it unless the prefix is.
struct KeyRef {
  std::uint64_t prefix = 0;
  std::string_view text;
};

// How many questions there will be: to each block many, or to few blocks one. It changes what is
// read at once, not what is answered.
enum class Questions : std::uint8_t { kMany, kFew };

// The newest row for a probe, by event times alone.
struct NewestRow {
  std::size_t probe = 0;  // Its number.
  std::int64_t event = 0;
  std::uint32_t block = 0;
  std::uint32_t row = 0;
};

// One thread. `file` outlives it.
class SegmentCursor {
 public:
  explicit SegmentCursor(const SegmentFile& file, Questions questions = Questions::kMany);

  // Stands on the last row of `key` whose event time is ≤ at; false when there is none. Questions
  // ascend by (key, at). Cost: O(log of the distance), and a read when the block changes.
  Result<bool> seek(const KeyRef& key, std::int64_t at);
  // Of all probes at once what seek() says of each, appended to `out` in their order; those without
  // a row have none. For many questions: a block is merged with its probes, row by row where they
  // are close. No seek() before it.
  Status seek_all(const Probes& probes, std::span<const Probe> range, std::vector<NewestRow>& out);
  // Stands on the row of the same key before this one; false when there is none. May be called
  // again and again; the next seek() goes on from where the last one was.
  Result<bool> back(const KeyRef& key);

  // Of the row it stands on.
  std::uint32_t block() const { return static_cast<std::uint32_t>(on_->number); }
  std::uint32_t row() const { return static_cast<std::uint32_t>(row_); }
  std::int64_t event() const { return on_->events[row_ - on_->events_begin]; }
  // Reads what the next three need; once for each block.
  Status look_closer();
  bool has_created() const { return !closer(1).is_null(row_); }
  std::int64_t created() const { return closer(1).int_at(row_); }  // If has_created().
  std::int64_t position() const { return closer(2).int_at(row_); }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  // What a search needs of a block.
  struct Loaded {
    std::size_t number = kNone;
    SegmentFile::Chunks chunks;  // Used while loading.
    std::vector<std::uint32_t> run_ends;
    std::vector<std::uint64_t> prefixes;  // Of the runs' keys.
    KeyColumn texts;                      // Likewise; unused when prefixes are whole.
    std::vector<std::int64_t> events;     // Of the rows from events_begin on, as far as read.
    std::size_t events_begin = 0;
    SegmentFile::Chunks closer;  // Creation times and positions.
    bool is_closer = false;
  };
  Status load(std::size_t block, Loaded& into) const;
  void load_keys(const SegmentFile::Chunks& chunks, std::size_t runs, Loaded& into) const;
  static void read_events(const Chunk& chunk, std::size_t begin, Loaded& into);
  // Event times, of the rows [begin, end) at least.
  Status load_events(std::size_t begin, std::size_t end, Loaded& into) const;
  // <0, 0, >0 as the run's key is before, at or behind `key`.
  int compare(const Loaded& loaded, std::size_t run, const KeyRef& key) const;
  // The probes [first, last), none of which has its answer in another block than ahead_.
  void merge_block(const Probes& probes, std::span<const Probe> range, std::size_t first,
                   std::size_t last, std::vector<NewestRow>& out) const;
  // The same; before(run, probe) and same(run, probe) compare their keys.
  template <class Before, class Same>
  void merge(std::span<const Probe> range, std::size_t first, std::size_t last, Before before,
             Same same, std::vector<NewestRow>& out) const;
  // The first of the rows [row, end) of ahead_ whose event time is > at; they ascend.
  std::size_t rows_until(std::size_t row, std::size_t end, std::int64_t at) const;
  bool begins_behind(const SegmentFile::Block& block, const KeyRef& key, std::int64_t at) const;
  // The event column is 0, created 1, position 2.
  std::size_t time_chunk(std::size_t which) const {
    return SegmentFile::chunk_of(file_.keys() + which);
  }
  const Chunk& closer(std::size_t which) const { return on_->closer.at(time_chunk(which)); }

  const SegmentFile& file_;
  const Questions questions_;
  const bool whole_;               // Prefixes are whole keys.
  std::size_t blocks_before_ = 0;  // Blocks that do not begin behind the last question.
  std::size_t run_ = 0;
  std::size_t row_end_ = 0;  // Rows of the run, from the block's first, that are not too young.
  Loaded ahead_;             // Of seek().
  Loaded behind_;            // Of back().
  Loaded* on_ = nullptr;
  std::size_t row_ = 0;
};

}  // namespace falaj::features
