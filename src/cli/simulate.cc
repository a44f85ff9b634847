// simulate, policy plan.
#include <cstdio>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/local_file.h"
#include "config/yaml.h"
#include "scheduler/simulate/contest.h"
#include "scheduler/simulate/generate.h"
#include "scheduler/simulate/plan.h"
#include "scheduler/simulate/report.h"

namespace falaj::cli {
namespace {

namespace sim = scheduler::simulate;

constexpr std::size_t kTraceBytesMax = 512u << 20;

Result<Value> read_document(const std::string& file) {
  const std::string text = FALAJ_TRY(read_text(file));
  Result<std::vector<Value>> documents = config::parse_yaml(text);
  if (!documents.ok()) return documents.error().within(file);
  if (documents->size() != 1) {
    return Error{Code::kInvalidArgument,
                 file + ": one document is wanted, it has " + std::to_string(documents->size())};
  }
  return documents->front();
}

Result<sim::PolicyFile> read_policy(const std::string& file) {
  sim::PolicyFile out;
  out.policy = sim::DecideOptions::default_policy();
  if (file.empty()) return out;
  const Value document = FALAJ_TRY(read_document(file));
  if (document.text("kind") != "SchedulingPolicy") {
    return Error{ErrorId::kUnknownKind,
                 file + ": kind is '" + document.text("kind") + "'; it must be SchedulingPolicy"};
  }
  Result<sim::PolicyFile> policy = sim::decode_policy(document["spec"], out.policy);
  if (!policy.ok()) return policy.error().within(file);
  return policy;
}

sim::DecideOptions options_of(const sim::PolicyFile& file, const std::string& name) {
  sim::DecideOptions options;
  options.name = name;
  options.policy = file.policy;
  options.queues = file.queues;
  options.half_life = file.half_life;
  return options;
}

Result<sim::FleetSpec> read_fleet(const SimulateChoice& choice) {
  if (!choice.fleet.empty()) {
    const Value document = FALAJ_TRY(read_document(choice.fleet));
    Result<sim::FleetSpec> fleet = sim::decode_fleet(document);
    if (!fleet.ok()) return fleet.error().within(choice.fleet);
    return fleet;
  }
  Value group = Value::object();
  group["nodes"] = choice.nodes;
  group["gpus"] = choice.gpus_per_node;
  Value spec = Value::object();
  spec["groups"].push(std::move(group));
  return sim::decode_fleet(spec);
}

Result<sim::Trace> make_trace(const SimulateChoice& choice) {
  if (choice.tenants < 1 || choice.tenants > 10'000 || choice.days < 1 || choice.days > 3650) {
    return Error{ErrorId::kUsage, "--tenants are 1 to 10000 and --days 1 to 3650"};
  }
  return sim::generate_trace({.jobs = choice.jobs,
                              .tenants = static_cast<std::int32_t>(choice.tenants),
                              .span = Duration::days(choice.days),
                              .seed = choice.seed});
}

Result<sim::Trace> read_trace(const SimulateChoice& choice) {
  if (choice.trace.empty()) return make_trace(choice);
  const std::string text = FALAJ_TRY(read_text(choice.trace, kTraceBytesMax));
  Result<sim::Trace> trace = sim::parse_trace(text);
  if (!trace.ok()) return trace.error().within(choice.trace);
  constexpr std::size_t kShown = 5;
  if (trace->refused_rows > 0) {
    std::fprintf(stderr, "falaj: %s: %lld rows are refused\n", choice.trace.c_str(),
                 static_cast<long long>(trace->refused_rows));
  }
  for (std::size_t i = 0; i < std::min(kShown, trace->refused.size()); ++i) {
    std::fprintf(stderr, "  line %lld: %s\n", static_cast<long long>(trace->refused[i].line),
                 trace->refused[i].reason.c_str());
  }
  return trace;
}

Result<sim::Scenario> read_scenario(const SimulateChoice& choice) {
  sim::Scenario scenario;
  scenario.fleet = FALAJ_TRY(read_fleet(choice));
  scenario.interruption.restart_cost = FALAJ_TRY(parse_duration(choice.restart_cost));
  scenario.interruption.checkpoint_interval = FALAJ_TRY(parse_duration(choice.checkpoint));
  scenario.faults.node_mtbf = FALAJ_TRY(parse_duration(choice.node_mtbf));
  const double share = FALAJ_TRY(parse_share(choice.stragglers));
  scenario.faults.straggler_permille = static_cast<std::int32_t>(share * 1000);
  scenario.faults.seed = choice.seed;
  return scenario;
}

double gpu_hours(const sim::Trace& trace) {
  double sum = 0;
  for (const sim::TraceJob& job : trace.jobs) sum += job.duration.as_seconds() * job.gpus / 3600;
  return sum;
}

Value trace_value(const SimulateChoice& choice, const sim::Trace& trace,
                  const sim::Scenario& scenario) {
  Value value = Value::object();
  value["file"] = choice.trace;
  if (choice.trace.empty()) value["seed"] = choice.seed;
  value["jobs"] = static_cast<std::int64_t>(trace.jobs.size());
  value["tenants"] = static_cast<std::int64_t>(trace.tenants.size());
  value["from"] = to_rfc3339(trace.jobs.front().submit);
  value["to"] = to_rfc3339(trace.jobs.back().submit);
  value["gpu_hours"] = gpu_hours(trace);
  const double span = (trace.jobs.back().submit - trace.jobs.front().submit).as_seconds() / 3600;
  const auto gpus = static_cast<double>(scenario.fleet.gpus());
  value["load"] = span > 0 ? gpu_hours(trace) / (span * gpus) : 0;
  value["refused_rows"] = trace.refused_rows;
  value["refused"] = Value::array();
  for (const sim::RefusedRow& row : trace.refused) {
    Value each = Value::object();
    each["line"] = row.line;
    each["reason"] = row.reason;
    value["refused"].push(std::move(each));
  }
  return value;
}

Value fleet_value(const sim::FleetSpec& fleet) {
  Value value = Value::object();
  value["nodes"] = fleet.nodes();
  value["gpus"] = fleet.gpus();
  return value;
}

sim::Summary with_progress(const sim::Trace& trace, sim::Scenario scenario,
                           sim::Strategy& strategy) {
  Progress progress(std::string(strategy.name()), "replay");
  scenario.on_progress = [&progress](double share) { progress.set(share); };
  sim::Summary summary = sim::contest(trace, scenario, strategy);
  char text[96];
  std::snprintf(text, sizeof text, "mean %.0f s, p99 %.0f s", summary.jct.mean, summary.jct.p99);
  progress.done(text);
  return summary;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string comparison(const std::vector<sim::Summary>& summaries) {
  Table table({"policy", "jct s", "p50", "p99", "wait s", "slowdown", "≥32 GPUs", "jain", "in use",
               "idle", "preempt/job", "lost GPUh", "kWh", "cost", "replay s"});
  for (const sim::Summary& s : summaries) {
    table.add({s.policy, fixed(s.jct.mean, 0), fixed(s.jct.p50, 0), fixed(s.jct.p99, 0),
               fixed(s.wait.mean, 0), fixed(s.slowdown.mean, 1), fixed(s.large_slowdown, 1),
               fixed(s.jain, 2), fixed(100 * s.utilisation, 1) + "%",
               fixed(100 * s.fragmentation, 1) + "%", fixed(s.preemptions_per_job, 2),
               fixed(s.lost_gpu_hours, 0), fixed(s.energy_kwh, 0), fixed(s.cost, 0),
               fixed(s.replay_seconds, 1)});
  }
  std::string out = table.str();
  // The same for all: it is the fleet's rule.
  if (!summaries.empty() && summaries.front().refused > 0) {
    out += std::to_string(summaries.front().refused) +
           " job(s) are larger than the fleet and were refused\n";
  }
  for (const sim::Summary& s : summaries) {
    if (s.promises.made == 0) continue;
    const auto share = [&](std::int64_t count) {
      return fixed(100.0 * static_cast<double>(count) / static_cast<double>(s.promises.made), 1);
    };
    out += s.policy + ": " + std::to_string(s.promises.made) +
           " waiting jobs were told an interval: " + share(s.promises.within) +
           " % started in it, " + share(s.promises.early) + " % before, " + share(s.promises.late) +
           " % after; " + std::to_string(s.promises.open) + " were told no end\n";
  }
  return out;
}

Value ratio_values(const std::vector<sim::Summary>& summaries) {
  Value values = Value::object();
  for (const sim::Ratio& ratio : sim::ratios(summaries.front(), summaries)) {
    Value& value = values[ratio.to];
    value["jct_mean"] = ratio.jct_mean;
    value["jct_p99"] = ratio.jct_p99;
    value["large_slowdown"] = ratio.large_slowdown;
  }
  return values;
}

Status write_report(const SimulateChoice& choice, const sim::Trace& trace,
                    const sim::Scenario& scenario, const std::vector<sim::Summary>& summaries) {
  sim::ReportText text;
  text.title = "Scheduling policies on one history";
  text.subtitle =
      std::to_string(trace.jobs.size()) + " jobs of " + std::to_string(trace.tenants.size()) +
      " tenants (" +
      (choice.trace.empty() ? "made up, seed " + std::to_string(choice.seed) : choice.trace) +
      ") on " + std::to_string(scenario.fleet.gpus()) + " GPUs in " +
      std::to_string(scenario.fleet.nodes()) + " nodes; a restart costs " + choice.restart_cost +
      ".";
  return write_private(choice.report, sim::html_report(text, summaries, summaries.front().policy));
}

std::string plan_table(const sim::Plan& plan) {
  Table table({"tenant", "wait s now", "then", "jct s now", "then", "cost now", "then"});
  for (const sim::TenantChange& t : plan.tenants) {
    table.add({t.tenant, fixed(t.wait_before, 0), fixed(t.wait_after, 0), fixed(t.jct_before, 0),
               fixed(t.jct_after, 0), fixed(t.cost_before, 0), fixed(t.cost_after, 0)});
  }
  std::string out = comparison({plan.current, plan.next}) + "\n" + table.str();
  for (const std::string& broken : plan.broken) out += "broken: " + broken + "\n";
  if (plan.broken.empty()) out += "no guard-rail breaks\n";
  return out;
}

}  // namespace

Status simulate_policies(const SimulateChoice& choice, OutputFormat format) {
  const sim::Scenario scenario = FALAJ_TRY(read_scenario(choice));
  const sim::PolicyFile policy = FALAJ_TRY(read_policy(choice.policy_file));
  sim::DecideOptions options = options_of(policy, "falaj");
  if (choice.start_times) options.explain = scheduler::Explain::kFull;
  const std::vector<std::string>& names =
      choice.policies.empty() ? sim::strategy_names() : choice.policies;
  std::vector<std::unique_ptr<sim::Strategy>> strategies;
  for (const std::string& name : names) {
    strategies.push_back(FALAJ_TRY(sim::make_strategy(name, scenario.fleet, options)));
  }
  const sim::Trace trace = FALAJ_TRY(read_trace(choice));
  Value value = Value::object();
  value["trace"] = trace_value(choice, trace, scenario);
  value["fleet"] = fleet_value(scenario.fleet);
  value["policies"] = Value::array();
  std::vector<sim::Summary> summaries;
  for (const auto& strategy : strategies) {
    summaries.push_back(with_progress(trace, scenario, *strategy));
    value["policies"].push(sim::to_value(summaries.back()));
  }
  value["ratios_of_" + summaries.front().policy] = ratio_values(summaries);
  if (!choice.report.empty()) FALAJ_TRY(write_report(choice, trace, scenario, summaries));
  print(format, value, comparison(summaries));
  return {};
}

Status print_trace(const SimulateChoice& choice) {
  const sim::Trace trace = FALAJ_TRY(make_trace(choice));
  const std::string csv = sim::to_csv(trace);
  std::fwrite(csv.data(), 1, csv.size(), stdout);
  return {};
}

Status plan_policy(const SimulateChoice& choice, OutputFormat format) {
  const sim::Scenario scenario = FALAJ_TRY(read_scenario(choice));
  const sim::PolicyFile next = FALAJ_TRY(read_policy(choice.policy_file));
  const sim::PolicyFile current = FALAJ_TRY(read_policy(choice.current_file));
  const sim::Trace trace = FALAJ_TRY(read_trace(choice));
  const auto now = sim::decide_strategy(scenario.fleet, options_of(current, "current"));
  const auto then = sim::decide_strategy(scenario.fleet, options_of(next, "next"));
  const sim::Summary before = with_progress(trace, scenario, *now);
  const sim::Summary after = with_progress(trace, scenario, *then);
  const sim::Plan plan = sim::compare(before, after, next.guard_rails);
  if (!choice.report.empty()) FALAJ_TRY(write_report(choice, trace, scenario, {before, after}));
  print(format, sim::to_value(plan), plan_table(plan));
  if (plan.broken.empty()) return {};
  return Error{Code::kFailedPrecondition,
               choice.policy_file + " breaks a guard-rail: " + plan.broken.front()};
}

}  // namespace falaj::cli
