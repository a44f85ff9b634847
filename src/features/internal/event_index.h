// features/internal/event_index.h — the recent events of one view's keys, in memory, for windows.
//
// Segments are the durable copy: at start the events of the longest window are read from them. Of
// each key at most `events_max` are kept, the newest. What was let go is remembered by its time: a
// window that reaches that far back is null, never a smaller number.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "features/internal/segments.h"
#include "features/internal/windows.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::features {

// The events of one key. Immutable; freed when the last reader lets it go.
struct KeyEvents {
  EventRows rows;
  // No event of that time or before need be here.
  std::int64_t complete_after = std::numeric_limits<std::int64_t>::min();
  std::uint64_t floor = 0;  // A read at an earlier commit would miss versions: read at a later one.
};

// The rows of one commit.
struct NewEvents {
  const table::Batch& rows;  // Of a segment schema, in segment order.
  std::size_t keys = 0;      // Of its columns.
  std::uint64_t commit = 0;
  std::uint64_t settled = 0;  // Nobody begins to read at a commit before this one.
  Timestamp committed_at{};
};

// Readers are many, of any thread; one writer.
class EventIndex {
 public:
  // Events of so much longer than the longest window are kept, for readers whose clocks are behind.
  static constexpr Duration kClockSlack = Duration::hours(1);

  // `plan` has all aggregates of the view.
  EventIndex(WindowPlan plan, std::int64_t events_max);

  const WindowPlan& plan() const { return plan_; }
  // Rows whose event is not behind this are not needed at that time.
  Timestamp oldest_needed(Timestamp now) const { return now - plan_.longest - kClockSlack; }
  // Nothing older will be brought.
  void forget_until(Timestamp time);

  // Rows that are there already change nothing; those that are not needed at committed_at need not
  // be among them. Cost: copies the events of the keys that it adds
  // to.
  void put(const NewEvents& added);
  bool erase(std::string_view key);
  void clear();

  // Null when the key has none.
  std::shared_ptr<const KeyEvents> find(std::string_view key) const;
  // After find(): no event of that time or before need be there, of any key.
  std::int64_t complete_after() const { return complete_after_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kShards = 64;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };
  using Map =
      std::unordered_map<std::string, std::shared_ptr<const KeyEvents>, Hash, std::equal_to<>>;
  struct Shard {
    mutable Mutex mutex;
    Map keys FALAJ_GUARDED_BY(mutex);
  };
  Shard& shard_of(std::string_view key) const;
  // The key's events with rows [begin, end) of `added`, without those that no reader needs.
  std::shared_ptr<const KeyEvents> merged(const KeyEvents* before, const NewEvents& added,
                                          std::size_t begin, std::size_t end) const;
  void sweep();

  const WindowPlan plan_;
  const std::size_t events_max_;
  std::atomic<std::int64_t> complete_after_{std::numeric_limits<std::int64_t>::min()};
  std::int64_t swept_ = std::numeric_limits<std::int64_t>::min();
  mutable std::array<Shard, kShards> shards_;
};

// A window feature of a service, read online.
struct OnlineWindows {
  std::shared_ptr<const EventIndex> index;
  WindowPlan plan;                  // The index's, with only those items that are wanted.
  std::vector<std::size_t> places;  // Of the items among the view's features.
};

// The rows of a segment schema whose event is later than `time`, in their order.
table::Batch rows_behind(table::Batch rows, std::size_t keys, Timestamp time);

// Of these features of the view, those over windows; null when there are none.
std::shared_ptr<const OnlineWindows> pick_windows(const std::shared_ptr<const EventIndex>& index,
                                                  const FeatureView& view,
                                                  const std::vector<table::Field>& features);

// The committed events of a view, as far back as a window may reach. FJ-3004 for a damaged segment.
struct CommittedEvents {
  ViewName view;
  const table::Schema& schema;
  std::size_t keys = 0;
  std::uint64_t up_to = 0;
};
Status read_events(storage::SqlStore& sql, const storage::BlobStore& blobs,
                   const CommittedEvents& from, EventIndex& into);

// No event of that time or before need be there of this key.
std::int64_t complete_after(const OnlineWindows& windows, std::string_view key);

// Calls put(item, cell) for each item of windows.plan. False when that commit is gone.
bool read_windows(const OnlineWindows& windows, std::string_view key, std::uint64_t commit,
                  Timestamp now,
                  const std::function<void(std::size_t item, const expression::Cell&)>& put);

}  // namespace falaj::features
