// features/internal/windows.h — aggregates over windows of one key's events. Freezing and online
// reading both use this and nothing else, so that a value is the same to the bit in either.
//
//   events    rows of one key, time and event id are versions of one event: the one with the
//             largest (created, sequence) counts. Without an event id the time alone tells.
//   window    at − window < event time ≤ at. The view's ttl has no part in it.
//   nulls     are left out, of every function but count: "*".
//   empty     count and distinct are 0, everything else is null.
//
// No result depends on how the window came to where it stands. docs/reference/windows.md says it
// for users.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "expression/expression.h"
#include "features/definitions.h"
#include "table/batch.h"

namespace falaj::features {

// What the aggregates of a view need of an event, and which they are.
struct WindowPlan {
  struct Item {
    Aggregate aggregate;
    std::size_t column = 0;  // Of `columns`; of no meaning for count: "*".
  };
  std::vector<table::Field> columns;  // The event id first if there is one, each once.
  bool has_id = false;
  std::vector<Item> items;
  Duration longest{};
};
WindowPlan plan_windows(const std::optional<table::Field>& event_id,
                        std::span<const Aggregate> aggregates);

// Events by (event, created, sequence), ascending; those of one key side by side.
struct EventRows {
  std::vector<std::int64_t> event;
  std::vector<std::int64_t> created;  // kNoCreation when there is none.
  std::vector<std::uint64_t> sequence;
  std::vector<table::Column> columns;  // Of the plan.

  static constexpr std::int64_t kNoCreation = std::numeric_limits<std::int64_t>::min();
  std::size_t size() const { return event.size(); }
};

// Which versions are there at all.
struct KnownEvents {
  std::uint64_t commit = std::numeric_limits<std::uint64_t>::max();  // Not those of later ones.
  std::optional<std::int64_t> created_by{};  // Created until then; none without a creation time.
};

// The rows of [begin, end), of one key, that count, ascending.
void counted_events(const WindowPlan& plan, const EventRows& rows, std::size_t begin,
                    std::size_t end, const KnownEvents& known, std::vector<std::uint32_t>& out);
// The rows of [begin, end), all of one key, that a later version replaces; ascending.
std::vector<std::uint32_t> replaced_events(const WindowPlan& plan, const EventRows& rows,
                                           std::size_t begin, std::size_t end,
                                           const KnownEvents& known);

// Answers for one key after the other, for each at ascending times. One thread; the plan outlives
// it. Cost: each event comes into each window and leaves it once, unless both would be between two
// answers; var and quantile look at all values of theirs for every answer.
class WindowReader {
 public:
  explicit WindowReader(const WindowPlan& plan);
  ~WindowReader();

  // The next key. Both live until the next begin().
  void begin(const EventRows& rows, std::span<const std::uint32_t> counted);
  void move_to(std::int64_t at);
  // Of plan.items[item]. A text points into the rows.
  expression::Cell value(std::size_t item);

 private:
  struct Running;  // One item's window, or that of several.
  struct Item {
    std::size_t running;
    AggregateFunction function;
  };
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<Item> items_;  // Of the plan.
};

// What an item is where there are no events: 0 or null.
expression::Cell empty_window(const Aggregate& aggregate);

}  // namespace falaj::features
