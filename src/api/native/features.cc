// Data in (ingest) and frozen training sets out.
#include <algorithm>

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

Result<table::Format> format_of(const net::Request& request) {
  const std::optional<std::string> name = request.query_param("format");
  if (name) return table::parse_format(*name);
  const std::string_view type = net::find_header(request.headers, "content-type");
  if (type.starts_with("text/csv")) return table::Format::kCsv;
  if (type.find("parquet") != std::string_view::npos) return table::Format::kParquet;
  if (type.find("arrow") != std::string_view::npos) return table::Format::kArrowIpc;
  return Error{ErrorId::kMissingField,
               "the body's format is unknown: add ?format=csv, parquet or arrow"};
}

// What the sender calls the file: a name, not a path.
Result<std::string> file_name(const net::Request& request) {
  std::string name = request.query_param("file").value_or("");
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && c != '/';
  });
  if (name.size() <= 255 && plain) return name;
  return Error{ErrorId::kInvalidArgument,
               "?file= takes the name of a file, without its folder, of up to 255 bytes"};
}

Result<Value> ingest(Services& services, const net::Request& request) {
  const security::RequestContext context = FALAJ_TRY(context_of(request, services.catalog));
  const table::Format format = FALAJ_TRY(format_of(request));
  const features::IngestFile file{*request.body_file, format, {}, FALAJ_TRY(file_name(request))};
  return to_value(
      FALAJ_TRY(services.ingest.append(context, request.params.find("name")->second, file)));
}

Result<std::optional<Timestamp>> optional_time(Fields& fields, std::string_view key) {
  const std::string text = FALAJ_TRY(fields.text(key));
  if (text.empty()) return std::optional<Timestamp>();
  return std::optional<Timestamp>(FALAJ_TRY(parse_timestamp(text)));
}

// Of :freeze, whose body is JSON.
Result<features::FreezeOptions> freeze_options(const net::Request& request) {
  if (request.query_param("format")) {
    return Error{ErrorId::kInvalidArgument,
                 "?format= says that the body is a file, and :freeze takes JSON options: send the "
                 "file to /api/v1/training-sets/" +
                     request.params.find("name")->second + ":freeze-with-spine"};
  }
  features::FreezeOptions options;
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "freeze");
  options.from = FALAJ_TRY(optional_time(fields, "from"));
  options.to = FALAJ_TRY(optional_time(fields, "to"));
  const std::int64_t known_at = FALAJ_TRY(fields.integer("known_at", 0, 0, INT64_MAX));
  if (known_at > 0) options.known_at = static_cast<std::uint64_t>(known_at);
  FALAJ_TRY(fields.finish());
  return options;
}

// Of :freeze-with-spine, whose body is a file.
Result<features::FreezeOptions> spine_options(const net::Request& request) {
  features::FreezeOptions options;
  options.spine_file = request.body_file.get();
  options.spine_format = FALAJ_TRY(format_of(request));
  return options;
}

Value row_of(const features::ViewStats& stats) {
  Value row;
  row["view"] = stats.view;
  row["rows"] = stats.rows;
  row["quarantined"] = stats.quarantined;
  row["segments"] = stats.segments;
  row["keys_online"] = stats.keys_online;
  row["newest_event"] = stats.rows == 0 ? Value() : Value(to_rfc3339(stats.newest_event));
  return row;
}

Result<Value> view_list(Services& services, const net::Request& request) {
  Value reply;
  reply["views"] = Value::array();
  auto views = FALAJ_TRY(services.view_stats(project_of(request)));
  keep_visible(views, request, "features.read", "FeatureView",
               [](const features::ViewStats& stats) { return stats.view; });
  for (const auto& stats : views) {
    reply["views"].push(row_of(stats));
  }
  return reply;
}

net::Route ingest_route(Services& services) {
  net::Route route = value_route(
      net::Method::kPost, "/api/v1/feature-views/{name}:ingest",
      {"data.ingest", net::Target::object("FeatureView", "name")},
      "Ingests the body (?format=csv|parquet|arrow): valid rows are committed together, bad rows "
      "are counted, explained and quarantined. ?file= is what explanations call it.",
      [&services](const net::Request& request) { return ingest(services, request); });
  route.body_to = net::BodyTo::kFile;  // Its limit is the setting server.body_max.
  return route;
}

