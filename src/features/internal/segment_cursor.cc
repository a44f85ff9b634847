#include "features/internal/segment_cursor.h"

#include <algorithm>

#include "features/key.h"

namespace falaj::features {
namespace {

using table::Type;

// The first place in [from, end) where `holds` is false; it is true up to some place and false
// behind it. Cost: O(log of how far that is).
template <class Holds>
std::size_t gallop(std::size_t from, std::size_t end, Holds holds) {
  std::size_t step = 1;
  std::size_t low = from;
  while (low < end && holds(low)) {
    from = low + 1;
    low += step;
    step *= 2;
  }
  std::size_t high = std::min(low, end);
  while (from < high) {
    const std::size_t middle = from + (high - from) / 2;
    if (holds(middle)) {
      from = middle + 1;
    } else {
      high = middle;
    }
  }
  return from;
}

// The same, for a place that is mostly near: steps are foreseen by the processor, halves are not.
template <class Holds>
std::size_t walk(std::size_t from, std::size_t end, Holds holds) {
  constexpr std::size_t kSteps = 16;
  const std::size_t near = std::min(end, from + kSteps);
  while (from < near && holds(from)) ++from;
  return from < near ? from : gallop(from, end, holds);
}

}  // namespace

SegmentCursor::SegmentCursor(const SegmentFile& file, Questions questions)
    : file_(file),
      questions_(questions),
      whole_(file.keys() == 1 && file.schema().fields[0].type == Type::kInt64) {}

bool SegmentCursor::begins_behind(const SegmentFile::Block& block, const KeyRef& key,
                                  std::int64_t at) const {
  if (block.first_prefix != key.prefix) return block.first_prefix > key.prefix;
  if (!whole_) {
    if (const int order = block.first_key.compare(key.text); order != 0) return order > 0;
  }
  return block.first_event > at;
}

int SegmentCursor::compare(const Loaded& loaded, std::size_t run, const KeyRef& key) const {
  const std::uint64_t prefix = loaded.prefixes[run];
  if (prefix != key.prefix) return prefix < key.prefix ? -1 : 1;
  return whole_ ? 0 : loaded.texts[run].compare(key.text);
}

void SegmentCursor::load_keys(const SegmentFile::Chunks& chunks, std::size_t runs,
                              Loaded& into) const {
  into.prefixes.resize(runs);
  if (whole_) {
    chunks.at(SegmentFile::chunk_of(0)).with_ints([&](auto get) {
      for (std::size_t run = 0; run < runs; ++run) into.prefixes[run] = key_prefix(get(run));
    });
    return;
  }
  file_.read_run_keys(chunks, runs, into.texts);
  for (std::size_t run = 0; run < runs; ++run) into.prefixes[run] = key_prefix(into.texts[run]);
}

Status SegmentCursor::load(std::size_t block, Loaded& into) const {
  if (into.number == block) return {};
  into.number = kNone;
  into.is_closer = false;
  into.events.clear();
  // The ends of the runs, the keys, and the event times stand side by side.
  const bool all = questions_ == Questions::kMany;
  FALAJ_TRY(file_.read_chunks(block, 0, all ? time_chunk(0) : file_.keys(), into.chunks));
  const SegmentFile::Block& info = file_.blocks()[block];
  FALAJ_TRY(read_run_ends(into.chunks.at(0), info.rows, into.run_ends));
  load_keys(into.chunks, info.runs, into);
  if (all) read_events(into.chunks.at(time_chunk(0)), 0, into);
  into.number = block;
  return {};
}

void SegmentCursor::read_events(const Chunk& chunk, std::size_t begin, Loaded& into) {
  into.events_begin = begin;
  into.events.resize(chunk.size());
  chunk.with_ints([&](auto get) {
    for (std::size_t i = 0; i < into.events.size(); ++i) into.events[i] = get(i);
  });
}

Status SegmentCursor::load_events(std::size_t begin, std::size_t end, Loaded& into) const {
  if (begin >= into.events_begin && end <= into.events_begin + into.events.size()) return {};
  // A run at a time. An event time is never null, so its values have a fixed place.
  const bool placed =
      FALAJ_TRY(file_.read_rows(into.number, time_chunk(0), static_cast<std::uint32_t>(begin),
                                static_cast<std::uint32_t>(end), into.chunks));
  if (!placed) return Error(ErrorId::kSegmentCorrupt, "a segment has a row without event time");
  read_events(into.chunks.at(time_chunk(0)), begin, into);
  return {};
}

Status SegmentCursor::look_closer() {
  if (on_->is_closer) return {};
  FALAJ_TRY(file_.read_chunks(on_->number, time_chunk(1), time_chunk(2), on_->closer));
  on_->is_closer = true;
  return {};
}

Result<bool> SegmentCursor::seek(const KeyRef& key, std::int64_t at) {
  // The last block that does not begin behind the question holds the answer, if there is one.
  const auto& blocks = file_.blocks();
  blocks_before_ = gallop(blocks_before_, blocks.size(), [&](std::size_t block) {
    return !begins_behind(blocks[block], key, at);
  });
  if (blocks_before_ == 0) return false;
  if (ahead_.number != blocks_before_ - 1) {
    FALAJ_TRY(load(blocks_before_ - 1, ahead_));
    run_ = 0;
    row_end_ = 0;
  }
  const std::size_t runs = gallop(run_, ahead_.run_ends.size(),
                                  [&](std::size_t run) { return compare(ahead_, run, key) <= 0; });
  if (runs == 0) return false;
  run_ = runs - 1;
  if (compare(ahead_, run_, key) != 0) return false;
  const std::size_t begin = run_ == 0 ? 0 : ahead_.run_ends[run_ - 1];
  FALAJ_TRY(load_events(begin, ahead_.run_ends[run_], ahead_));
  row_end_ = gallop(std::max(begin, row_end_), ahead_.run_ends[run_], [&](std::size_t row) {
    return ahead_.events[row - ahead_.events_begin] <= at;
  });
  if (row_end_ == begin) return false;
  on_ = &ahead_;
  row_ = row_end_ - 1;
  return true;
}

// Of the next eight rows it is counted how many are not too young, without asking after each: the
// answer is near, and no processor foresees it.
std::size_t SegmentCursor::rows_until(std::size_t row, std::size_t end, std::int64_t at) const {
  constexpr std::size_t kAtOnce = 8;
  const std::int64_t* events = ahead_.events.data();
  if (row + kAtOnce <= ahead_.events.size()) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      count += static_cast<std::size_t>(static_cast<unsigned>(events[row + i] <= at) &
                                        static_cast<unsigned>(row + i < end));
    }
    if (count < kAtOnce) return row + count;
    row += kAtOnce;
  }
  return walk(row, end, [=](std::size_t each) { return events[each] <= at; });
}

