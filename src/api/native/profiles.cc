#include "api/native/profiles.h"

#include <utility>

#include "api/native/exchange.h"

namespace falaj::api {
namespace {

Result<Value> profiles(const ReadProfiles& read, const net::Request& request) {
  features::ProfileQuery query;
  const std::int64_t commit = FALAJ_TRY(query_integer(request, "commit", 0, INT64_MAX));
  if (commit > 0) query.commit = static_cast<std::uint64_t>(commit);
  constexpr auto kMost = static_cast<std::int64_t>(features::kProfilesKept);
  query.most = static_cast<std::size_t>(FALAJ_TRY(query_integer(request, "most", 1, kMost)));
  return read(project_of(request), request.params.find("name")->second, query);
}

}  // namespace

// What the most frequent values are is data, hence data.read.
std::vector<net::Route> profile_routes(ReadProfiles read, ReadArrivals arrivals) {
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      net::Method::kGet, "/api/v1/feature-views/{name}/profiles",
      {"data.read", net::Target::object("FeatureView", "name")},
      "What the rows of ingests looked like, newest first (?most=1 to 64), or of one (?commit=): "
      "per feature missing and different values, extremes, quantiles, frequent values.",
      [read = std::move(read)](const net::Request& request) { return profiles(read, request); }));
  routes.push_back(value_route(
      net::Method::kGet, "/api/v1/arrivals", {"features.read", net::Target::listed("FeatureView")},
      "Views that declare freshness or volume: how old their newest event is, how many rows came, "
      "and whether that is what was expected.",
      [arrivals = std::move(arrivals)](const net::Request& request) -> Result<Value> {
        auto views = FALAJ_TRY(arrivals(project_of(request)));
        keep_visible(views, request, "features.read", "FeatureView",
                     [](const features::ViewArrival& each) { return each.view; });
        return list_value("arrivals", views);
      }));
  return routes;
}

}  // namespace falaj::api
