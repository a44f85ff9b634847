#include "app/serve.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "api/access_log.h"
#include "app/program.h"
#include "app/restart.h"
#include "app/zoned_log.h"
#include "base/log.h"
#include "cli/connection.h"
#include "cli/local_file.h"
#include "exec/dumps.h"
#include "serving/plugin/plugin_runtime.h"
#include "telemetry/log_sinks.h"

namespace falaj::app {
namespace {

const SystemClock& system_clock() {
  static const SystemClock clock;
  return clock;
}

// SIGTERM and SIGINT stop, SIGUSR2 replaces the program. Blocked before any thread starts, so that
// only the waiting main thread ever takes them.
sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR2);
  return set;
}

ZonedLog& start_logging(const config::Settings& settings) {
  const auto format = settings.text("log.format") == "json" ? telemetry::LogFormat::kJson
                                                            : telemetry::LogFormat::kText;
  static std::unique_ptr<ZonedLog> sink;
  sink = std::make_unique<ZonedLog>(telemetry::make_log_sink(format, 2, system_clock()));
  const Result<log::Level> level = telemetry::parse_log_level(settings.text("log.level"));
  log::set_sink(sink.get(), level.value_or(log::Level::kInfo));
  return *sink;
}

// `settings` are the words that name the same folder and vault to a command of this machine.
void print_banner(const Program& program, const Options& options, const std::string& settings) {
  if (const security::Certificates* certificates = program.certificates()) {
    const std::string link = program.setup_link();
    // Until there is an administrator, the server can be reached on loopback only.
    const bool known = link.empty() && !options.listen.public_url.empty();
    const std::string console = known ? options.listen.public_url : program.url();
    std::fprintf(stderr,
                 "  Falaj %s   data %s   TLS 1.3, an identity from everyone\n"
                 "  Console   %s\n"
                 "  Clients   falaj ... --server %s --ca %s\n"
                 "  Authority sha256:%s   (--ca takes this as well)\n"
                 "  Health    falaj doctor %s   Stop: Ctrl-C\n",
                 version_text().c_str(), options.data_folder.c_str(), console.c_str(),
                 program.url().c_str(), certificates->authority_file().c_str(),
                 certificates->fingerprint().c_str(), settings.c_str());
    if (!link.empty()) {
      std::fprintf(stderr,
                   "  Setup     %s\n"
                   "            opens once, until somebody used it: makes the first administrator\n"
                   "            (or: falaj setup LINK --user NAME --ca %s)\n",
                   link.c_str(), certificates->authority_file().c_str());
    }
    return;
  }
  std::fprintf(stderr,
               "  Falaj %s   data %s   one user, this machine only\n"
               "  Console   %s\n"
               "  Demo      falaj demo --server %s\n"
               "  Health    falaj doctor %s   Stop: Ctrl-C\n",
               version_text().c_str(), options.data_folder.c_str(), program.url().c_str(),
               program.url().c_str(), settings.c_str());
}

// "--data data --config falaj.yaml": what a command needs to open the same folder and vault.
std::string words_of(const config::Settings& settings) {
  constexpr std::string_view kFile = "file ";
  std::string words = "--data " + settings.text("data.dir");
  if (settings.origin("keys.vault") == config::Origin::kFile) {
    words += " --config " + settings.origin_text("keys.vault").substr(kFile.size());
  }
  for (const config::Setting& setting : settings.declarations()) {
    const bool flag = settings.origin(setting.key) == config::Origin::kFlag;
    if (!flag || !setting.key.starts_with("keys.")) continue;
    words += " --set " + std::string(setting.key) + "=" + settings.text(setting.key);
  }
  return words;
}

void say_ready(const Program& program, const Options& options, const config::Settings& settings) {
  print_banner(program, options, words_of(settings));
  std::printf("ready %s\n", program.url().c_str());
  if (const std::string grpc = program.grpc_address(); !grpc.empty()) {
    std::printf("grpc %s\n", grpc.c_str());
  }
  std::fflush(stdout);
}

