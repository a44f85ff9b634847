#include "api/console/console.h"
#include "api/feast/feast_routes.h"
#include "api/inference/grpc_methods.h"
#include "api/inference/inference_routes.h"
#include "api/native/certificates.h"
#include "api/native/identity.h"
#include "api/native/openapi.h"
#include "api/native/profiles.h"
#include "api/native/proofs.h"
#include "app/stores.h"
#include "app/wiring.h"
#include "base/json.h"
#include "base/log.h"
#include "features/quarantine_files.h"

namespace falaj::app {
namespace {

void add_openapi(Http& http) {
  http.router->add(
      net::Route(net::Method::kGet, "/openapi.json", net::Permission("account.use"),
                 net::Target::platform("Server"), "This API as an OpenAPI 3.1 document.",
                 [router = http.router.get(), methods = http.grpc_methods](const net::Request&) {
                   return net::Response::json(
                       to_json(api::openapi_document(*router, methods, version_text())));
                 }));
}

void wire_exports(Storage& storage, Features& features, Training& training,
                  api::Services& services) {
  services.export_set = [&storage, sets = features.training_sets.get()](
                            const security::RequestContext& context,
                            const features::ExportRequest& request) {
    return features::export_set(*sets, *storage.blobs, *storage.audit, context, request);
  };
  services.export_model = [&storage, models = training.models.get()](
                              const security::RequestContext& context,
                              const registry::ModelFileRequest& request) {
    return registry::export_file(*models, *storage.blobs, *storage.audit, context, request);
  };
}

std::vector<net::Route> profile_routes_of(Storage& storage, const Clock& clock) {
  return api::profile_routes(
      [&storage](const ProjectName& project, const std::string& view,
                 const features::ProfileQuery& query) {
        return features::read_profiles(*storage.sql, *storage.blobs, project, view, query);
      },
      [&storage, &clock](const ProjectName& project) {
        return features::read_arrivals(*storage.sql, project, clock.now());
      });
}

// Whether who asks what the request names may have to wait, which an event loop must not.
bool waits_for_model(const serving::Deployments& deployments, const net::Request& request) {
  for (const char* parameter : {"name", "model"}) {
    const auto named = request.params.find(parameter);
    if (named != request.params.end() && deployments.may_wait(named->second)) return true;
  }
  return false;
}

}  // namespace

Http wire_routes(const Options& options, Tls& tls, AuditTrail& trail, catalog::Catalog& catalog,
                 AccessControl& control, Storage& storage, Features& features, Training& training,
                 Serving& serving, telemetry::Metrics& metrics, const Clock& clock) {
  Http http;
  http.services = std::make_unique<api::Services>(
      api::Services{catalog,
                    *features.ingest,
                    *features.training_sets,
                    [&storage, online = features.online.get()](const ProjectName& project) {
                      return features::view_stats(*storage.sql, online, project);
                    },
                    [&storage](const ProjectName& project, const BlobId& id) {
                      return features::read_quarantine(*storage.sql, *storage.blobs, project, id);
                    },
                    *training.runs,
                    *training.queue,
                    *training.trainer,
                    *training.models,
                    *serving.model_import,
                    *serving.deployments,
                    *serving.monitors,
                    *serving.loop,
                    *storage.audit,
                    *control.denials,
                    *storage.exits,
                    metrics,
                    clock,
                    version_text(),
                    build_text(),
                    clock.now(),
                    storage.key_admin.get(),
                    training.retrain_due.get(),
                    eraser_of(storage, features, serving)});
  http.services->quotas = storage.quotas.get();
  http.services->receipts = trail.receipts.get();
  http.services->rollouts = serving.rollouts.get();
  http.services->emergencies = control.emergencies.get();
  wire_exports(storage, features, training, *http.services);
  http.services->jobs_unprotected = training.unprotected;
  http.feed = std::make_unique<api::LiveFeed>(*http.services);
  http.desk.reset(
      new api::OnlineDesk{*features.online, *features.pushes, *features.explainer, catalog, clock});
  http.router = std::make_unique<net::Router>();
  for (net::Route& route : api::native_routes(*http.services, *http.feed)) {
    if (route.body_to == net::BodyTo::kFile) route.body_bytes_max = options.upload_bytes_max;
    http.router->add(std::move(route));
  }
  for (net::Route& route : api::online_routes(*http.desk)) http.router->add(std::move(route));
  for (net::Route& route : profile_routes_of(storage, clock)) http.router->add(std::move(route));
  for (net::Route& route : api::feast_routes(*http.desk)) http.router->add(std::move(route));
  for (net::Route& route :
       api::proof_routes({*trail.heads, *trail.evidence, *storage.exits, clock})) {
    http.router->add(std::move(route));
  }
  for (net::Route& route : api::certificate_routes(tls.certificates.get())) {
    http.router->add(std::move(route));
  }
  const api::InferenceServices inference{*serving.deployments, catalog, version_text(),
                                         trail.receipts.get()};
  for (net::Route& route : api::inference_routes(inference)) http.router->add(std::move(route));
  for (net::Route& route : api::console_routes()) http.router->add(std::move(route));
  http.grpc_methods = api::grpc_methods({inference, *http.router});
  add_openapi(http);
  return http;
}

Status wire_http(const Options& options, const Tls& tls, AccessControl& control,
                 security::Identity& identity, Http& http, telemetry::Metrics& metrics) {
  net::ServerOptions server = options.http;
  server.tls = tls.server();
  http.services->resolve_subject = [&identity](const std::string& subject) {
    return identity.resolve(subject);
  };
  server.make_spool = [folder = options.data_folder + "/uploads"] { return open_spool(folder); };
  // With a bound for online rows a prediction may have to fetch some from the durable copy.
  const bool fetches = options.features.online_memory > 0;
  server.gate_blocks = [&identity, fetches,
                        &models = http.services->deployments](const net::Request& request) {
    return api::Gate::blocks(request) || waits_for_model(models, request) ||
           (fetches && request.path.ends_with(":predict")) ||
           identity.cost(api::credentials_of(request)) == security::Identity::Cost::kBlocks;
  };
  http.server = FALAJ_TRY(net::Server::start(
      server, *http.router,
      [gate = control.gate.get()](const net::Route& route, net::Request& request) {
        return gate->pass(route, request);
      },
      metrics));
  return {};
}

Status wire_grpc(const Options& options, const Tls& tls, AccessControl& control, Http& http,
                 telemetry::Metrics& metrics) {
  if (!options.grpc_port.has_value()) return {};
  net::GrpcOptions grpc;
  grpc.host = options.http.host;
  grpc.port = *options.grpc_port;
  grpc.listening = options.grpc_listening;
  grpc.tls = tls.server();
  grpc.pool_threads = options.http.pool_threads;
  grpc.allowed_hosts = options.http.allowed_hosts;
  grpc.on_answered = options.http.on_answered;
  Result<std::unique_ptr<net::GrpcServer>> started = net::GrpcServer::start(
      grpc, http.grpc_methods,
      [gate = control.gate.get()](const net::Route& route, net::Request& request) {
        return gate->pass(route, request);
      },
      metrics);
  if (!started.ok()) {
    if (options.grpc_required || started.error().id != ErrorId::kPortInUse) {
      return started.error().within("gRPC");
    }
    log::warn("gRPC is not served: its default port is taken; choose another with --grpc-port",
              {{"port", grpc.port}});
    return {};
  }
  http.grpc = std::move(started).value();
  return {};
}

}  // namespace falaj::app
