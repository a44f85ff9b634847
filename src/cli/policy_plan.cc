// policy plan, asked of a server.
#include <cstdio>

#include "cli/commands.h"
#include "cli/local_file.h"

namespace falaj::cli {
namespace {

std::string fixed(const Value& object, std::string_view key, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, object.number(key));
  return text;
}

std::string rules_table(const Value& plan) {
  Table table({"rules", "jobs", "refused", "jct s", "p99", "wait s", "p99", "slowdown", "jain",
               "in use", "preempt/job", "kWh", "cost", "replay s"});
  for (const char* rules : {"current", "next"}) {
    const Value& s = plan[rules];
    table.add({rules, fixed(s, "jobs", 0), fixed(s, "refused", 0), fixed(s["jct_s"], "mean", 0),
               fixed(s["jct_s"], "p99", 0), fixed(s["wait_s"], "mean", 0),
               fixed(s["wait_s"], "p99", 0), fixed(s["slowdown"], "mean", 1), fixed(s, "jain", 2),
               fixed(s, "utilisation", 3), fixed(s, "preemptions_per_job", 2),
               fixed(s, "energy_kwh", 1), fixed(s, "cost", 2), fixed(s, "replay_seconds", 2)});
  }
  return table.str();
}

std::string queues_table(const Value& plan) {
  Table table({"queue", "wait s now", "then", "jct s now", "then", "cost now", "then"});
  for (const Value& row : items(plan["tenants"])) {
    table.add({row.text("tenant"), fixed(row, "wait_before_s", 0), fixed(row, "wait_after_s", 0),
               fixed(row, "jct_before_s", 0), fixed(row, "jct_after_s", 0),
               fixed(row, "cost_before", 2), fixed(row, "cost_after", 2)});
  }
  return table.str();
}

}  // namespace

Status plan_live(const Session& session, const std::string& file, const std::string& report) {
  Value body = FALAJ_TRY(read_documents(session, {file}));
  for (Value& object : body["objects"].as_array()) {
    // A policy that is only tried needs no name.
    const bool unnamed = object.is_object() && !object["metadata"].has("name");
    if (unnamed && object.text("kind") == "SchedulingPolicy") object["metadata"]["name"] = "new";
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value plan = FALAJ_TRY(connection->call(
      net::Method::kPost,
      report.empty() ? "/api/v1/scheduling:plan" : "/api/v1/scheduling:plan?report=true", body));
  if (!report.empty()) FALAJ_TRY(write_private(report, plan.text("report")));
  plan.as_object().erase("report");
  std::string text = rules_table(plan) + "\n" + queues_table(plan);
  const Value::Array& broken = items(plan["broken"]);
  for (const Value& each : broken) text += "broken: " + cell(each) + "\n";
  if (broken.empty()) text += "no guard-rail breaks\n";
  print(session.format, plan, text);
  if (broken.empty()) return {};
  return Error{Code::kFailedPrecondition, file + " breaks a guard-rail: " + cell(broken.front())};
}

}  // namespace falaj::cli
