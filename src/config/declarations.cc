// The settings themselves. Adding one: a row here, a reader in app; the reference page follows.
#include <limits>

#include "config/settings.h"

namespace falaj::config {
namespace {

constexpr std::int64_t kKi = 1024;
constexpr std::int64_t kMi = kKi * 1024;
constexpr std::int64_t kGi = kMi * 1024;
constexpr std::int64_t kTi = kGi * 1024;
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMillisecond;
constexpr std::int64_t kHour = 3'600 * kSecond;

using enum SettingType;

// By key.
const std::vector<Setting> kSettings = {
    {"audit.access_interval", kDuration, "1s",
     "How often the journal of reads and predictions is sealed and entered in the audit log.",
     10 * kMillisecond, kHour},
    {"audit.head_interval", kDuration, "1s", "How often a grown audit log gets a signed tree head.",
     10 * kMillisecond, kHour},
    {"audit.origin", kText, "",
     "The name in every signed tree head; empty: made from the data folder's own id."},
    {"audit.signer_dir", kText, "",
     "Folder for the memory of the process that signs tree heads, on another disk than the data "
     "folder, so that an older copy of all of the data is noticed; empty: in the data folder."},
    {"audit.witness", kText, "",
     "Who cosigns tree heads: a folder (file:///…) or another Falaj (https://…); empty: nobody."},
    {"data.dir", kText, "./falaj-data", "The folder that holds everything Falaj keeps."},
    {"features.join_memory", kBytes, "1Gi",
     "About what freezing a training set may hold besides its spine; past it the spine is joined "
     "in several passes. The set's bytes do not depend on it.",
     kMi, 64 * kTi},
    {"features.parity_every", kInteger, "1000",
     "One online reply of so many is asked again of the offline join, and counted if they differ; "
     "0: none.",
     0, 1'000'000'000},
    {"jobs.concurrency", kInteger, "1", "How many training jobs run at once.", 1, 256},
    {"jobs.disk_max", kBytes, "10Gi",
     "What one command may keep in its folder, and gets unless it asks for less; past it the job "
     "is "
     "killed.",
     kMi, 64 * kTi},
    {"jobs.io_max", kBytes, "0",
     "Bytes a second that one command may read from the data folder's disk, and as many that it "
     "may write; 0: no limit.",
     0, 64 * kTi},
    {"jobs.memory_max", kBytes, "4Gi", "Memory of one job; past it the job is killed.", 64 * kMi,
     64 * kTi},
    {"jobs.network",
     kChoice,
     "none",
     "Whether a command that asks for a network (network: true) is refused, or has this machine's: "
     "then what it reads can leave, and each of its inputs passes the exit 'export' first. For "
     "falaj serve alone.",
     0,
     0,
     {"none", "host"}},
    {"jobs.network_zone", kText, "",
     "The zone to which that network leads; empty: nobody says, and a regime that refuses clients "
     "without a zone refuses such jobs."},
    {"jobs.node_cpus", kInteger, "0",
     "Processors of this machine that jobs share; 0: all that Falaj may use.", 0, 4'096},
    {"jobs.node_memory", kBytes, "0", "Memory of this machine that jobs share; 0: all of it.", 0,
     64 * kTi},
    {"jobs.oci_runtime", kText, "",
     "The program that runs OCI images, by its whole path; empty: runc, or crun where that is what "
     "is installed."},
    {"jobs.processes_max", kInteger, "64", "Processes and threads of one job.", 8, 65'536},
    {"jobs.readable", kText, "",
     "Folders that submitted commands may read beside the system's, separated by ':'."},
    {"jobs.sandbox",
     kChoice,
     "required",
     "Whether a job fails where the machine does not grant its sandbox (no_new_privs, netns, "
     "landlock, seccomp), or runs with what there is.",
     0,
     0,
     {"required", "best_effort"}},
    {"jobs.time_max", kDuration, "1h", "Time of one job; past it the job is stopped.", kSecond,
     24 * 365 * kHour},
    {"jobs.waiting_max", kInteger, "1000", "How many jobs may wait; past it 429 is answered.", 1,
     1'000'000},
    {"jobs.work_dir", kText, "",
     "Folder for the folders and logs of jobs while they run, which lie in clear; empty: in "
     "memory, "
     "below /dev/shm."},
    {"jobs.writable", kText, "",
     "Folders that submitted commands may write, separated by ':'; each job has its own besides."},
    {"keys.passphrase_file", kText, "",
     "File with the passphrase that opens the sealed key file; empty: a machine key in the data "
     "folder, which 'falaj serve' accepts on loopback only."},
    {"keys.pkcs11_module", kText, "", "PKCS#11 library of the HSM, for keys.vault=pkcs11."},
    {"keys.pkcs11_pin_file", kText, "", "File that holds the PIN of the HSM's token."},
    {"keys.pkcs11_token", kText, "", "Label of the HSM's token."},
    {"keys.vault",
     kChoice,
     "file",
     "Where the root keys live: a sealed file, or an HSM by PKCS#11.",
     0,
     0,
     {"file", "pkcs11"}},
    {"keys.vault_file", kText, "",
     "The sealed key file; empty: keys.sealed in the data folder. Another disk is better."},
    {"log.format",
     kChoice,
     "text",
     "How log lines look: text for people, json for machines.",
     0,
     0,
     {"text", "json"}},
    {"log.level",
     kChoice,
     "info",
     "The least severity that is logged.",
     0,
     0,
     {"debug", "info", "warn", "error"}},
    {"log.requests",
     kChoice,
     "failed",
     "Which requests have a line in the log: those that failed in the server, or all of them (at "
     "level info, with project, kind of caller, route, status, time and bytes; nothing personal).",
     0,
     0,
     {"failed", "all"}},
    {"monitor.interval", kDuration, "1s",
     "How often deployments are reconciled, monitors judge new predictions, and the loop takes a "
     "step.",
     10 * kMillisecond, 24 * kHour},
    {"prediction_log.capacity", kInteger, "65536",
     "Predictions held in memory for monitoring; past it the newest are dropped and counted.", 64,
     1 << 24},
    {"security.hash_concurrency", kInteger, "2",
     "Passwords hashed at once; more wait in a short line, then get 429.", 1, 64},
    {"security.model_signers", kText, "",
     "File with the public keys (PEM) of signers whose models are accepted besides this "
     "server's own."},
    {"security.oidc_audience", kText, "falaj", "The audience that bearer tokens must name."},
    {"security.oidc_ca_file", kText, "",
     "Certificates (PEM) that vouch for the identity provider; empty: the system's."},
    {"security.oidc_client_id", kText, "", "The console's client id at the identity provider."},
    {"security.oidc_client_secret_file", kText, "",
     "File with the client secret; empty: a public client with PKCE only."},
    {"security.oidc_groups_claim", kText, "groups", "The claim that lists a caller's groups."},
    {"security.oidc_issuer", kText, "", "URL of the OpenID Connect provider; empty: none."},
    {"security.requests_per_second", kInteger, "0",
     "Requests a second of one principal, and ten times that of one project; 0: no limit.", 0,
     10'000'000},
    {"security.session_idle", kDuration, "30m", "A console session ends after this idle time.",
     kSecond, 24 * kHour},
    {"security.session_max", kDuration, "12h", "A console session ends after this time.", kSecond,
     24 * 30 * kHour},
    {"security.trust_domain", kText, "falaj.local",
     "The SPIFFE trust domain of this deployment's processes."},
    {"server.body_max", kBytes, "256Mi",
     "The largest file sent to ingest or freeze; a larger one gets 413.", kKi, kTi},
    {"server.connections_max", kInteger, "12000",
     "Open connections; further ones are refused until one closes.", 1, 1'000'000},
    {"server.cors_origins", kText, "",
     "Origins of web pages that may ask for predictions (CORS), as https://app.example separated "
     "by ','; empty: none but this server's own."},
    {"server.drain", kDuration, "10s",
     "How long running requests may go on when the program is replaced (SIGUSR2).",
     10 * kMillisecond, kHour},
    {"server.grpc_port", kInteger, "7071",
     "The port of the inference protocol over gRPC; 0 lets the system choose.", 0, 65'535},
    {"server.header_timeout", kDuration, "10s",
     "How long a client may take to send its request's head.", 10 * kMillisecond, kHour},
    {"server.host", kText, "127.0.0.1",
     "The address to listen on; beyond loopback needs TLS and an administrator."},
    {"server.idle_timeout", kDuration, "75s", "How long an idle connection is kept open.",
     10 * kMillisecond, 24 * kHour},
    {"server.port", kInteger, "7070", "The HTTP port; 0 lets the system choose.", 0, 65'535},
    {"server.public_url", kText, "",
     "The address people use, for redirects and the setup link; empty: the one listened on."},
    {"server.threads", kInteger, "2", "Event-loop threads of the HTTP server.", 1, 256},
    {"server.tls_cert", kText, "", "File with the TLS certificate chain (PEM)."},
    {"server.tls_key", kText, "", "File with the TLS private key (PEM)."},
    {"serving.isolated_answer", kDuration, "5s",
     "How long a model in a process of its own may take for one answer; past it the process is "
     "ended and started again.",
     10 * kMillisecond, kHour},
    {"serving.isolated_memory", kBytes, "2Gi",
     "Memory of a model in a process of its own; past it the process is ended and started again.",
     64 * kMi, 64 * kTi},
    {"serving.memory", kBytes, "0",
     "Memory that all loaded models may have together; a load that would pass it is refused. 0: "
     "half of the machine's, or of the control group's limit.",
     0, 64 * kTi},
    {"serving.runtimes", kText, "",
     "Libraries that run models for Deployments that name them (falaj/runtime.h), as NAME=PATH "
     "separated by ':'."},
    {"serving.threads", kInteger, "1",
     "Threads that run one request of a model, from one pool for all models; 0: as many as the "
     "processors that Falaj may use (affinity, cpuset and quota).",
     0, 256},
    {"storage.online",
     kChoice,
     "rocksdb",
     "Where the durable copy of online rows lies: in the data folder, or in a Redis server.",
     0,
     0,
     {"rocksdb", "redis"}},
    {"storage.redis.ca_file", kText, "",
     "Certificates (PEM) that vouch for the Redis server; empty: the system's."},
    {"storage.redis.cert_file", kText, "",
     "File with the certificate chain (PEM) that is shown to a Redis server that asks for one."},
    {"storage.redis.durability",
     kChoice,
     "checked",
     "Whether the start refuses a Redis server that could lose acknowledged rows (appendonly, "
     "appendfsync, maxmemory-policy), or somebody vouches for one that does not let itself be "
     "asked.",
     0,
     0,
     {"checked", "vouched"}},
    {"storage.redis.key_file", kText, "", "File with the private key (PEM) of that certificate."},
    {"storage.redis.password_file", kText, "",
     "File with the password of the Redis user, readable by its owner only; empty: none."},
    {"storage.redis.prefix", kText,
     "falaj:", "What every key in Redis begins with; two deployments never share one."},
    {"storage.redis.replicas", kInteger, "0",
     "How many replicas must have a write before it is acknowledged (WAIT); 0: the server alone.",
     0, 16},
    {"storage.redis.timeout", kDuration, "10s",
     "How long to wait for a connection to Redis, and for a reply.", 10 * kMillisecond, kHour},
    {"storage.redis.url", kText, "",
     "The Redis server: rediss://[user@]host:port/database; redis:// on this machine only."},
    {"storage.redis.zone", kText, "",
     "The zone in which the Redis server stands; storage.online=redis needs it. Rows pass the "
     "write "
     "exit into it."},
    {"zone.executor", kText, "", "The zone of this machine; empty: the projects' own zones."},
};

}  // namespace

const std::vector<Setting>& declared() { return kSettings; }

}  // namespace falaj::config
