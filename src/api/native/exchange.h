// api/native/exchange.h — the steps that every native handler shares: who asks, for which project,
// what the body says, and how an answer or an error is written.
#pragma once

#include <functional>
#include <string>

#include "api/caller.h"
#include "base/json.h"
#include "catalog/catalog.h"
#include "net/router.h"
#include "security/context.h"

namespace falaj::api {

// The caller's context; the zone is the project's, FJ-2001 when it is not declared.
Result<security::RequestContext> context_of(const net::Request& request,
                                            const catalog::Catalog& catalog);

// The body as JSON; an empty body is an empty object.
Result<Value> body_of(const net::Request& request);

// A whole number from the query, within bounds; `fallback` when absent.
Result<std::int64_t> query_integer(const net::Request& request, std::string_view name,
                                   std::int64_t fallback, std::int64_t max);

// 200 with the value as JSON, or the error as problem details.
net::Response answer(const net::Request& request, const Result<Value>& result, int status = 200);

// A handler from a function that returns a value: the usual shape of a native route.
// What it demands: of the caller the action, on the target.
struct Demand {
  std::string_view action;
  net::Target target;
};
using ValueHandler = std::function<Result<Value>(const net::Request&)>;
net::Route value_route(net::Method method, std::string_view path, Demand demand,
                       std::string_view summary, ValueHandler handler, int status = 200);

// Drops what the caller may not do `action` to; `name_of(item)` is its name as a `kind` of the
// request's project. For routes whose target is net::Target::listed.
template <class Items, class NameOf>
void keep_visible(Items& items, const net::Request& request, std::string_view action,
                  std::string_view kind, NameOf name_of) {
  const ProjectName project = project_of(request);
  std::erase_if(items, [&](const auto& item) {
    const std::string name = name_of(item);
    return !may(request, action, {project.str(), kind, name, nullptr});
  });
}

// {"name": [to_value(item), …]}
template <class Items>
Value list_value(std::string_view name, const Items& items) {
  Value::Array array;
  array.reserve(items.size());
  for (const auto& item : items) array.push_back(to_value(item));
  Value value;
  value[name] = Value(std::move(array));
  return value;
}

}  // namespace falaj::api