// What a start reads besides the data folder.
Status check_files(const Options& options) {
  const auto readable = [](std::string_view setting, const std::string& path) -> Status {
    if (path.empty() || ::access(path.c_str(), R_OK) == 0) return {};
    return Error(ErrorId::kInvalidArgument,
                 std::string(setting) + " names '" + path + "', which cannot be read");
  };
  FALAJ_TRY(readable("server.tls_cert", options.listen.files.chain));
  FALAJ_TRY(readable("server.tls_key", options.listen.files.key));
  FALAJ_TRY(readable("keys.vault_file", options.keys.vault_file));
  FALAJ_TRY(readable("keys.pkcs11_pin_file", options.keys.pkcs11_pin_file));
  return readable("keys.passphrase_file", options.keys.passphrase_file);
}

// Whether the program was stopped, or is to be replaced; then `left` are its sockets.
enum class Ended : std::uint8_t { kStopped, kReplaced };

Result<Listeners> make_way(Program& program, const Options& options, const siginfo_t& asked) {
  Value detail;
  detail["asked_by_uid"] = static_cast<std::int64_t>(asked.si_uid);
  detail["version"] = version_text();
  const Result<Successor> next = successor();
  const Status checked = next.ok() ? check(*next, all_migrations().size()) : Status(next.error());
  if (next.ok()) detail["program"] = next->program;
  if (!checked.ok()) detail["refused"] = checked.error().message;
  FALAJ_TRY(program.note_restart(std::move(detail)));
  FALAJ_TRY(checked);
  return program.retire(options.drain);
}

Ended wait_for_end(Program& program, const Options& options, const sigset_t& signals,
                   Listeners& left) {
  while (true) {
    siginfo_t received{};
    const int signal = ::sigwaitinfo(&signals, &received);
    if (signal < 0) continue;  // Stopped and continued meanwhile.
    if (signal != SIGUSR2) {
      log::info("stopping", {{"signal", signal}});
      return Ended::kStopped;
    }
    log::info("restarting", {{"asked_by_uid", static_cast<std::int64_t>(received.si_uid)}});
    Result<Listeners> kept = make_way(program, options, received);
    if (kept.ok()) {
      left = std::move(*kept);
      return Ended::kReplaced;
    }
    log::error("not restarted; this program serves on", {{"why", kept.error().message}});
  }
}

void give_way(const Listeners& left) {
  const Result<Successor> next = successor();
  const Error failed = next.ok() ? become(*next, left) : next.error();
  log::error("not replaced; this program starts again", {{"why", failed.message}});
}

class RunningProgram final : public cli::LocalServer {
 public:
  explicit RunningProgram(std::unique_ptr<Program> program) : program_(std::move(program)) {}
  std::string url() const override { return program_->url(); }

 private:
  std::unique_ptr<Program> program_;
};

IdentitySettings identity_settings_of(const config::Settings& settings) {
  IdentitySettings identity;
  identity.session_idle = settings.duration("security.session_idle");
  identity.session_max = settings.duration("security.session_max");
  identity.hash_concurrency =
      static_cast<std::size_t>(settings.integer("security.hash_concurrency"));
  identity.oidc_issuer = settings.text("security.oidc_issuer");
  identity.oidc_audience = settings.text("security.oidc_audience");
  identity.oidc_client_id = settings.text("security.oidc_client_id");
  identity.oidc_client_secret_file = settings.text("security.oidc_client_secret_file");
  identity.oidc_groups_claim = settings.text("security.oidc_groups_claim");
  identity.oidc_ca_file = settings.text("security.oidc_ca_file");
  return identity;
}

