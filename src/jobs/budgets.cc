#include "jobs/budgets.h"

#include <array>
#include <chrono>
#include <cmath>

namespace falaj::jobs {
namespace {

constexpr double kMost = 1e9;
constexpr std::size_t kEntriesMost = 16;

struct Limit {
  const char* name;
  scheduler::AllowanceKind kind;
  double units;  // Of the budget, in one as people write it.
};
constexpr std::array<Limit, 3> kLimits{
    {{"gpu_hours", scheduler::AllowanceKind::kGpuSeconds, 3600.0 * 1000},
     {"money", scheduler::AllowanceKind::kMoney, 1e6},
     {"kwh", scheduler::AllowanceKind::kEnergy, 3.6e6}}};

Status decode_budget(const Value& value, const std::string& where, std::vector<QueueBudget>& out) {
  Fields fields(value, where);
  const std::string per = FALAJ_TRY(fields.choice("per", {"month", "week", "day"}));
  const Per window = per == "day" ? Per::kDay : per == "week" ? Per::kWeek : Per::kMonth;
  const std::size_t before = out.size();
  for (const Limit& limit : kLimits) {
    if (fields.any(limit.name).is_null()) continue;
    const double amount = FALAJ_TRY(fields.number(limit.name, 0));
    if (!(amount >= 0 && amount <= kMost)) {
      return Error(ErrorId::kOutOfRange,
                   where + ": '" + limit.name + "' is within 0 and 1000000000");
    }
    out.push_back({window, limit.kind, std::llround(amount * limit.units)});
  }
  FALAJ_TRY(fields.finish());
  if (out.size() > before) return {};
  return Error(ErrorId::kInvalidArgument,
               where + " limits nothing: say gpu_hours, money or kwh, and per day, week or month");
}

}  // namespace

Window window_of(Per per, Timestamp now) {
  using std::chrono::days;
  using std::chrono::sys_days;
  const auto today = std::chrono::floor<days>(
      std::chrono::sys_time<std::chrono::nanoseconds>(std::chrono::nanoseconds(now.nanos)));
  const auto at = [](sys_days day) {
    return Timestamp::from_seconds(std::int64_t{day.time_since_epoch().count()} * 86'400);
  };
  switch (per) {
    case Per::kDay:
      return {at(today), at(today + days(1))};
    case Per::kWeek: {
      const sys_days monday = today - (std::chrono::weekday(today) - std::chrono::Monday);
      return {at(monday), at(monday + days(7))};
    }
    case Per::kMonth:
      break;
  }
  const std::chrono::year_month_day date(today);
  const auto first = date.year() / date.month() / 1;
  return {at(sys_days(first)), at(sys_days(first + std::chrono::months(1)))};
}

Result<std::vector<QueueBudget>> decode_budgets(Fields& fields) {
  const Value::Array entries = FALAJ_TRY(fields.list("budgets"));
  if (entries.size() > kEntriesMost) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": at most 16 budgets");
  }
  std::vector<QueueBudget> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    FALAJ_TRY(
        decode_budget(entries[i], fields.where() + " budgets[" + std::to_string(i) + "]", out));
  }
  return out;
}

}  // namespace falaj::jobs
