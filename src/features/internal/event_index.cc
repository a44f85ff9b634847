#include "features/internal/event_index.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "features/internal/key_column.h"
#include "features/internal/segments.h"

namespace falaj::features {
namespace {

using table::Column;

template <class T>
std::vector<T> taken(const std::vector<T>& from, const std::vector<std::uint32_t>& rows) {
  std::vector<T> out;
  out.reserve(rows.size());
  for (const std::uint32_t row : rows) out.push_back(from[row]);
  return out;
}

EventRows taken(const EventRows& from, const std::vector<std::uint32_t>& rows) {
  EventRows out{taken(from.event, rows), taken(from.created, rows), taken(from.sequence, rows), {}};
  for (const Column& column : from.columns) out.columns.push_back(column.take(rows));
  return out;
}

void append(const WindowPlan& plan, const NewEvents& added, std::size_t begin, std::size_t end,
            EventRows& out) {
  const auto& event = added.rows.columns[added.keys].ints();
  const Column& created = added.rows.columns[added.keys + 1];
  const auto& position = added.rows.columns[added.keys + 2].ints();
  for (std::size_t row = begin; row < end; ++row) {
    out.event.push_back(event[row]);
    out.created.push_back(created.is_null(row) ? EventRows::kNoCreation : created.ints()[row]);
    out.sequence.push_back(sequence_of(added.commit, position[row]));
  }
  for (std::size_t i = 0; i < plan.columns.size(); ++i) {
    if (out.columns.size() == i) out.columns.emplace_back(plan.columns[i].type);
    const Column& from = *added.rows.find(plan.columns[i].name);
    for (std::size_t row = begin; row < end; ++row) out.columns[i].push_from(from, row);
  }
}

auto version(const EventRows& rows, std::uint32_t row) {
  return std::make_tuple(rows.event[row], rows.created[row], rows.sequence[row]);
}

// In order, each once.
std::vector<std::uint32_t> ordered(const EventRows& rows) {
  std::vector<std::uint32_t> out(rows.size());
  std::iota(out.begin(), out.end(), 0u);
  std::sort(out.begin(), out.end(),
            [&](auto a, auto b) { return version(rows, a) < version(rows, b); });
  out.erase(std::unique(out.begin(), out.end(),
                        [&](auto a, auto b) { return version(rows, a) == version(rows, b); }),
            out.end());
  return out;
}

// Where the events behind `time` begin.
std::size_t first_behind(const EventRows& rows, std::int64_t time) {
  return static_cast<std::size_t>(std::upper_bound(rows.event.begin(), rows.event.end(), time) -
                                  rows.event.begin());
}

std::vector<std::uint32_t> range(std::size_t begin, std::size_t end) {
  std::vector<std::uint32_t> out(end - begin);
  std::iota(out.begin(), out.end(), static_cast<std::uint32_t>(begin));
  return out;
}

}  // namespace

std::size_t EventIndex::Hash::operator()(std::string_view text) const { return hash64(text); }

EventIndex::EventIndex(WindowPlan plan, std::int64_t events_max)
    : plan_(std::move(plan)), events_max_(static_cast<std::size_t>(events_max)) {}

EventIndex::Shard& EventIndex::shard_of(std::string_view key) const {
  return shards_[hash64(key) >> 58];
}

void EventIndex::forget_until(Timestamp time) {
  if (time.nanos > complete_after_.load()) complete_after_.store(time.nanos);
}

std::shared_ptr<const KeyEvents> EventIndex::merged(const KeyEvents* before, const NewEvents& added,
                                                    std::size_t begin, std::size_t end) const {
  auto out =
      before == nullptr ? std::make_shared<KeyEvents>() : std::make_shared<KeyEvents>(*before);
  append(plan_, added, begin, end, out->rows);
  out->rows = taken(out->rows, ordered(out->rows));
  const std::vector<std::uint32_t> replaced =
      replaced_events(plan_, out->rows, 0, out->rows.size(), {added.settled, {}});
  if (!replaced.empty()) out->floor = std::max(out->floor, added.settled);
  std::vector<std::uint32_t> kept =
      range(first_behind(out->rows, complete_after_.load()), out->rows.size());
  std::erase_if(kept, [&](std::uint32_t row) {
    return std::binary_search(replaced.begin(), replaced.end(), row);
  });
  if (kept.size() > events_max_) {
    const auto cut = kept.end() - static_cast<std::ptrdiff_t>(events_max_);
    out->complete_after = std::max(out->complete_after, out->rows.event[*(cut - 1)]);
    kept.erase(kept.begin(), cut);
  }
  out->rows = taken(out->rows, kept);
  return out;
}

void EventIndex::put(const NewEvents& added) {
  // Before anything goes: who sees that something is gone sees this too.
  forget_until(oldest_needed(added.committed_at));
  if (added.rows.rows() == 0) return;
  std::vector<const Column*> key_columns;
  for (std::size_t i = 0; i < added.keys; ++i) key_columns.push_back(&added.rows.columns[i]);
  const KeyColumn keys(key_columns);
  for (std::size_t begin = 0; begin < added.rows.rows();) {
    std::size_t end = begin + 1;
    while (end < added.rows.rows() && keys[end] == keys[begin]) ++end;
    const std::string key(keys[begin]);
    const std::shared_ptr<const KeyEvents> before = find(key);
    std::shared_ptr<const KeyEvents> after = merged(before.get(), added, begin, end);
    Shard& shard = shard_of(key);
    const MutexLock lock(shard.mutex);
    shard.keys.insert_or_assign(key, std::move(after));
    begin = end;
  }
  // Keys that nobody adds to any more grow old too.
  const std::int64_t now = complete_after_.load();
  if ((Timestamp{now} - Duration{plan_.longest.nanos / 4}).nanos > swept_) {
    swept_ = now;
    sweep();
  }
}

void EventIndex::sweep() {
  const std::int64_t oldest = complete_after_.load();
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (auto it = shard.keys.begin(); it != shard.keys.end();) {
      const EventRows& rows = it->second->rows;
      const std::size_t first = first_behind(rows, oldest);
      if (first == rows.size() && it->second->complete_after <= oldest) {
        it = shard.keys.erase(it);
        continue;
      }
      if (first > rows.size() / 2) {
        auto fewer = std::make_shared<KeyEvents>();
        fewer->rows = taken(rows, range(first, rows.size()));
        fewer->complete_after = it->second->complete_after;
        fewer->floor = it->second->floor;
        it->second = std::move(fewer);
      }
      ++it;
    }
  }
}