template <class Before, class Same>
void SegmentCursor::merge(std::span<const Probe> range, std::size_t first, std::size_t last,
                          Before before, Same same, std::vector<NewestRow>& out) const {
  const auto block = static_cast<std::uint32_t>(ahead_.number);
  const std::size_t runs = ahead_.run_ends.size();
  std::size_t run = 0;
  std::size_t row = 0;
  for (std::size_t i = first; i < last; ++i) {
    const Probe& probe = range[i];
    run = walk(run, runs, [&](std::size_t each) { return before(each, probe); });
    if (run == runs) return;
    if (!same(run, probe)) continue;
    const std::size_t begin = run == 0 ? 0 : ahead_.run_ends[run - 1];
    row = rows_until(std::max(row, begin), ahead_.run_ends[run], probe.at);
    if (row == begin) continue;
    out.push_back({i, ahead_.events[row - 1], block, static_cast<std::uint32_t>(row - 1)});
  }
}

void SegmentCursor::merge_block(const Probes& probes, std::span<const Probe> range,
                                std::size_t first, std::size_t last,
                                std::vector<NewestRow>& out) const {
  if (whole_) {
    const std::uint64_t* prefixes = ahead_.prefixes.data();
    merge(
        range, first, last,
        [=](std::size_t run, const Probe& probe) { return prefixes[run] < probe.prefix; },
        [=](std::size_t run, const Probe& probe) { return prefixes[run] == probe.prefix; }, out);
    return;
  }
  const auto order = [&](std::size_t run, const Probe& probe) {
    return compare(ahead_, run, {probe.prefix, probes.key(probe)});
  };
  merge(
      range, first, last,
      [&](std::size_t run, const Probe& probe) { return order(run, probe) < 0; },
      [&](std::size_t run, const Probe& probe) { return order(run, probe) == 0; }, out);
}

Status SegmentCursor::seek_all(const Probes& probes, std::span<const Probe> range,
                               std::vector<NewestRow>& out) {
  const auto& blocks = file_.blocks();
  const auto key_of = [&](std::size_t i) { return KeyRef{range[i].prefix, probes.key(range[i])}; };
  for (std::size_t first = 0; first < range.size();) {
    const KeyRef key = key_of(first);
    blocks_before_ = gallop(blocks_before_, blocks.size(), [&](std::size_t block) {
      return !begins_behind(blocks[block], key, range[first].at);
    });
    // Everything before the next block begins is this one's.
    std::size_t last = range.size();
    if (blocks_before_ < blocks.size()) {
      last = gallop(first, range.size(), [&](std::size_t i) {
        return begins_behind(blocks[blocks_before_], key_of(i), range[i].at);
      });
    }
    if (blocks_before_ > 0) {
      FALAJ_TRY(load(blocks_before_ - 1, ahead_));
      merge_block(probes, range, first, last, out);
    }
    first = last;
  }
  return {};
}

Result<bool> SegmentCursor::back(const KeyRef& key) {
  if (row_ > 0) {
    // Within the block: the row before may be another key's.
    const auto& ends = on_->run_ends;
    if (std::binary_search(ends.begin(), ends.end(), static_cast<std::uint32_t>(row_))) {
      return false;
    }
    --row_;
    return true;
  }
  if (on_->number == 0) return false;
  FALAJ_TRY(load(on_->number - 1, behind_));
  if (compare(behind_, behind_.run_ends.size() - 1, key) != 0) return false;
  const std::size_t run = behind_.run_ends.size() - 1;
  FALAJ_TRY(load_events(run == 0 ? 0 : behind_.run_ends[run - 1], behind_.run_ends[run], behind_));
  on_ = &behind_;
  row_ = behind_.run_ends[run] - 1;
  return true;
}

}  // namespace falaj::features
