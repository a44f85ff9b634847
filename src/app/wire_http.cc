#include "api/caller.h"
#include "api/console/console.h"
#include "api/inference/inference_routes.h"
#include "api/native/certificates.h"
#include "api/native/openapi.h"
#include "app/stores.h"
#include "app/wiring.h"
#include "base/json.h"
#include "features/quarantine_files.h"
#include "net/address.h"
#include "security/access.h"

namespace falaj::app {
namespace {

// The one question before every handler. There is one principal so far: whoever sits at this
// machine, which is why the server listens on loopback only.
Status gate(const net::Route& route, net::Request& request) {
  static const security::PrincipalPtr kDeveloper = [] {
    security::Principal developer;
    developer.kind = security::PrincipalKind::kUser;
    developer.id = "user:dev";
    developer.name = "dev";
    return std::make_shared<const security::Principal>(std::move(developer));
  }();
  request.principal = kDeveloper->id;
  request.caller = api::make_caller(kDeveloper);
  const security::Decision decision =
      security::decide({.principal = *kDeveloper,
                        .action = route.permission.action(),
                        .loopback_peer = net::is_loopback_address(request.peer)});
  if (decision.allowed) return {};
  return Error{Code::kPermissionDenied, decision.reason};
}

void add_openapi(Http& http) {
  http.router->add(net::Route(
      net::Method::kGet, "/openapi.json", net::Permission::anyone(), net::Target::nothing(),
      "This API as an OpenAPI 3.1 document.", [router = http.router.get()](const net::Request&) {
        return net::Response::json(to_json(api::openapi_document(*router, version_text())));
      }));
}

}  // namespace

Http wire_routes(const Options& options, Tls& tls, catalog::Catalog& catalog, Storage& storage,
                 Features& features, Training& training, Serving& serving,
                 telemetry::Metrics& metrics, const Clock& clock) {
  Http http;
  http.services = std::make_unique<api::Services>(
      api::Services{catalog,
                    *features.ingest,
                    *features.training_sets,
                    [sql = storage.sql.get()](const ProjectName& project) {
                      return features::view_stats(*sql, project);
                    },
                    [&storage](const ProjectName& project, const BlobId& id) {
                      return features::read_quarantine(*storage.sql, *storage.blobs, project, id);
                    },
                    *training.runs,
                    *training.queue,
                    *training.trainer,
                    *training.models,
                    *serving.deployments,
                    *serving.monitors,
                    *serving.loop,
                    *storage.audit,
                    metrics,
                    clock,
                    version_text(),
                    build_text(),
                    clock.now(),
                    storage.key_admin.get(),
                    training.retrain_due.get()});
  http.feed = std::make_unique<api::LiveFeed>(*http.services);
  http.router = std::make_unique<net::Router>();
  for (net::Route& route : api::native_routes(*http.services, *http.feed)) {
    if (route.body_to == net::BodyTo::kFile) route.body_bytes_max = options.upload_bytes_max;
    http.router->add(std::move(route));
  }
  for (net::Route& route : api::certificate_routes(tls.certificates.get())) {
    http.router->add(std::move(route));
  }
  for (net::Route& route : api::inference_routes({*serving.deployments, version_text()})) {
    http.router->add(std::move(route));
  }
  for (net::Route& route : api::console_routes()) http.router->add(std::move(route));
  add_openapi(http);
  return http;
}

Status wire_http(const Options& options, const Tls& tls, Http& http, telemetry::Metrics& metrics) {
  net::ServerOptions server = options.http;
  server.tls = tls.server();
  server.make_spool = [folder = options.data_folder + "/uploads"] { return open_spool(folder); };
  http.server = FALAJ_TRY(net::Server::start(server, *http.router, gate, metrics));
  return {};
}

}  // namespace falaj::app
