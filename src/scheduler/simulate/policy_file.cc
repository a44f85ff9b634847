#include "scheduler/simulate/policy_file.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/decode.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int64_t kWeightMax = 1'000'000;

// Each weight of the order with its name.
constexpr std::array<std::pair<const char*, std::int64_t OrderWeights::*>, 8> kWeights{
    {{"p50", &OrderWeights::p50},
     {"p90", &OrderWeights::p90},
     {"size", &OrderWeights::size},
     {"attained", &OrderWeights::attained},
     {"share", &OrderWeights::share},
     {"age", &OrderWeights::age},
     {"points_per_hour", &OrderWeights::points_per_hour},
     {"age_cap", &OrderWeights::age_cap}}};

Status decode_order(const Value& value, OrderWeights& order) {
  Fields fields(value, "SchedulingPolicy order");
  for (const auto& [name, member] : kWeights) {
    order.*member = FALAJ_TRY(fields.integer(name, order.*member, -kWeightMax, kWeightMax));
  }
  order.deadline_slack = FALAJ_TRY(fields.duration("deadline_slack", order.deadline_slack));
  return fields.finish();
}

Result<Scope> decode_scope(Fields& fields, std::string_view key, Scope fallback) {
  constexpr std::array<std::pair<std::string_view, Scope>, 4> kScopes{
      {{"never", Scope::kNever},
       {"queue", Scope::kQueue},
       {"cohort", Scope::kCohort},
       {"cluster", Scope::kCluster}}};
  const std::string text = FALAJ_TRY(fields.text(key));
  if (text.empty()) return fallback;
  for (const auto& [name, scope] : kScopes) {
    if (text == name) return scope;
  }
  return Error{ErrorId::kWrongType, fields.where() + ": " + std::string(key) + " is '" + text +
                                        "', not never, queue, cohort or cluster"};
}

Status decode_preemption(const Value& value, Preemption& out) {
  Fields fields(value, "SchedulingPolicy preemption");
  out.order = FALAJ_TRY(decode_scope(fields, "order", out.order));
  out.priority = FALAJ_TRY(decode_scope(fields, "priority", out.priority));
  out.margin = FALAJ_TRY(fields.integer("margin", out.margin, 0, kWeightMax));
  out.score_weight =
      FALAJ_TRY(fields.integer("score_weight", out.score_weight, -kWeightMax, kWeightMax));
  out.min_run = FALAJ_TRY(fields.duration("min_run", out.min_run));
  return fields.finish();
}

Result<TenantQueue> decode_queue(const Value& value, const std::string& where) {
  Fields fields(value, where);
  TenantQueue queue;
  constexpr std::int64_t kGpusMax = 10'000'000;
  queue.tenant = FALAJ_TRY(fields.required_text("tenant"));
  const double weight = FALAJ_TRY(fields.number("weight", 1));
  if (!(weight >= 0.001 && weight <= 1000)) {
    return Error{ErrorId::kOutOfRange, where + ": weight is not in [0.001, 1000]"};
  }
  queue.weight = static_cast<std::int64_t>(weight * 1000);
  queue.nominal_gpus = FALAJ_TRY(fields.integer("nominal_gpus", 0, 0, kGpusMax));
  queue.borrow_gpus = FALAJ_TRY(fields.integer("borrow_gpus", -1, -1, kGpusMax));
  queue.lend_gpus = FALAJ_TRY(fields.integer("lend_gpus", -1, -1, kGpusMax));
  FALAJ_TRY(fields.finish());
  return queue;
}

