// Monitors, their windows and histograms, alarms, and what the policies did about them.
#include <charconv>

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "api/request_id.h"

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

Result<Value> alarm_list(Services& services, const net::Request& request) {
  auto drifted = FALAJ_TRY(services.monitors.alarms(project_of(request)));
  keep_visible(drifted, request, "monitoring.read", "Monitor",
               [](const auto& alarm) { return alarm.monitor; });
  std::vector<security::access::Emergency> emergencies;
  if (services.emergencies != nullptr) {
    emergencies = FALAJ_TRY(services.emergencies->list(project_of(request).str()));
    keep_visible(emergencies, request, "monitoring.read", "Emergency",
                 [](const auto& emergency) { return std::to_string(emergency.id); });
    if (may(request, "access.read", {})) {
      for (auto& above : FALAJ_TRY(services.emergencies->list(""))) {
        emergencies.push_back(std::move(above));
      }
    }
  }
  Value reply = list_value("alarms", emergencies);
  for (const auto& alarm : drifted) reply["alarms"].push(to_value(alarm));
  return reply;
}

Result<Value> close_emergency(Services& services, const net::Request& request) {
  const std::string& text = request.params.find("id")->second;
  std::int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return Error{Code::kNotFound, "there is no emergency '" + text + "'"};
  }
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = carried_id(request);
  if (services.emergencies == nullptr) return Error{Code::kNotFound, "there is no emergency"};
  Result<security::access::Emergency> closed = services.emergencies->close(context, id);
  FALAJ_TRY(note_denied(request, "access.write",
                        {found_project(request).value_or(""), "Emergency", "", nullptr},
                        closed.ok() ? Status() : Status(closed.error())));
  return to_value(*closed);
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
      "Alarms by 'kind': 'break-glass' of the project (and, with access.read on the platform, "
      "above projects), then 'drift'; newest first.",
      [&](const net::Request& request) { return alarm_list(services, request); }));
  routes.push_back(
      value_route(Method::kPost, "/api/v1/emergencies/{id}:close",
                  {"access.write", net::Target::record("Emergency", "id")},
                  "Closes the alarm of a break-glass, by its id; not by the one who broke it.",
                  [&](const net::Request& request) { return close_emergency(services, request); }));
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
