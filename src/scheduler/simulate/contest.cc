#include "scheduler/simulate/contest.h"

#include "base/decode.h"
#include "scheduler/simulate/baselines.h"

namespace falaj::scheduler::simulate {

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> kNames = {
      "falaj", "strict_fifo", "greedy_fifo", "max_min_by_tenant", "easy_backfill_oracle",
      "las",   "las_decades", "srsf_oracle"};
  return kNames;
}

Result<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const FleetSpec& fleet,
                                                const DecideOptions& options) {
  if (name == "falaj") return decide_strategy(fleet, options);
  if (name == "strict_fifo") return strict_fifo();
  if (name == "greedy_fifo") return greedy_fifo();
  if (name == "max_min_by_tenant") return max_min_by_tenant();
  if (name == "easy_backfill_oracle") return easy_backfill_oracle();
  if (name == "las") return least_attained_service();
  if (name == "las_decades") return least_attained_service(las_decades());
  if (name == "srsf_oracle") return shortest_remaining_service_oracle();
  const std::string near = nearest_name(name, strategy_names());
  return Error{ErrorId::kUsage,
               "no policy '" + name + "'" + (near.empty() ? "" : "; did you mean " + near + "?")};
}

Summary contest(const Trace& trace, const Scenario& scenario, Strategy& strategy) {
  const std::int64_t began = monotonic_nanos();
  const Outcome outcome = replay(trace, scenario, strategy);
  const Duration took{monotonic_nanos() - began};
  Summary summary = summarise(std::string(strategy.name()), trace, scenario.fleet, outcome);
  summary.replay_seconds = took.as_seconds();
  summary.promises = strategy.promises();
  return summary;
}

std::vector<Ratio> ratios(const Summary& ours, const std::vector<Summary>& all) {
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  std::vector<Ratio> out;
  for (const Summary& other : all) {
    if (other.policy == ours.policy) continue;
    out.push_back({other.policy, ratio(ours.jct.mean, other.jct.mean),
                   ratio(ours.jct.p99, other.jct.p99),
                   ratio(ours.large_slowdown, other.large_slowdown)});
  }
  return out;
}

}  // namespace falaj::scheduler::simulate
