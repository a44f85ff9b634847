// api/native/services.h — what the native dialect calls. One service per request, no storage.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "features/export_set.h"
#include "features/ingest.h"
#include "features/training_sets.h"
#include "jobs/queue.h"
#include "loop/controller.h"
#include "monitoring/monitors.h"
#include "net/router.h"
#include "registry/model_file.h"
#include "registry/models.h"
#include "registry/retrain_due.h"
#include "security/access/denials.h"
#include "security/access/emergencies.h"
#include "security/audit.h"
#include "security/audit/receipts.h"
#include "security/keys/key_admin.h"
#include "security/quota/quotas.h"
#include "security/residency/exits.h"
#include "serving/deployments.h"
#include "serving/model_import.h"
#include "serving/rollout/rollouts.h"
#include "tracking/runs.h"
#include "training/train_jobs.h"

namespace falaj::api {

// Takes the subject {key: value} of an entity out of the context's project. What became of it.
using EraseSubject =
    std::function<Result<Value>(const security::RequestContext&, const std::string& entity,
                                const Value& key, security::keys::ShredGround ground)>;

// References into the program's services; they outlive the router.
struct Services {
  catalog::Catalog& catalog;
  features::Ingest& ingest;
  features::TrainingSets& training_sets;
  std::function<Result<std::vector<features::ViewStats>>(const ProjectName&)> view_stats;
  std::function<Result<std::string>(const ProjectName&, const BlobId&)> quarantine;  // Its CSV.
  tracking::Runs& runs;
  jobs::Queue& jobs;
  training::TrainJobs& trainer;
  registry::Models& models;
  serving::ModelImport& model_import;
  serving::Deployments& deployments;
  monitoring::Monitors& monitors;
  loop::Controller& loop;
  security::Audit& audit;
  security::access::Denials& denials;
  security::residency::Exits& exits;
  telemetry::Metrics& metrics;
  const Clock& clock;
  std::string version;
  std::string build;
  Timestamp started_at{};
  // Null where a test has none: their routes and fields are left out.
  security::keys::KeyAdmin* keys = nullptr;
  registry::RetrainDue* retrain_due = nullptr;
  EraseSubject erase{};
  const security::Quotas* quotas = nullptr;
  serving::rollout::Rollouts* rollouts = nullptr;
  security::access::Emergencies* emergencies = nullptr;
  // The id of "user:NAME" or "service:NAME"; an id is its own. Empty: names are taken as they are.
  std::function<std::optional<std::string>(const std::string& subject)> resolve_subject{};
  // What leaves the server as a file.
  std::function<Result<features::ExportedSet>(const security::RequestContext&,
                                              const features::ExportRequest&)>
      export_set{};
  std::function<Result<std::string>(const security::RequestContext&,
                                    const registry::ModelFileRequest&)>
      export_model{};
  const security::Receipts* receipts = nullptr;
  // Protections of jobs that this machine does not grant, by name; /version shows them.
  std::vector<std::string> jobs_unprotected{};
};

class LiveFeed;
class LogFeed;

// Every native route, in the order of the reference page. `feed` outlives the router too.
std::vector<net::Route> native_routes(Services& services, LiveFeed& feed);

// By concern; native_routes() joins them.
std::vector<net::Route> object_routes(Services& services);
std::vector<net::Route> feature_routes(Services& services);
std::vector<net::Route> export_routes(Services& services);
std::vector<net::Route> training_routes(Services& services);
std::vector<net::Route> job_routes(Services& services, LogFeed& logs);
std::vector<net::Route> model_routes(Services& services);
std::vector<net::Route> deployment_routes(Services& services);
std::vector<net::Route> rollout_routes(Services& services);
std::vector<net::Route> monitoring_routes(Services& services);
std::vector<net::Route> access_routes(Services& services);
std::vector<net::Route> audit_routes(Services& services);
std::vector<net::Route> key_routes(Services& services);
std::vector<net::Route> residency_routes(Services& services);
std::vector<net::Route> overview_routes(LiveFeed& feed);
std::vector<net::Route> system_routes(Services& services);

}  // namespace falaj::api