OnlineOptions online_options_of(const config::Settings& settings) {
  using Durability = storage::redis::Options::Durability;
  OnlineOptions online;
  online.engine = settings.text("storage.online") == "redis" ? OnlineOptions::Engine::kRedis
                                                             : OnlineOptions::Engine::kRocksDb;
  online.redis.url = settings.text("storage.redis.url");
  online.redis.password_file = settings.text("storage.redis.password_file");
  online.redis.ca_file = settings.text("storage.redis.ca_file");
  online.redis.cert_file = settings.text("storage.redis.cert_file");
  online.redis.key_file = settings.text("storage.redis.key_file");
  online.redis.prefix = settings.text("storage.redis.prefix");
  online.redis.durability = settings.text("storage.redis.durability") == "vouched"
                                ? Durability::kVouchedFor
                                : Durability::kChecked;
  online.redis.replicas = settings.integer("storage.redis.replicas");
  online.redis.timeout = settings.duration("storage.redis.timeout");
  online.redis.zone = settings.text("storage.redis.zone");
  return online;
}

void set_job_options(const config::Settings& settings, Options& options) {
  options.job_concurrency = static_cast<unsigned>(settings.integer("jobs.concurrency"));
  options.job_memory_max = settings.integer("jobs.memory_max");
  options.job_time_max = settings.duration("jobs.time_max");
  options.job_processes_max = settings.integer("jobs.processes_max");
  options.job_io_max = settings.integer("jobs.io_max");
  options.job_disk_max = settings.integer("jobs.disk_max");
  options.jobs_waiting_max = static_cast<std::size_t>(settings.integer("jobs.waiting_max"));
  options.node_cpus = settings.integer("jobs.node_cpus");
  options.node_memory = settings.integer("jobs.node_memory");
  options.jobs_readable = settings.text("jobs.readable");
  options.jobs_writable = settings.text("jobs.writable");
  options.jobs_network =
      settings.text("jobs.network") == "host" ? JobsNetwork::kHost : JobsNetwork::kNone;
  options.jobs_network_zone = settings.text("jobs.network_zone");
  options.jobs_work_dir = settings.text("jobs.work_dir");
  options.oci_runtime = settings.text("jobs.oci_runtime");
  options.job_sandbox = settings.text("jobs.sandbox") == "required"
                            ? training::SandboxPolicy::kRequired
                            : training::SandboxPolicy::kBestEffort;
}

}  // namespace

KeyOptions key_options_of(const config::Settings& settings) {
  KeyOptions keys;
  keys.vault = settings.text("keys.vault") == "pkcs11" ? KeyOptions::Vault::kPkcs11
                                                       : KeyOptions::Vault::kFile;
  keys.vault_file = settings.text("keys.vault_file");
  keys.passphrase_file = settings.text("keys.passphrase_file");
  keys.pkcs11_module = settings.text("keys.pkcs11_module");
  keys.pkcs11_token = settings.text("keys.pkcs11_token");
  keys.pkcs11_pin_file = settings.text("keys.pkcs11_pin_file");
  return keys;
}

