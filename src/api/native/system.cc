// Health, version, metrics.
#include "api/inference/nv_metrics.h"
#include "api/native/exchange.h"
#include "api/native/live_feed.h"
#include "api/native/services.h"
#include "api/place.h"
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

// Reads the published table only, so it may stay on the loop. Anyone may ask, so it says how it is
// and nothing else: GET /version tells what jobs lack, and GET /api/v1/deployments which cannot be
// loaded, to who may know.
net::Response readiness(const Services& services) {
  if (services.deployments.unready().empty()) {
    // Degraded is ready: it serves, and whoever watches is told.
    return net::Response::json(services.jobs_unprotected.empty() ? R"({"status":"ok"})"
                                                                 : R"({"status":"degraded"})");
  }
  net::Response response = net::Response::json(R"({"status":"unavailable"})", 503);
  response.error = ErrorId::kUnavailable;
  return response;
}

// A scraper has the series of the projects that it may watch and that may go where it is. What
// counts for all tenants together it has with the right on the platform alone: a sum tells of each.
net::Response scrape(Services& services, const net::Request& request) {
  const auto may_leave = security::residency::scrape_filter(services.exits, principal_of(request),
                                                            place_of(request.peer));
  const auto keep = [&](const std::string& project) {
    return may(request, "system.read", {project, "Metric", "", nullptr}) && may_leave(project);
  };
  std::vector<serving::DeploymentStatus> statuses = services.deployments.status();
  std::erase_if(statuses, [&](const auto& status) { return !keep(status.project); });
  net::Response response =
      net::Response::text(services.metrics.exposition(keep) + nv_metrics(statuses));
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
                                "200, or 503 while a deployment's version exists and cannot be "
                                "loaded and no other version serves. 'degraded': the machine does "
                                "not grant jobs all protections; /version names them.",
                                ready));
  routes.push_back(health_route("/health", "As /readyz.", ready));
  routes.push_back(value_route(
      net::Method::kGet, "/version", {"account.use", net::Target::platform("Server")},
      "Name, version and build; jobs_without: what jobs do not get.", [&](const net::Request&) {
        Value value;
        value["name"] = "falaj";
        value["version"] = services.version;
        value["build"] = services.build;
        value["started_at"] = to_rfc3339(services.started_at);
        for (const std::string& name : services.jobs_unprotected) {
          value["jobs_without"].push(name);
        }
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
