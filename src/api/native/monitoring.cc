// Monitors, their windows and histograms, alarms, and what the policies did about them.
#include "api/native/exchange.h"
#include "api/native/services.h"

namespace falaj::api {
namespace {

Result<Value> monitor_list(Services& services, const net::Request& request) {
  const ProjectName project = project_of(request);
  Value reply;
  reply["monitors"] = Value::array();
  auto objects = FALAJ_TRY(services.catalog.list("Monitor", project.str()));
  keep_visible(objects, request, "monitoring.read", "Monitor",
               [](const catalog::Object& object) { return object.name; });
  for (const auto& object : objects) {
    const monitoring::Monitor monitor = FALAJ_TRY(monitoring::decode_monitor(object));
    Value row;
    row["name"] = monitor.name;
    row["deployment"] = monitor.deployment;
    row["method"] = monitor.method == monitoring::Method::kPsi ? "psi" : "js";
    row["threshold"] = monitor.threshold;
    row["windows"] = Value::array();
    for (const auto& window : FALAJ_TRY(services.monitors.windows(project, monitor.name, 50))) {
      row["windows"].push(to_value(window));
    }
    reply["monitors"].push(std::move(row));
  }
  return reply;
}

Result<Value> histograms(Services& services, const net::Request& request) {
  const std::int64_t window = FALAJ_TRY(query_integer(request, "window", 0, INT64_MAX));
  return to_value(FALAJ_TRY(services.monitors.histograms(
      project_of(request), request.params.find("name")->second, window)));
}

}  // namespace

std::vector<net::Route> monitoring_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/monitors", {"monitoring.read", net::Target::listed("Monitor")},
      "Monitors with their last 50 windows.",
      [&](const net::Request& request) { return monitor_list(services, request); }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/monitors/{name}/histograms",
                  {"monitoring.read", net::Target::object("Monitor", "name")},
                  "Reference against current, per feature; ?window= or the newest.",
                  [&](const net::Request& request) { return histograms(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/alarms", {"monitoring.read", net::Target::listed("Monitor")},
      "Alarms, newest first.", [&](const net::Request& request) -> Result<Value> {
        auto alarms = FALAJ_TRY(services.monitors.alarms(project_of(request)));
        keep_visible(alarms, request, "monitoring.read", "Monitor",
                     [](const auto& alarm) { return alarm.monitor; });
        return list_value("alarms", alarms);
      }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/policies", {"monitoring.read", net::Target::listed("Policy")},
      "Policies: their phase, last action and what it was decided on.",
      [&](const net::Request& request) -> Result<Value> {
        auto policies = FALAJ_TRY(services.loop.status(project_of(request)));
        keep_visible(policies, request, "monitoring.read", "Policy",
                     [](const loop::PolicyStatus& status) { return status.policy; });
        return list_value("policies", policies);
      }));
  return routes;
}

}  // namespace falaj::api
