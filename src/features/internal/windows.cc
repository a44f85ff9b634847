#include "features/internal/windows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "features/internal/exact_sum.h"
#include "features/internal/segments.h"
#include "features/internal/view_index.h"

namespace falaj::features {
namespace {

using enum AggregateFunction;
using expression::Cell;
using table::Column;
using table::Type;

__extension__ using Wide = __int128;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Cell of_integer(std::int64_t value) { return {false, value, 0, {}}; }
Cell of_number(double value) { return {false, 0, std::isnan(value) ? kNan : value, {}}; }

double number_at(const Column& column, std::uint32_t row) {
  return column.type() == Type::kFloat64 ? column.doubles()[row]
                                         : static_cast<double>(column.ints()[row]);
}

Cell cell_at(const Column& column, std::uint32_t row) {
  Cell out;
  out.is_null = false;
  switch (column.type()) {
    case Type::kFloat64:
      out.number = column.doubles()[row];
      break;
    case Type::kString:
      out.text = column.strings()[row];
      break;
    case Type::kBool:
      out.integer = column.bools()[row];
      break;
    case Type::kInt64:
    case Type::kTimestamp:
      out.integer = column.ints()[row];
  }
  return out;
}

// Equal values, equal words: both zeros are one, and so are all NaNs. Not for texts.
std::uint64_t value_word(const Column& column, std::uint32_t row) {
  if (column.type() != Type::kFloat64) return word_of(column, row);
  const double value = column.doubles()[row];
  if (std::isnan(value)) return std::bit_cast<std::uint64_t>(kNan);
  return std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
}

// The ids of two events: <0, 0, >0. No id is before all others.
int compare_ids(const Column& ids, std::uint32_t a, std::uint32_t b) {
  if (ids.is_null(a) || ids.is_null(b)) return (ids.is_null(b) ? 1 : 0) - (ids.is_null(a) ? 1 : 0);
  if (ids.type() == Type::kString) return ids.strings()[a].compare(ids.strings()[b]);
  const std::int64_t x = ids.ints()[a];
  const std::int64_t y = ids.ints()[b];
  return x < y ? -1 : x > y ? 1 : 0;
}

bool is_known(const EventRows& rows, std::size_t row, const KnownEvents& known) {
  if (commit_of(rows.sequence[row]) > known.commit) return false;
  if (!known.created_by) return true;
  return rows.created[row] != EventRows::kNoCreation && rows.created[row] <= *known.created_by;
}

// Calls newest(rows) with the known rows of each time that count.
template <class Newest>
void for_each_time(const WindowPlan& plan, const EventRows& rows, std::size_t begin,
                   std::size_t end, const KnownEvents& known, Newest newest) {
  std::vector<std::uint32_t> same;
  for (std::size_t i = begin; i < end;) {
    const std::int64_t time = rows.event[i];
    same.clear();
    for (; i < end && rows.event[i] == time; ++i) {
      if (is_known(rows, i, known)) same.push_back(static_cast<std::uint32_t>(i));
    }
    if (same.size() > 1 && !plan.has_id) same.erase(same.begin(), same.end() - 1);
    if (same.size() > 1) {
      const Column& ids = rows.columns.front();
      std::sort(same.begin(), same.end(), [&](std::uint32_t a, std::uint32_t b) {
        const int order = compare_ids(ids, a, b);
        return order != 0 ? order < 0 : a > b;  // The newest of each first.
      });
      same.erase(std::unique(same.begin(), same.end(),
                             [&](auto a, auto b) { return compare_ids(ids, a, b) == 0; }),
                 same.end());
      std::sort(same.begin(), same.end());
    }
    newest(same);
  }
}

}  // namespace

WindowPlan plan_windows(const std::optional<table::Field>& event_id,
                        std::span<const Aggregate> aggregates) {
  WindowPlan out;
  out.has_id = event_id.has_value();
  if (event_id) out.columns.push_back(*event_id);
  for (const Aggregate& aggregate : aggregates) {
    out.longest = std::max(out.longest, aggregate.window);
    WindowPlan::Item item{aggregate, 0};
    if (!aggregate.of.name.empty()) {
      const auto found = std::find(out.columns.begin(), out.columns.end(), aggregate.of);
      item.column = static_cast<std::size_t>(found - out.columns.begin());
      if (found == out.columns.end()) out.columns.push_back(aggregate.of);
    }
    out.items.push_back(std::move(item));
  }
  return out;
}

void counted_events(const WindowPlan& plan, const EventRows& rows, std::size_t begin,
                    std::size_t end, const KnownEvents& known, std::vector<std::uint32_t>& out) {
  out.clear();
  for_each_time(plan, rows, begin, end, known, [&](const std::vector<std::uint32_t>& newest) {
    out.insert(out.end(), newest.begin(), newest.end());
  });
}

std::vector<std::uint32_t> replaced_events(const WindowPlan& plan, const EventRows& rows,
                                           std::size_t begin, std::size_t end,
                                           const KnownEvents& known) {
  std::vector<std::uint32_t> counted;
  counted_events(plan, rows, begin, end, known, counted);
  std::vector<std::uint32_t> out;
  for (std::size_t row = begin, next = 0; row < end; ++row) {
    const bool counts = next < counted.size() && counted[next] == row;
    if (counts) ++next;
    if (!counts && is_known(rows, row, known)) out.push_back(static_cast<std::uint32_t>(row));
  }
  return out;
}

Cell empty_window(const Aggregate& aggregate) {
  const bool counts = aggregate.function == kCount || aggregate.function == kDistinct;
  return counts ? of_integer(0) : Cell();
}

struct WindowReader::Running {
  const Aggregate aggregate;
  const std::size_t column_number;
  const EventRows* rows = nullptr;
  const Column* column = nullptr;      // Null for count: "*".
  const double* doubles = nullptr;     // Its values, if they are such.
  const std::int64_t* ints = nullptr;  //
  std::span<const std::uint32_t> counted{};
  std::size_t low = 0;   // Of `counted`: the window is [low, high).
  std::size_t high = 0;  //
  std::int64_t values = 0;
  ExactSum numbers{};
  Wide integers = 0;
  std::int64_t nans = 0;
  // Rows that may be the answer, or that are all looked at, from `head` on.
  std::vector<std::uint32_t> line{};
  std::size_t head = 0;
  std::unordered_map<std::uint64_t, std::int64_t> words{};
  std::unordered_map<std::string_view, std::int64_t> texts{};
  std::vector<double> scratch{};

