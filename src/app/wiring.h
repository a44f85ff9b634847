// app/wiring.h — how the program is put together: one small struct of owned services per concern.
//
// Members stand in the order in which they start; destruction is the reverse. Each
// wire_<concern>.cc builds one struct from options and the structs before it. Nothing holds "the
// application".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/gate.h"
#include "api/native/live_feed.h"
#include "api/native/online_desk.h"
#include "api/native/services.h"
#include "app/generations.h"
#include "app/options.h"
#include "app/peer.h"
#include "catalog/catalog.h"
#include "exec/timers.h"
#include "features/erasure.h"
#include "features/explain.h"
#include "features/ingest.h"
#include "features/online.h"
#include "features/parity.h"
#include "features/push.h"
#include "features/training_sets.h"
#include "jobs/command.h"
#include "jobs/executor.h"
#include "jobs/queue.h"
#include "jobs/runtimes.h"
#include "loop/controller.h"
#include "monitoring/monitors.h"
#include "monitoring/webhooks.h"
#include "net/grpc_server.h"
#include "net/server.h"
#include "registry/models.h"
#include "registry/retrain_due.h"
#include "security/audit.h"
#include "security/audit/heads.h"
#include "security/audit/journal.h"
#include "security/audit/receipts.h"
#include "security/certificates/certificates.h"
#include "security/evidence/evidence.h"
#include "security/identity/identity.h"
#include "security/keys/key_admin.h"
#include "security/keys/key_tree.h"
#include "security/quota/quotas.h"
#include "security/residency/exits.h"
#include "security/signing/model_trust.h"
#include "serving/deployments.h"
#include "serving/model_import.h"
#include "serving/rollout/rollouts.h"
#include "storage/open.h"
#include "telemetry/metrics.h"
#include "tracking/runs.h"
#include "training/train_jobs.h"

namespace falaj::app {

struct Keys {
  std::string path;  // keys.db: wrapped keys, and the names of what they are for.
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<security::keys::KeyVault> vault;
  std::unique_ptr<security::keys::KeyTree> tree;
};
// Opens the vault and the key tree; the data folder exists and is locked. A new folder gets a new
// sealed file; where keys.db is, the vault must be there too (FJ-7040).
Result<Keys> wire_keys(const Options& options, const Clock& clock);

struct Storage {
  std::unique_ptr<storage::FolderLock> lock;
  Keys keys;
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<storage::KvStore> kv;
  std::unique_ptr<storage::BlobStore> blobs;
  std::unique_ptr<Generations> generations;
  std::unique_ptr<security::Audit> audit;
  std::unique_ptr<security::keys::KeyAdmin> key_admin;
  std::unique_ptr<security::ModelTrust> model_trust;
  std::unique_ptr<security::residency::Exits> exits;
  std::unique_ptr<security::Quotas> quotas;
};
// Of every module, in their order: all tables of the metadata.
std::vector<storage::Migration> all_migrations();
// Locks the folder, opens the stores, applies every module's migrations. FJ-7051 when one of the
// stores is an old copy.
Result<Storage> wire_storage(const Options& options, const Clock& clock);

struct Training;
struct Serving;

// Who vouches for the audit log, and what it shows to readers outside.
struct AuditTrail {
  std::unique_ptr<security::OpeningVault> openings;
  std::unique_ptr<security::Signer> signer;  // A process of its own.
  std::unique_ptr<Peer> peer;                // The witness's server, if it is one.
  std::unique_ptr<security::Witness> witness;
  std::unique_ptr<security::Heads> heads;
  std::unique_ptr<security::Receipts> receipts;
  std::unique_ptr<security::EvidenceDesk> evidence;
  std::unique_ptr<security::AccessJournal> journal;  // Of reads and predictions.
};
// Starts the signer and holds the log against what it and the witness know: FJ-7051 for a data
// folder that was set back.
// Where the signer's memory lies.
std::string signer_folder(const std::string& data_folder, const AuditOptions& audit);
Result<AuditTrail> wire_audit(const Options& options, Storage& storage, const Clock& clock);
// Once the services it reports on are there.
void wire_evidence(const Options& options, AuditTrail& trail, Storage& storage,
                   security::Identity& identity, Training& training, const Clock& clock);

// What the server shows to its clients and whom of them it knows by certificate.
struct Tls {
  std::unique_ptr<security::Certificates> certificates;  // Null in `falaj dev`.
  TlsFiles files;
  net::TlsIdentity from_files;  // As last read.

