#include "features/internal/online_computed.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "features/internal/view_index.h"

namespace falaj::features {
namespace {

using expression::Cell;
using table::Type;

Cell cell_of(const OnlineAnswer& answer, Type type, std::size_t place) {
  Cell out;
  if (answer.statuses[place] != FeatureStatus::kPresent) return out;
  const std::uint64_t word = answer.words[place];
  out.is_null = false;
  if (type == Type::kFloat64) {
    out.number = std::bit_cast<double>(word);
  } else if (type == Type::kString) {
    out.text = answer.text(word);
  } else {
    out.integer = static_cast<std::int64_t>(word);
  }
  return out;
}

Cell cell_of(const KeyPart& key) {
  Cell out;
  out.is_null = false;
  if (const auto* number = std::get_if<std::int64_t>(&key)) {
    out.integer = *number;
  } else {
    out.text = std::get<std::string>(key);
  }
  return out;
}

// Memory for one row; used again, so that a read allocates nothing once it is warm.
struct Room {
  std::vector<Cell> slots;
  std::vector<Cell> inputs;
  std::vector<expression::Scratch> scratch;  // One each: a text lives in it until the next row.
};

void fill_slots(const ServiceLayout& layout, std::span<const KeyPart> keys, Timestamp now,
                const OnlineAnswer& read, std::size_t row, Room& room) {
  room.slots.clear();
  for (std::size_t i = 0; i < layout.reads.size(); ++i) {
    room.slots.push_back(cell_of(read, layout.reads[i].type, row * read.columns + i));
  }
  for (const KeyPart& key : keys) room.slots.push_back(cell_of(key));
  room.slots.push_back({false, now.nanos, 0, {}});
  for (std::size_t i = 0; i < layout.computed.size(); ++i) {
    room.inputs.clear();
    for (const std::size_t slot : layout.computed[i].inputs) {
      room.inputs.push_back(room.slots[slot]);
    }
    room.slots.push_back(layout.computed[i].expression.evaluate(room.inputs, room.scratch[i]));
  }
}

}  // namespace

void put_cell(const Cell& cell, Type type, std::size_t place, OnlineAnswer& out) {
  out.statuses[place] = cell.is_null ? FeatureStatus::kNullValue : FeatureStatus::kPresent;
  if (cell.is_null) return;
  if (type == Type::kFloat64) {
    out.words[place] = std::bit_cast<std::uint64_t>(cell.number);
  } else if (type == Type::kString) {
    out.words[place] = out.add_text(cell.text);
  } else {
    out.words[place] = static_cast<std::uint64_t>(cell.integer);
  }
}

OnlinePlan with_columns(OnlinePlan reads, ServiceLayout layout) {
  std::vector<std::size_t> sources = reads.sources;  // Of slots; keys and the time have none.
  sources.resize(layout.first_computed(), 0);
  for (const ComputedColumn& each : layout.computed) {
    const auto first = std::find_if(each.inputs.begin(), each.inputs.end(), [&](std::size_t slot) {
      return slot < layout.reads.size() || slot >= layout.first_computed();
    });
    sources.push_back(first == each.inputs.end() ? 0 : sources[*first]);
  }
  OnlinePlan out = reads;
  out.columns.clear();
  out.sources.clear();
  for (const ServiceColumn& column : layout.columns) {
    out.columns.push_back(column.field);
    out.full_names.push_back(column.full_name);
    out.sources.push_back(sources[column.slot]);
  }
  // Without anything to compute, what is read is what is handed out, in the same order.
  if (layout.computed.empty()) return out;
  out.computed =
      std::make_shared<const OnlineComputed>(OnlineComputed{std::move(reads), std::move(layout)});
  return out;
}

void compute(const OnlineComputed& computed, std::span<const KeyPart> keys, Timestamp now,
             const OnlineAnswer& read, OnlineAnswer& out) {
  const ServiceLayout& layout = computed.layout;
  thread_local Room room;
  if (room.scratch.size() < layout.computed.size()) room.scratch.resize(layout.computed.size());
  const std::size_t rows = keys.size() / layout.keys.size();
  out.commit = read.commit;
  out.columns = layout.columns.size();
  out.views = read.views;
  out.events = read.events;
  out.texts.clear();
  out.too_large = read.too_large;
  out.failed = read.failed;
  out.statuses.assign(rows * out.columns, FeatureStatus::kNotFound);
  out.words.assign(rows * out.columns, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto of_row = keys.subspan(row * layout.keys.size(), layout.keys.size());
    fill_slots(layout, of_row, now, read, row, room);
    for (std::size_t i = 0; i < layout.columns.size(); ++i) {
      const ServiceColumn& column = layout.columns[i];
      const std::size_t place = row * out.columns + i;
      put_cell(room.slots[column.slot], column.field.type, place, out);
      if (layout.is_computed(column)) continue;
      out.statuses[place] = read.statuses[row * read.columns + column.slot];
    }
  }
}

void to_numbers(const OnlinePlan& plan, Timestamp now, const OnlineAnswer& answer, OnlineRow& out) {
  out.numbers.assign(answer.columns, std::numeric_limits<double>::quiet_NaN());
  out.statuses = answer.statuses;
  out.commit = answer.commit;
  out.too_large = answer.too_large;
  out.failed = answer.failed;
  out.oldest_event = Timestamp::max();
  for (std::size_t i = 0; i < answer.columns; ++i) {
    if (answer.statuses[i] != FeatureStatus::kPresent) continue;
    out.numbers[i] = number_of(plan.columns[i].type, answer.words[i]);
  }
  for (std::size_t i = 0; i < answer.views; ++i) {
    const Timestamp event = answer.events[i];
    const Duration ttl = plan.views[i].ttl;
    const bool old = ttl > Duration{} && event < now - ttl;
    if (event != Timestamp::min() && !old) out.oldest_event = std::min(out.oldest_event, event);
  }
}

}  // namespace falaj::features