Status decode_rails(const Value& value, GuardRails& rails) {
  Fields fields(value, "SchedulingPolicy guard_rails");
  rails.jct_worse_by = FALAJ_TRY(fields.share("jct_worse_by", rails.jct_worse_by));
  rails.tenant_jct_worse_by =
      FALAJ_TRY(fields.share("tenant_jct_worse_by", rails.tenant_jct_worse_by));
  rails.tenant_wait_worse_by =
      FALAJ_TRY(fields.share("tenant_wait_worse_by", rails.tenant_wait_worse_by));
  rails.cost_worse_by = FALAJ_TRY(fields.share("cost_worse_by", rails.cost_worse_by));
  rails.jain_min = FALAJ_TRY(fields.share("jain_min", rails.jain_min));
  rails.preemptions_per_job_max =
      FALAJ_TRY(fields.number("preemptions_per_job_max", rails.preemptions_per_job_max));
  rails.deadlines_newly_missed_max = FALAJ_TRY(fields.integer(
      "deadlines_newly_missed_max", rails.deadlines_newly_missed_max, 0, 1'000'000'000));
  return fields.finish();
}

Result<std::int64_t> decode_price(Fields& fields, std::string_view key) {
  constexpr double kMost = 1e6;
  const double price = FALAJ_TRY(fields.number(key, 0));
  if (price >= 0 && price <= kMost) return std::int64_t{std::llround(price * 1e6)};
  return Error{ErrorId::kOutOfRange,
               fields.where() + ": '" + std::string(key) + "' is within 0 and 1000000"};
}

Status decode_prices(const Value& value, Prices& prices) {
  Fields fields(value, "SchedulingPolicy prices");
  prices.micros_per_cpu_hour = FALAJ_TRY(decode_price(fields, "cpu_hour"));
  prices.micros_per_gpu_hour = FALAJ_TRY(decode_price(fields, "gpu_hour"));
  prices.watts_per_gpu = FALAJ_TRY(fields.integer("gpu_watts", 0, 0, 100'000));
  return fields.finish();
}

Status decode_priorities(Fields& spec, std::map<std::string, std::int64_t>& out) {
  constexpr std::size_t kClassesMax = 64;
  constexpr std::int64_t kMost = 1000;
  const Value value = FALAJ_TRY(spec.object("priorities"));
  if (value.is_null()) return {};
  Fields fields(value, "SchedulingPolicy priorities");
  if (value.as_object().size() > kClassesMax) {
    return Error{ErrorId::kOutOfRange, fields.where() + ": at most 64 classes"};
  }
  for (const auto& [name, unused] : value.as_object()) {
    FALAJ_TRY(check_name("priorities", name));
    out[name] = FALAJ_TRY(fields.integer(name, 0, -kMost, kMost));
  }
  return fields.finish();
}

Result<Duration> decode_half_life(Fields& fields, Duration fallback) {
  const Duration half_life = FALAJ_TRY(fields.duration("half_life", fallback));
  if (half_life >= Duration::hours(1) && half_life <= Duration::days(30)) return half_life;
  return Error{ErrorId::kOutOfRange, fields.where() + ": 'half_life' is within 1h and 30d"};
}

}  // namespace

Result<PolicyFile> decode_policy(const Value& spec, const Policy& base) {
  Fields fields(spec, "SchedulingPolicy spec");
  PolicyFile out;
  out.policy = base;
  FALAJ_TRY(decode_rails(fields.any("guard_rails"), out.guard_rails));
  FALAJ_TRY(decode_prices(fields.any("prices"), out.prices));
  FALAJ_TRY(decode_priorities(fields, out.priorities));
  out.half_life = FALAJ_TRY(decode_half_life(fields, out.half_life));
  FALAJ_TRY(decode_order(fields.any("order"), out.policy.order));
  FALAJ_TRY(decode_preemption(fields.any("preemption"), out.policy.preemption));
  out.policy.reservations = static_cast<std::uint32_t>(
      FALAJ_TRY(fields.integer("reservations", out.policy.reservations, 0, 1000)));
  out.policy.reserve_after = FALAJ_TRY(fields.duration("reserve_after", out.policy.reserve_after));
  const bool strict = FALAJ_TRY(fields.boolean("strict_fifo", out.policy.strict_fifo != 0));
  out.policy.strict_fifo = strict ? 1 : 0;
  const Value::Array queues = FALAJ_TRY(fields.list("queues"));
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const std::string where = "SchedulingPolicy queues[" + std::to_string(i) + "]";
    out.queues.push_back(FALAJ_TRY(decode_queue(queues[i], where)));
  }
  FALAJ_TRY(fields.finish());
  return out;
}

}  // namespace falaj::scheduler::simulate
