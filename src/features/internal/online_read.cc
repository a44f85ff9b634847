#include "features/internal/online_read.h"

#include <algorithm>

namespace falaj::features {
namespace {

// Both bounds are inclusive, as in the point-in-time join.
bool is_old(const OnlinePlan::View& view, const RowView& row, const OnlineAsk& ask) {
  const Timestamp event{row.event()};
  return (view.ttl > Duration{} && event < ask.now - view.ttl) ||
         (ask.max_age > Duration{} && event < ask.now - ask.max_age);
}

FeatureStatus status_of(const RowView& row, std::uint32_t field, bool old) {
  if (old) return FeatureStatus::kOutsideMaxAge;
  return row.is_null(field) ? FeatureStatus::kNullValue : FeatureStatus::kPresent;
}

}  // namespace

std::string_view status_name(FeatureStatus status) {
  switch (status) {
    case FeatureStatus::kPresent:
      return "PRESENT";
    case FeatureStatus::kNullValue:
      return "NULL_VALUE";
    case FeatureStatus::kNotFound:
      return "NOT_FOUND";
    case FeatureStatus::kOutsideMaxAge:
      break;
  }
  return "OUTSIDE_MAX_AGE";
}

Status append_keys(const OnlinePlan& plan, const EntityKeys& entity, std::vector<KeyPart>& out) {
  for (const table::Field& wanted : plan.keys) {
    const auto found = std::find_if(entity.begin(), entity.end(),
                                    [&](const auto& key) { return key.first == wanted.name; });
    if (found == entity.end()) {
      return Error(ErrorId::kEntityKeyMissing, "key '" + wanted.name + "' is missing");
    }
    const bool text = std::holds_alternative<std::string>(found->second);
    if (text != (wanted.type == table::Type::kString)) {
      return Error(ErrorId::kWrongType, "key '" + wanted.name + "' must be " +
                                            (text ? "an integer, not a text" : "a text"));
    }
    out.push_back(found->second);
  }
  return {};
}

void fill_numbers(const OnlinePlan& plan, const OnlinePlan::View& view, std::size_t column,
                  const RowView& row, Timestamp now, OnlineRow& out) {
  const bool old = is_old(view, row, {now, {}});
  if (!old) out.oldest_event = std::min(out.oldest_event, Timestamp{row.event()});
  for (const std::uint32_t field : view.fields) {
    const bool window = field == OnlinePlan::View::kWindow;
    if (!window) out.statuses[column] = status_of(row, field, old);
    if (!window && out.statuses[column] == FeatureStatus::kPresent) {
      out.numbers[column] = number_of(plan.columns[column].type, row.word(field));
    }
    ++column;
  }
}

void fill_window(const OnlinePlan& plan, std::size_t column, const expression::Cell& cell,
                 OnlineRow& out) {
  out.statuses[column] = cell.is_null ? FeatureStatus::kNullValue : FeatureStatus::kPresent;
  if (cell.is_null) return;
  const table::Type type = plan.columns[column].type;
  const std::uint64_t word = type == table::Type::kFloat64
                                 ? std::bit_cast<std::uint64_t>(cell.number)
                                 : static_cast<std::uint64_t>(cell.integer);
  out.numbers[column] = number_of(type, word);
}

void fill_answer(const OnlinePlan& plan, const OnlinePlan::View& view, std::size_t column,
                 const RowView& row, const OnlineAsk& ask, std::size_t at, OnlineAnswer& out) {
  const auto place = static_cast<std::size_t>(&view - plan.views.data());
  out.events[at * out.views + place] = Timestamp{row.event()};
  const bool old = is_old(view, row, ask);
  for (const std::uint32_t field : view.fields) {
    const std::size_t cell = at * out.columns + column;
    const bool window = field == OnlinePlan::View::kWindow;
    if (!window) out.statuses[cell] = status_of(row, field, old);
    if (!window && out.statuses[cell] == FeatureStatus::kPresent) {
      if (plan.columns[column].type == table::Type::kString) {
        out.words[cell] = out.add_text(row.text(field));
      } else {
        out.words[cell] = row.word(field);
      }
    }
    ++column;
  }
}

}  // namespace falaj::features
