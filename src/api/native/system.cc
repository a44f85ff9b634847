// Health, version, metrics.
#include "api/native/exchange.h"
#include "api/native/live_feed.h"
#include "api/native/services.h"
#include "net/address.h"
#include "security/residency/scrape_filter.h"

namespace falaj::api {
namespace {

net::Route health_route(std::string_view path, std::string_view summary, net::SyncHandler handler) {
  net::Route route(net::Method::kGet, path, net::Permission::anyone(), net::Target::nothing(),
                   summary, std::move(handler));
  route.runs_on = net::RunsOn::kLoop;
  route.dialect = "operations";
  return route;
}

// Reads the published table only, so it may stay on the loop. Anyone may ask, so it names nobody's
// deployment: GET /api/v1/deployments does, to who may see them.
net::Response readiness(const Services& services) {
  const std::vector<serving::DeploymentStatus> unready = services.deployments.unready();
  Value value;
  for (const std::string& name : services.jobs_unprotected) value["jobs_without"].push(name);
  if (unready.empty()) {
    // Degraded is ready: it serves, and whoever watches is told what jobs lack.
    value["status"] = services.jobs_unprotected.empty() ? "ok" : "degraded";
    return net::Response::json(to_json(value));
  }
  value["status"] = "unavailable";
  value["reason"] =
      std::to_string(unready.size()) +
      " deployment(s) have a version that cannot be loaded, and none to serve instead";
  net::Response response = net::Response::json(to_json(value), 503);
  response.error = ErrorId::kUnavailable;
  return response;
}

// A scraper has the series of the projects that it may watch and that may go where it is. What
// counts for all tenants together it has with the right on the platform alone: a sum tells of each.
net::Response scrape(Services& services, const net::Request& request) {
  const auto may_leave = security::residency::scrape_filter(
      services.exits, principal_of(request),
      net::is_loopback_address(request.peer) ? security::residency::Caller::kOnThisMachine
                                             : security::residency::Caller::kElsewhere);
  const auto keep = [&](const std::string& project) {
    return may(request, "system.read", {project, "Metric", "", nullptr}) && may_leave(project);
  };
  net::Response response = net::Response::text(services.metrics.exposition(keep));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

}  // namespace

std::vector<net::Route> system_routes(Services& services) {
  std::vector<net::Route> routes;
  const auto alive = [](const net::Request&) { return net::Response::json(R"({"status":"ok"})"); };
  const auto ready = [&services](const net::Request&) { return readiness(services); };
  routes.push_back(health_route("/livez", "200 while the process answers at all.", alive));
  routes.push_back(health_route("/readyz",
                                "200, or 503 with the number of deployments whose version exists "
                                "and cannot be loaded while no other version serves; "
                                "'degraded' lists under jobs_without what the machine does not "
                                "grant to jobs.",
                                ready));
  routes.push_back(health_route("/health", "As /readyz.", ready));
  routes.push_back(value_route(net::Method::kGet, "/version",
                               {"public.read", net::Target::nothing()}, "Name, version and build.",
                               [&](const net::Request&) {
                                 Value value;
                                 value["name"] = "falaj";
                                 value["version"] = services.version;
                                 value["build"] = services.build;
                                 value["started_at"] = to_rfc3339(services.started_at);
                                 return value;
                               }));
  routes.back().dialect = "operations";
  routes.emplace_back(
      net::Method::kGet, "/metrics", net::Permission("system.read"),
      net::Target::across_projects("Metric"),
      "Prometheus text format: the series of the projects in which the caller has system.read, and "
      "those of the whole server with system.read on the platform.",
      [&](const net::Request& request) { return scrape(services, request); });
  routes.back().dialect = "operations";
  return routes;
}

std::vector<net::Route> native_routes(Services& services, LiveFeed& feed) {
  std::vector<net::Route> routes;
  const auto add = [&routes](std::vector<net::Route> more) {
    for (net::Route& route : more) routes.push_back(std::move(route));
  };
  add(object_routes(services));
  add(feature_routes(services));
  add(export_routes(services));
  add(training_routes(services));
  add(job_routes(services, feed.logs()));
  add(model_routes(services));
  add(deployment_routes(services));
  add(rollout_routes(services));
  add(monitoring_routes(services));
  add(access_routes(services));
  add(audit_routes(services));
  add(key_routes(services));
  add(residency_routes(services));
  add(overview_routes(feed));
  add(system_routes(services));
  return routes;
}

}  // namespace falaj::api
