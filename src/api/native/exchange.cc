#include "api/native/exchange.h"

#include <charconv>

#include "api/request_id.h"

namespace falaj::api {

Result<security::RequestContext> context_of(const net::Request& request,
                                            const catalog::Catalog& catalog) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.project = project_of(request);
  const Result<Zone> zone = catalog.zone_of(context.project.str());
  if (!zone.ok() && zone.error().code == Code::kNotFound) {
    // Without the catalog's hint at the nearest name: it may be another tenant's.
    return Error{zone.error().id, "project '" + context.project.str() + "' was not found"};
  }
  context.zone = FALAJ_TRY(zone);
  context.deadline = request.deadline;
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

Result<Value> body_of(const net::Request& request) {
  if (request.body.empty()) return Value::object();
  return parse_json(request.body);
}

Result<std::int64_t> query_integer(const net::Request& request, std::string_view name,
                                   std::int64_t fallback, std::int64_t max) {
  const std::optional<std::string> text = request.query_param(name);
  if (!text) return fallback;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size() || number < 0 || number > max) {
    return Error{ErrorId::kOutOfRange, "query parameter " + std::string(name) + "='" + *text +
                                           "' is not a whole number from 0 to " +
                                           std::to_string(max)};
  }
  return number;
}

net::Response answer(const net::Request& request, const Result<Value>& result, int status) {
  if (!result.ok()) return net::problem(result.error(), request);
  return net::Response::json(to_json(result.value()), status);
}

net::Route value_route(net::Method method, std::string_view path, Demand demand,
                       std::string_view summary, ValueHandler handler, int status) {
  return net::Route(method, path, net::Permission(demand.action), std::move(demand.target), summary,
                    [handler = std::move(handler), status](const net::Request& request) {
                      return answer(request, handler(request), status);
                    });
}

}  // namespace falaj::api
