// Rollouts: what they know, and what people order.
#include "api/native/exchange.h"
#include "api/native/services.h"

namespace falaj::api {
namespace {

using serving::rollout::Order;

const std::string& name_of(const net::Request& request) {
  return request.params.find("name")->second;
}

Result<Value> rollout_list(Services& services, const net::Request& request) {
  auto rollouts = FALAJ_TRY(services.rollouts->status(project_of(request)));
  keep_visible(rollouts, request, "models.read", "Rollout",
               [](const auto& status) { return status.name; });
  return list_value("rollouts", rollouts);
}

// A rollout moves an alias of the model: whoever starts it, or lets it go on, must be allowed to do
// that by hand. The route asked about the rollout itself.
serving::rollout::MayPromote may_promote(const net::Request& request) {
  return [&request](const std::string& model) {
    const ProjectName project = project_of(request);
    return check(request, "models.promote", {project.str(), "Model", model, nullptr});
  };
}

net::Route order_route(Services& services, std::string_view verb, Order order,
                       std::string_view summary) {
  return value_route(net::Method::kPost, "/api/v1/rollouts/{name}:" + std::string(verb),
                     {"models.promote", net::Target::object("Rollout", "name")}, summary,
                     [&services, order](const net::Request& request) -> Result<Value> {
                       const auto context = FALAJ_TRY(context_of(request, services.catalog));
                       return to_value(FALAJ_TRY(services.rollouts->order(
                           context, name_of(request), order, may_promote(request))));
                     });
}

}  // namespace

std::vector<net::Route> rollout_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  if (services.rollouts == nullptr) return routes;
  routes.push_back(
      value_route(Method::kGet, "/api/v1/rollouts", {"models.read", net::Target::listed("Rollout")},
                  "Rollouts that were ever started: step, evidence, findings and state.",
                  [&](const net::Request& request) { return rollout_list(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/rollouts/{name}",
      {"models.read", net::Target::object("Rollout", "name")}, "One of them.",
      [&](const net::Request& request) -> Result<Value> {
        return to_value(FALAJ_TRY(services.rollouts->get(project_of(request), name_of(request))));
      }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/rollouts/{name}:start",
      {"models.promote", net::Target::object("Rollout", "name")},
      "Begins a declared rollout at its first step, under the rules declared now.",
      [&](const net::Request& request) -> Result<Value> {
        const auto context = FALAJ_TRY(context_of(request, services.catalog));
        return to_value(
            FALAJ_TRY(services.rollouts->start(context, name_of(request), may_promote(request))));
      }));
  routes.push_back(order_route(services, "hold", Order::kHold,
                               "Keeps it in its step; guards still take it back."));
  routes.push_back(order_route(services, "resume", Order::kResume, "Lets it go on after a hold."));
  routes.push_back(order_route(services, "approve", Order::kApprove,
                               "Lets it be promoted once every guard is kept."));
  routes.push_back(order_route(services, "promote", Order::kPromote,
                               "Promotes the candidate now, whatever is known about it."));
  routes.push_back(
      order_route(services, "abort", Order::kAbort, "Everything back to the champion, at once."));
  return routes;
}

}  // namespace falaj::api