Result<Options> options_of(cli::ServerMode mode, const config::Settings& settings) {
  Options options;
  options.data_folder = settings.text("data.dir");
  options.keys = key_options_of(settings);
  options.online = online_options_of(settings);
  options.features.join_memory = settings.integer("features.join_memory");
  options.features.online_memory = settings.integer("features.online_memory");
  options.features.parity_every = settings.integer("features.parity_every");
  options.identity = identity_settings_of(settings);
  options.http.host = settings.text("server.host");
  options.http.port = static_cast<std::uint16_t>(settings.integer("server.port"));
  const bool named = settings.origin("server.grpc_port") != config::Origin::kDefault;
  // Who lets the system choose one port does not expect the other to be a fixed one.
  const std::int64_t grpc_port =
      !named && options.http.port == 0 ? 0 : settings.integer("server.grpc_port");
  options.grpc_port = static_cast<std::uint16_t>(grpc_port);
  options.grpc_required = named;
  options.listen.mode = mode == cli::ServerMode::kDev ? ListenOptions::Mode::kLoopback
                                                      : ListenOptions::Mode::kProduction;
  options.listen.files = {settings.text("server.tls_cert"), settings.text("server.tls_key")};
  options.listen.trust_domain = settings.text("security.trust_domain");
  options.listen.public_url = settings.text("server.public_url");
  options.http.loop_threads = static_cast<unsigned>(settings.integer("server.threads"));
  options.http.connections_max =
      static_cast<std::size_t>(settings.integer("server.connections_max"));
  options.http.cors_origins = FALAJ_TRY(net::parse_origins(settings.text("server.cors_origins")));
  if (settings.text("log.requests") == "all") options.http.on_answered = api::access_log();
  options.http.header_timeout = settings.duration("server.header_timeout");
  options.http.idle_timeout = settings.duration("server.idle_timeout");
  options.upload_bytes_max = settings.integer("server.body_max");
  options.drain = settings.duration("server.drain");
  set_job_options(settings, options);
  if (const std::string& signers = settings.text("security.model_signers"); !signers.empty()) {
    options.model_signers = FALAJ_TRY(cli::read_text(signers));
  }
  options.runtimes = FALAJ_TRY(serving::runtimes_of(settings.text("serving.runtimes")));
  options.isolated_memory = settings.integer("serving.isolated_memory");
  options.isolated_answer = settings.duration("serving.isolated_answer");
  options.serving_threads = static_cast<unsigned>(settings.integer("serving.threads"));
  options.serving_memory = settings.integer("serving.memory");
  options.prediction_capacity =
      static_cast<std::size_t>(settings.integer("prediction_log.capacity"));
  options.tick_interval = settings.duration("monitor.interval");
  options.requests_per_second = settings.integer("security.requests_per_second");
  options.audit = {settings.duration("audit.head_interval"),
                   settings.duration("audit.access_interval"), settings.text("audit.origin"),
                   settings.text("audit.witness"), settings.text("audit.signer_dir")};
  options.machine_zones = settings.text("zone.executor");
  if (mode == cli::ServerMode::kDev) {
    FALAJ_TRY(check_listening(options, Administrators::kNone));
  }
  return options;
}

int check_start(cli::ServerMode mode, const config::Settings& settings) {
  const Result<Options> options = options_of(mode, settings);
  if (!options.ok()) return cli::fail(options.error());
  const Status files = check_files(*options);
  if (!files.ok()) return cli::fail(files.error());
  std::printf("falaj %s (%s) would start\nschema %zu\n", version_text().c_str(),
              build_text().c_str(), all_migrations().size());
  return 0;
}

int serve(cli::ServerMode mode, const config::Settings& settings) {
  Listeners left = take_listeners();
  exec::forbid_memory_dumps();
  Result<Options> options = options_of(mode, settings);
  if (!options.ok()) return cli::fail(options.error());
  const sigset_t signals = taken_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  ZonedLog& logging = start_logging(settings);

  Ended ended = Ended::kReplaced;
  while (ended == Ended::kReplaced) {
    options->http.listening = left.http.release();
    options->grpc_listening = left.grpc.release();
    Result<std::unique_ptr<Program>> program = Program::start(*options, system_clock());
    if (!program.ok()) return cli::fail(program.error());
    logging.judge_by(&program.value()->exits());
    say_ready(*program.value(), *options, settings);
    ended = wait_for_end(*program.value(), *options, signals, left);
    logging.judge_by(nullptr);
    program.value().reset();
    // Comes back only if it was not possible: then this program goes on.
    if (ended == Ended::kReplaced) give_way(left);
  }
  log::set_sink(nullptr, log::Level::kError);
  return 0;
}

Result<std::unique_ptr<cli::LocalServer>> start_local(const std::string& data_folder) {
  std::signal(SIGPIPE, SIG_IGN);
  Options options;
  options.data_folder = data_folder;
  std::unique_ptr<cli::LocalServer> server =
      std::make_unique<RunningProgram>(FALAJ_TRY(Program::start(options, system_clock())));
  return server;
}

}  // namespace falaj::app
