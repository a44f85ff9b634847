// The overview, asked for or streamed.
#include "api/native/exchange.h"
#include "api/native/live_feed.h"
#include "api/native/services.h"

namespace falaj::api {

std::vector<net::Route> overview_routes(LiveFeed& feed) {
  std::vector<net::Route> routes;
  routes.push_back(
      value_route(net::Method::kGet, "/api/v1/overview",
                  {"monitoring.read", net::Target::in_project("Project")},
                  "The walk in numbers: counts, running work, deployments, latency.",
                  [&](const net::Request& request) { return feed.overview(request); }));
  routes.emplace_back(
      net::Method::kGet, "/api/v1/events", net::Permission("monitoring.read"),
      net::Target::in_project("Project"),
      "The overview as server-sent events, whenever it changed; `metrics`: what a run reported.",
      [&feed](const net::Request& request) {
        net::Response response;
        response.content_type = "text/event-stream";
        response.headers.emplace_back("Cache-Control", "no-store");
        response.on_stream = [&feed, kept = kept_of(request)](std::shared_ptr<net::Stream> stream) {
          feed.subscribe(kept, std::move(stream));
        };
        return response;
      });
  return routes;
}

}  // namespace falaj::api