  void begin(const EventRows& events, std::span<const std::uint32_t> which) {
    rows = &events;
    column = aggregate.of.name.empty() ? nullptr : &events.columns[column_number];
    const bool is_double = column != nullptr && column->type() == Type::kFloat64;
    const bool is_int =
        column != nullptr && (column->type() == Type::kInt64 || column->type() == Type::kTimestamp);
    doubles = is_double ? column->doubles().data() : nullptr;
    ints = is_int ? column->ints().data() : nullptr;
    counted = which;
    low = high = 0;
    empty();
  }

  // Nothing is in the window.
  void empty() {
    head = 0;
    values = nans = 0;
    integers = 0;
    numbers.clear();
    line.clear();
    words.clear();
    texts.clear();
  }

  void move_to(std::int64_t at) {
    const std::int64_t after = (Timestamp{at} - aggregate.window).nanos;
    // A window that is longer than time itself begins with it.
    const bool all = at < std::numeric_limits<std::int64_t>::min() + aggregate.window.nanos;
    // What came and went since the last answer, which is most of the events of a short window, is
    // passed over.
    if (!all && high < counted.size() && rows->event[counted[high]] <= after) {
      const auto first =
          std::partition_point(counted.begin() + static_cast<std::ptrdiff_t>(high), counted.end(),
                               [&](std::uint32_t row) { return rows->event[row] <= after; });
      if (high > low) empty();
      low = high = static_cast<std::size_t>(first - counted.begin());
    }
    for (; high < counted.size() && rows->event[counted[high]] <= at; ++high) {
      if (column == nullptr || !column->is_null(counted[high])) come(counted[high]);
    }
    for (; !all && low < high && rows->event[counted[low]] <= after; ++low) {
      if (column == nullptr || !column->is_null(counted[low])) leave(counted[low]);
    }
  }

  bool is_nan(std::uint32_t row) const { return doubles != nullptr && std::isnan(doubles[row]); }

  // Whether `a` is a better answer than `b`; of equals the older stays.
  bool beats(std::uint32_t a, std::uint32_t b) const {
    if (aggregate.function == kMax) std::swap(a, b);
    return doubles != nullptr ? doubles[a] < doubles[b] : ints[a] < ints[b];
  }

  void sum_up(std::uint32_t row, std::int64_t sign) {
    if (doubles == nullptr) {
      integers += sign * Wide{ints[row]};
    } else if (sign > 0) {
      numbers.add(doubles[row]);
    } else {
      numbers.remove(doubles[row]);
    }
  }

  void come(std::uint32_t row) {
    ++values;
    switch (aggregate.function) {
      case kCount:
        return;
      case kVar:
        line.push_back(row);
        [[fallthrough]];
      case kSum:
      case kMean:
        return sum_up(row, 1);
      case kMin:
      case kMax:
        if (is_nan(row)) {
          ++nans;
          return;
        }
        while (line.size() > head && beats(row, line.back())) line.pop_back();
        line.push_back(row);
        return;
      case kDistinct:
        ++(column->type() == Type::kString ? texts[column->strings()[row]]
                                           : words[value_word(*column, row)]);
        return;
      case kFirst:
      case kLast:
      case kQuantile:
        line.push_back(row);
    }
  }