bool EventIndex::erase(std::string_view key) {
  Shard& shard = shard_of(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.keys.find(key);
  if (found == shard.keys.end()) return false;
  shard.keys.erase(found);
  return true;
}

void EventIndex::clear() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.keys.clear();
  }
}

std::shared_ptr<const KeyEvents> EventIndex::find(std::string_view key) const {
  const Shard& shard = shard_of(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.keys.find(key);
  return found == shard.keys.end() ? nullptr : found->second;
}

table::Batch rows_behind(table::Batch rows, std::size_t keys, Timestamp time) {
  std::vector<std::uint32_t> behind;
  const auto& event = rows.columns[keys].ints();
  for (std::size_t row = 0; row < event.size(); ++row) {
    if (event[row] > time.nanos) behind.push_back(static_cast<std::uint32_t>(row));
  }
  return behind.size() == event.size() ? std::move(rows) : rows.take(behind);
}

std::shared_ptr<const OnlineWindows> pick_windows(const std::shared_ptr<const EventIndex>& index,
                                                  const FeatureView& view,
                                                  const std::vector<table::Field>& features) {
  if (index == nullptr) return nullptr;
  OnlineWindows out{index, index->plan(), {}};
  out.plan.items.clear();
  out.plan.longest = Duration{};
  for (std::size_t i = 0; i < features.size(); ++i) {
    const AggregatedFeature* feature = find_aggregated(view, features[i].name);
    if (feature == nullptr) continue;
    const auto number = static_cast<std::size_t>(feature - view.aggregated.data());
    out.plan.items.push_back(index->plan().items[number]);
    out.plan.longest = std::max(out.plan.longest, feature->aggregate.window);
    out.places.push_back(i);
  }
  if (out.places.empty()) return nullptr;
  return std::make_shared<const OnlineWindows>(std::move(out));
}

Status read_events(storage::SqlStore& sql, const storage::BlobStore& blobs,
                   const CommittedEvents& from, EventIndex& into) {
  std::vector<Segment> segments;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    segments = FALAJ_TRY(
        list_segments(tx, from.view.project, from.view.view, {0, from.up_to, Reach::kOnline}));
    return {};
  }));
  Timestamp latest = Timestamp::min();
  for (const Segment& segment : segments) latest = std::max(latest, segment.committed_at);
  const Timestamp oldest = into.oldest_needed(latest);
  for (const Segment& segment : segments) {
    if (segment.event_max <= oldest) continue;
    const table::Batch rows = rows_behind(
        FALAJ_TRY(read_segment(blobs, from.view, segment, from.schema)), from.keys, oldest);
    into.put({rows, from.keys, segment.commit, from.up_to, latest});
  }
  into.forget_until(oldest);
  return {};
}

namespace {

std::int64_t complete_of(const EventIndex& index, const KeyEvents* events) {
  return events == nullptr ? index.complete_after()
                           : std::max(index.complete_after(), events->complete_after);
}

}  // namespace

std::int64_t complete_after(const OnlineWindows& windows, std::string_view key) {
  const std::shared_ptr<const KeyEvents> events = windows.index->find(key);
  return complete_of(*windows.index, events.get());
}

bool read_windows(const OnlineWindows& windows, std::string_view key, std::uint64_t commit,
                  Timestamp now,
                  const std::function<void(std::size_t item, const expression::Cell&)>& put) {
  const std::shared_ptr<const KeyEvents> events = windows.index->find(key);
  if (events != nullptr && events->floor > commit) return false;
  const std::int64_t complete = complete_of(*windows.index, events.get());
  WindowReader reader(windows.plan);
  std::vector<std::uint32_t> counted;
  static const EventRows kNone;
  const EventRows& rows = events == nullptr ? kNone : events->rows;
  if (rows.size() > 0) {
    const std::size_t end = first_behind(rows, now.nanos);
    const Timestamp oldest = now - windows.plan.longest;
    const std::size_t begin =
        oldest == Timestamp::min() ? 0 : std::min(end, first_behind(rows, oldest.nanos));
    counted_events(windows.plan, rows, begin, end, {commit, {}}, counted);
    reader.begin(rows, counted);
    reader.move_to(now.nanos);
  }
  for (std::size_t i = 0; i < windows.plan.items.size(); ++i) {
    const Aggregate& aggregate = windows.plan.items[i].aggregate;
    if ((now - aggregate.window).nanos < complete) {
      put(i, {});  // It would have to know events that were let go.
    } else {
      put(i, rows.size() > 0 ? reader.value(i) : empty_window(aggregate));
    }
  }
  return true;
}

}  // namespace falaj::features
