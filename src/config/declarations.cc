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

}  // namespace

const std::vector<Setting>& declared() {
  using enum SettingType;
  static const std::vector<Setting> settings = {
      {"data.dir", kText, "./falaj-data", "The folder that holds everything Falaj keeps."},
      {"jobs.concurrency", kInteger, "1", "How many jobs run at once on this machine.", 1, 256},
      {"jobs.memory_max", kBytes, "4Gi", "Memory of one job; past it the job is killed.", 64 * kMi,
       64 * kTi},
      {"jobs.sandbox",
       kChoice,
       "required",
       "Whether a job fails where the machine does not grant its sandbox (no_new_privs, landlock, "
       "seccomp), or runs with what there is.",
       0,
       0,
       {"required", "best_effort"}},
      {"jobs.time_max", kDuration, "1h", "Time of one job; past it the job is stopped.", kSecond,
       24 * 365 * kHour},
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
      {"monitor.interval", kDuration, "1s",
       "How often deployments are reconciled, monitors judge new predictions, and the loop takes a "
       "step.",
       10 * kMillisecond, 24 * kHour},
      {"prediction_log.capacity", kInteger, "65536",
       "Predictions held in memory for monitoring; past it the newest are dropped and counted.", 64,
       1 << 24},
      {"server.body_max", kBytes, "256Mi",
       "The largest file sent to ingest or freeze; a larger one gets 413.", kKi, kTi},
      {"server.connections_max", kInteger, "12000",
       "Open connections; further ones are refused until one closes.", 1, 1'000'000},
      {"server.grpc_port", kInteger, "7071",
       "Reserved for the gRPC dialect: nothing listens on it yet.", 0, 65'535},
      {"server.header_timeout", kDuration, "10s",
       "How long a client may take to send its request's head.", 10 * kMillisecond, kHour},
      {"server.host", kText, "127.0.0.1",
       "The address to listen on; beyond loopback needs TLS and an administrator."},
      {"server.idle_timeout", kDuration, "75s", "How long an idle connection is kept open.",
       10 * kMillisecond, 24 * kHour},
      {"server.port", kInteger, "7070", "The HTTP port; 0 lets the system choose.", 0, 65'535},
      {"server.threads", kInteger, "2", "Event-loop threads of the HTTP server.", 1, 256},
      {"server.tls_cert", kText, "", "File with the TLS certificate chain (PEM)."},
      {"server.tls_key", kText, "", "File with the TLS private key (PEM)."},
      {"serving.threads", kInteger, "1", "Threads inside one model's runtime.", 1, 256},
  };
  return settings;
}

}  // namespace falaj::config