  void leave(std::uint32_t row) {
    --values;
    switch (aggregate.function) {
      case kVar:
        ++head;
        [[fallthrough]];
      case kSum:
      case kMean:
        return sum_up(row, -1);
      case kMin:
      case kMax:
        if (is_nan(row)) {
          --nans;
        } else if (line[head] == row) {
          ++head;
        }
        return;
      case kDistinct:
        if (column->type() == Type::kString) {
          const auto found = texts.find(column->strings()[row]);
          if (--found->second == 0) texts.erase(found);
        } else {
          const auto found = words.find(value_word(*column, row));
          if (--found->second == 0) words.erase(found);
        }
        return;
      case kFirst:
      case kLast:
      case kQuantile:
        ++head;
        return;
      case kCount:
        return;
    }
  }

  double total() const {
    return column->type() == Type::kFloat64 ? numbers.rounded() : static_cast<double>(integers);
  }
  double mean() const { return total() / static_cast<double>(values); }

  Cell sum() const {
    if (column->type() == Type::kFloat64) return of_number(numbers.rounded());
    constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
    constexpr Wide kLeast = std::numeric_limits<std::int64_t>::min();
    if (integers > kMost || integers < kLeast) return {};
    return of_integer(static_cast<std::int64_t>(integers));
  }

  Cell var() const {
    if (values < 2) return {};
    const double middle = mean();
    double squares = 0;
    for (std::size_t i = head; i < line.size(); ++i) {
      const double off = number_at(*column, line[i]) - middle;
      squares += off * off;
    }
    return of_number(squares / static_cast<double>(values - 1));
  }

  Cell quantile() {
    scratch.clear();
    for (std::size_t i = head; i < line.size(); ++i) {
      scratch.push_back(number_at(*column, line[i]));
      if (std::isnan(scratch.back())) return of_number(kNan);
    }
    const double place = static_cast<double>(scratch.size() - 1) * aggregate.q;
    const double whole = std::floor(place);
    const auto below = scratch.begin() + static_cast<std::ptrdiff_t>(whole);
    std::nth_element(scratch.begin(), below, scratch.end());
    // Both zeros are one: which of them stands here would be an accident.
    const double from = *below == 0 ? 0.0 : *below;
    if (place == whole || below + 1 == scratch.end()) return of_number(from);
    const double to = *std::min_element(below + 1, scratch.end());
    return of_number(to == from ? from : from + (to - from) * (place - whole));
  }

  // `function` is the aggregate's own or one that it is kept for as well.
  Cell value(AggregateFunction function) {
    if (function == kCount) return of_integer(values);
    if (values == 0) return empty_window(aggregate);
    switch (function) {
      case kSum:
        return sum();
      case kMean:
        return of_number(mean());
      case kVar:
        return var();
      case kMin:
      case kMax:
        return nans > 0 ? of_number(kNan) : cell_at(*column, line[head]);
      case kFirst:
        return cell_at(*column, line[head]);
      case kLast:
        return cell_at(*column, line.back());
      case kDistinct:
        return of_integer(static_cast<std::int64_t>(words.size() + texts.size()));
      case kQuantile:
      case kCount:
        break;
    }
    return quantile();
  }
};

WindowReader::WindowReader(const WindowPlan& plan) {
  const auto is_sum = [](const Aggregate& aggregate) {
    return aggregate.function == kSum || aggregate.function == kMean;
  };
  for (const WindowPlan::Item& item : plan.items) {
    // A sum and a mean of the same are kept once.
    const auto same = std::find_if(running_.begin(), running_.end(), [&](const auto& each) {
      return is_sum(item.aggregate) && is_sum(each->aggregate) &&
             each->column_number == item.column && each->aggregate.window == item.aggregate.window;
    });
    items_.push_back({static_cast<std::size_t>(same - running_.begin()), item.aggregate.function});
    if (same != running_.end()) continue;
    running_.push_back(std::unique_ptr<Running>(new Running{item.aggregate, item.column}));
  }
}

WindowReader::~WindowReader() = default;

void WindowReader::begin(const EventRows& rows, std::span<const std::uint32_t> counted) {
  for (const auto& each : running_) each->begin(rows, counted);
}

void WindowReader::move_to(std::int64_t at) {
  for (const auto& each : running_) each->move_to(at);
}

Cell WindowReader::value(std::size_t item) {
  return running_[items_[item].running]->value(items_[item].function);
}

}  // namespace falaj::features
