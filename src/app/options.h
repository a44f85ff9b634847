// app/options.h — what the settings and the command line decide about a server, one struct per
// concern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "net/server.h"
#include "storage/redis/redis.h"
#include "training/train_jobs.h"

namespace falaj::app {

// The files of a certificate that somebody else manages (server.tls_cert, server.tls_key).
struct TlsFiles {
  std::string chain;
  std::string key;
};

// How callers reach the server and who may. kLoopback: `falaj dev`, one user on this machine, plain
// HTTP. kProduction: `falaj serve`, TLS 1.3 and an identity from everyone, on loopback too.
struct ListenOptions {
  enum class Mode : std::uint8_t { kLoopback, kProduction } mode = Mode::kLoopback;
  TlsFiles files;  // Empty: certificates of the deployment's own authority.
  std::string trust_domain = "falaj.local";
  std::string public_url;  // What people type; "": the address listened on.
};

// Where the root keys live; the settings keys.*.
struct KeyOptions {
  enum class Vault : std::uint8_t { kFile, kPkcs11 } vault = Vault::kFile;
  std::string vault_file;       // "": keys.sealed in the data folder.
  std::string passphrase_file;  // "": a machine key in the data folder.
  std::string pkcs11_module;
  std::string pkcs11_token;
  std::string pkcs11_pin_file;
};

// Who may ask; the settings security.*.
struct IdentitySettings {
  Duration session_idle = Duration::minutes(30);
  Duration session_max = Duration::hours(12);
  std::size_t hash_concurrency = 2;
  std::string oidc_issuer;  // "": no identity provider.
  std::string oidc_audience = "falaj";
  std::string oidc_client_id;
  std::string oidc_client_secret_file;
  std::string oidc_groups_claim = "groups";
  std::string oidc_ca_file;
};

// The Redis server of online rows; the settings storage.redis.*.
struct RedisSettings {
  std::string url;
  std::string password_file;  // "": none.
  std::string ca_file;        // "": the system's authorities.
  std::string cert_file;      // Shown to a server that asks; with key_file.
  std::string key_file;
  std::string prefix = "falaj:";
  storage::redis::Options::Durability durability = storage::redis::Options::Durability::kChecked;
  std::int64_t replicas = 0;
  Duration timeout = Duration::seconds(10);
  std::string zone;  // Where that server is; must be named.
};

// Where the durable copy of online rows lies; the settings storage.*.
struct OnlineOptions {
  enum class Engine : std::uint8_t { kRocksDb, kRedis } engine = Engine::kRocksDb;
  RedisSettings redis;
};

// The audit log's heads; the settings audit.*.
struct AuditOptions {
  Duration head_interval = Duration::seconds(1);
  Duration access_interval = Duration::seconds(1);
  std::string origin;      // "": made once, at random.
  std::string witness;     // "file:///folder", "https://other", "": nobody.
  std::string signer_dir;  // "": signer/ in the data folder.
};

// The settings features.*.
struct FeatureOptions {
  std::int64_t join_memory = std::int64_t{1} << 30;  // Of freezing a training set.
  std::int64_t parity_every = 1'000;  // One online reply of so many is asked again offline.
};

// Which network commands have that ask for one.
enum class JobsNetwork : std::uint8_t { kNone, kHost };

struct Options {
  std::string data_folder = "falaj-data";
  KeyOptions keys;
  OnlineOptions online;
  FeatureOptions features;
  net::ServerOptions http;
  std::optional<std::uint16_t> grpc_port;  // nullopt: no gRPC.
  // Whether gRPC must be served: a default port that another process has is only warned of.
  bool grpc_required = false;
  int grpc_listening = -1;                 // As net::ServerOptions::listening.
  Duration drain = Duration::seconds(10);  // Of what runs when the program is replaced.
  std::int64_t upload_bytes_max = std::int64_t{256} << 20;  // Of one file sent to ingest or freeze.
  unsigned job_concurrency = 1;
  std::int64_t job_memory_max = std::int64_t{4} << 30;
  Duration job_time_max = Duration::hours(1);
  std::int64_t job_disk_max = std::int64_t{10} << 30;
  std::int64_t job_processes_max = 64;
  std::int64_t job_io_max = 0;  // Bytes a second; 0: no limit.
  training::SandboxPolicy job_sandbox = training::SandboxPolicy::kRequired;
  std::size_t jobs_waiting_max = 1000;
  std::int64_t node_cpus = 0;    // For jobs; 0: the machine's.
  std::int64_t node_memory = 0;  // The same.
  std::string jobs_readable;     // "/srv/code:/srv/data"
  std::string jobs_writable;
  JobsNetwork jobs_network = JobsNetwork::kNone;
  std::string jobs_network_zone;    // Where it leads; "": nobody said.
  std::string jobs_work_dir;        // "": in memory.
  std::string oci_runtime;          // "": what is installed.
  std::string model_signers;        // PEM: whose signatures count on models from elsewhere.
  unsigned serving_threads = 1;     // 0: as many as processors.
  std::int64_t serving_memory = 0;  // Of all models; 0: half of what there is.
  std::int64_t isolated_memory = std::int64_t{2} << 30;  // Of a model in a process of its own.
  Duration isolated_answer = Duration::seconds(5);       // Past it the process is ended.
  std::map<std::string, std::string> runtimes;           // Libraries by the name Deployments give.
  std::size_t prediction_capacity = 65'536;
  Duration tick_interval = Duration::seconds(1);
  ListenOptions listen;
  std::int64_t requests_per_second = 0;  // Of one principal; 0: no limit.
  IdentitySettings identity;
  AuditOptions audit;
  std::string machine_zones;  // "ae-fin, ae-health"; empty: the projects' own.
};

}  // namespace falaj::app