// Who may freeze a set may not take out by it the rows of a view that they may not read themselves.
Status check_views(Services& services, const net::Request& request, const std::string& name) {
  const std::string project = project_of(request).str();
  const auto set = FALAJ_TRY(
      features::decode_training_set(FALAJ_TRY(services.catalog.get("TrainingSet", project, name))));
  const auto service = FALAJ_TRY(features::decode_feature_service(
      FALAJ_TRY(services.catalog.get("FeatureService", project, set.service))));
  for (const features::ServiceView& each : service.views) {
    FALAJ_TRY(check(request, "data.read", {project, "FeatureView", each.view, nullptr}));
  }
  if (set.spine_view.empty()) return {};
  return check(request, "data.read", {project, "FeatureView", set.spine_view, nullptr});
}

Result<Value> freeze(Services& services, const net::Request& request,
                     const Result<features::FreezeOptions>& options) {
  if (!options.ok()) return options.error();
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const std::string& name = request.params.find("name")->second;
  FALAJ_TRY(check_views(services, request, name));
  return features::to_value(FALAJ_TRY(services.training_sets.freeze(context, name, *options)));
}

net::Route freeze_route(Services& services) {
  return value_route(
      net::Method::kPost, "/api/v1/training-sets/{name}:freeze",
      {"training.run", net::Target::object("TrainingSet", "name")},
      "Freezes the set: point-in-time join to immutable Parquet with a manifest. The body is {} or "
      "{from, to, known_at}.",
      [&services](const net::Request& request) {
        return freeze(services, request, freeze_options(request));
      });
}

net::Route freeze_with_spine_route(Services& services) {
  net::Route route =
      value_route(net::Method::kPost, "/api/v1/training-sets/{name}:freeze-with-spine",
                  {"training.run", net::Target::object("TrainingSet", "name")},
                  "Freezes a set whose spine is the body's file (?format=csv|parquet|arrow).",
                  [&services](const net::Request& request) {
                    return freeze(services, request, spine_options(request));
                  });
  route.body_to = net::BodyTo::kFile;
  return route;
}

net::Route quarantine_route(Services& services) {
  net::Route route(net::Method::kGet, "/api/v1/quarantine/{id}", net::Permission("data.read"),
                   net::Target::holder("FeatureView", "id"),
                   "The rows that an ingest of ?project= refused, as CSV: line, reason, raw. The "
                   "id is the one that the ingest reported.",
                   [&services](const net::Request& request) {
                     Result<std::string> rows = services.quarantine(
                         project_of(request), BlobId(request.params.find("id")->second));
                     if (!rows.ok()) return net::problem(rows.error(), request);
                     net::Response response = net::Response::text(std::move(rows).value());
                     response.content_type = "text/csv; charset=utf-8";
                     return response;
                   });
  route.gives = net::Gives::kFile;
  return route;
}

}  // namespace

std::vector<net::Route> feature_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(ingest_route(services));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/feature-views", {"features.read", net::Target::listed("FeatureView")},
      "Rows, segments and keys of every feature view.",
      [&](const net::Request& request) { return view_list(services, request); }));
  routes.push_back(quarantine_route(services));
  routes.push_back(freeze_route(services));
  routes.push_back(freeze_with_spine_route(services));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/training-sets", {"features.read", net::Target::listed("TrainingSet")},
      "Frozen training sets, newest first.", [&](const net::Request& request) -> Result<Value> {
        auto sets = FALAJ_TRY(services.training_sets.list(project_of(request)));
        keep_visible(sets, request, "features.read", "TrainingSet",
                     [](const features::Manifest& set) { return set.name; });
        return list_value("training_sets", sets);
      }));
  routes.push_back(value_route(Method::kGet, "/api/v1/training-sets/{name}/manifest",
                               {"features.read", net::Target::object("TrainingSet", "name")},
                               "The newest manifest of a frozen set.",
                               [&](const net::Request& request) -> Result<Value> {
                                 return features::to_value(FALAJ_TRY(services.training_sets.latest(
                                     project_of(request), request.params.find("name")->second)));
                               }));
  return routes;
}

}  // namespace falaj::api