  // For the server; an empty identity for plain HTTP.
  net::ServerTls server() const;
  // Gives the server a renewed certificate when it is time or the files have changed. Files that
  // cannot be used are an error, and what was shown before stays.
  Status tick(net::Server& server, net::GrpcServer* grpc);
};
// FJ-7003 when the server would listen beyond loopback without being allowed to.
Result<Tls> wire_tls(const Options& options, Storage& storage, const Clock& clock);
// FJ-7003 when nobody could administer a server that listens beyond this machine.
enum class Administrators : std::uint8_t { kNone, kSome };
Status check_listening(const Options& options, Administrators administrators);
// Knows the zones that are declared by now.
Result<std::unique_ptr<security::residency::Exits>> wire_exits(const Options& options,
                                                               Storage& storage,
                                                               const Clock& clock);

// Who asks. `make_administrator` gives everything to a principal (the setup link's).
struct IdentityHooks {
  std::function<Status(const std::string& principal_id)> make_administrator;
  std::function<void()> users_changed;
  telemetry::Metrics* metrics = nullptr;
};
// Local users and tokens, and the identity provider when one is set. In `falaj dev`, who shows no
// credential is the local developer.
Result<std::unique_ptr<security::Identity>> wire_identity(const Options& options, Storage& storage,
                                                          const Clock& clock, IdentityHooks hooks);

struct AccessControl {
  std::unique_ptr<security::access::Access> access;
  std::unique_ptr<security::access::Denials> denials;
  std::unique_ptr<security::access::Emergencies> emergencies;
  std::unique_ptr<api::Gate> gate;  // Made by wire_gate, once there is something to guard.
};
// What holds besides the declared grants: in `falaj dev`, the local developer's.
std::vector<security::access::Grant> built_in_grants(const Options& options);
Result<AccessControl> wire_access(const Options& options, Storage& storage,
                                  const security::Identity& identity, telemetry::Metrics& metrics,
                                  const Clock& clock);

struct Features {
  std::unique_ptr<features::ParitySamples> samples;  // The online rows below add to them.
  std::unique_ptr<features::Parity> parity;
  std::unique_ptr<features::Online> online;
  std::unique_ptr<features::Ingest> ingest;
  std::unique_ptr<features::Pushes> pushes;
  std::unique_ptr<features::Explainer> explainer;
  std::unique_ptr<features::TrainingSets> training_sets;
};
Result<Features> wire_features(const FeatureOptions& options, Storage& storage,
                               telemetry::Metrics& metrics, const Clock& clock);

struct Training {
  std::unique_ptr<tracking::Runs> runs;
  std::unique_ptr<registry::Models> models;
  std::unique_ptr<registry::RetrainDue> retrain_due;
  std::unique_ptr<jobs::Executor> executor;
  std::unique_ptr<jobs::Queue> queue;
  std::unique_ptr<jobs::Runtimes> runtimes;
  std::unique_ptr<training::TrainJobs> trainer;
  std::string work_folder;               // Of jobs while they run; "": not in memory.
  std::vector<std::string> unprotected;  // What this machine does not grant to jobs, by name.
  ~Training();                           // Stops the queue before the handler it calls.
  Training() = default;
  Training(Training&&) = default;
  Training& operator=(Training&&) = default;
};
// Who jobs are, and where those with a network find the server. `server` is read whenever a command
// begins, so it is set before the queue starts; both outlive what is made.
struct JobDoor {
  security::JobIdentities& identities;
  const jobs::CommandIdentity::Server& server;
};
Result<Training> wire_training(const Options& options, Storage& storage, JobDoor door,
                               Features& features, telemetry::Metrics& metrics, const Clock& clock);
// Puts off the end of the tokens of jobs that run. Call every few seconds.
void renew_job_tokens(security::JobIdentities& identities, const jobs::Queue& queue,
                      const Clock& clock);

// Retention is asked before keys are destroyed; models that learned from shredded data are marked;
// receipts that a crash kept from the audit log are entered, and erasures it cut short finished.
Status wire_shredding(Storage& storage, Features& features, Training& training, Serving& serving);
// One person's rows out of every view, the frozen sets that hold them shredded, and answers about
// anyone of the project that deployments keep dropped.
api::EraseSubject eraser_of(Storage& storage, Features& features, Serving& serving);

struct Serving {
  std::unique_ptr<serving::Runtime> runtime;
  std::unique_ptr<serving::PredictionSink> sink;
  std::unique_ptr<serving::rollout::Recordings> recordings;
  std::unique_ptr<serving::Deployments> deployments;
  std::unique_ptr<serving::rollout::Rollouts> rollouts;
  std::unique_ptr<serving::ModelImport> model_import;
  std::unique_ptr<monitoring::Monitors> monitors;
  std::unique_ptr<monitoring::Webhooks> webhooks;
  std::unique_ptr<loop::Controller> loop;
};
Result<Serving> wire_serving(const Options& options, Storage& storage, Features& features,
                             Training& training, telemetry::Metrics& metrics, const Clock& clock);

struct Http {
  std::unique_ptr<api::Services> services;
  std::unique_ptr<api::LiveFeed> feed;
  std::unique_ptr<api::OnlineDesk> desk;
  std::unique_ptr<net::Router> router;
  std::unique_ptr<net::Server> server;
  std::vector<net::GrpcMethod> grpc_methods;  // Whether or not they are served.
  std::unique_ptr<net::GrpcServer> grpc;      // null: not served.
};
// Who may pass to the routes' handlers.
void wire_gate(const Options& options, AccessControl& control, security::Identity& identity,
               const Tls& tls, AuditTrail& trail, Storage& storage, Serving& serving,
               telemetry::Metrics& metrics);
// Declares every route and gRPC method of every dialect, without listening.
Http wire_routes(const Options& options, Tls& tls, AuditTrail& trail, catalog::Catalog& catalog,
                 AccessControl& control, Storage& storage, Features& features, Training& training,
                 Serving& serving, telemetry::Metrics& metrics, const Clock& clock);
// Listens.
Status wire_http(const Options& options, const Tls& tls, AccessControl& control,
                 security::Identity& identity, Http& http, telemetry::Metrics& metrics);
// Listens for gRPC as well, if the options say so. After wire_http.
Status wire_grpc(const Options& options, const Tls& tls, AccessControl& control, Http& http,
                 telemetry::Metrics& metrics);

// "0.1.0" and the commit it was built from.
std::string version_text();
std::string build_text();

}  // namespace falaj::app
