#include "app/program.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "api/native/identity.h"
#include "app/crash_dumps.h"
#include "app/regimes.h"
#include "base/log.h"
#include "exec/dumps.h"
#include "features/arrivals.h"
#include "net/address.h"

namespace falaj::app {
namespace {

constexpr Duration kRenewalInterval = Duration::seconds(10);
constexpr Duration kAccountsInterval = Duration::seconds(10);
// A candidate that does harm goes back at the next of these.
constexpr Duration kRolloutInterval = Duration::milliseconds(200);
// How long clients with a connection have to ask once more, and be told with the answer.
constexpr Duration kAnnouncement = Duration::seconds(1);
constexpr Duration kShadowInterval = Duration::milliseconds(50);

void warn_if_failed(std::string_view what, const Status& status) {
  if (status.ok()) return;
  log::warn(
      "background work failed",
      {{"what", what}, {"code", to_string(status.error().id)}, {"why", status.error().message}});
}

}  // namespace

std::vector<storage::KindInfo> all_kinds() {
  std::vector<storage::KindInfo> kinds = catalog::platform_kinds(built_in_regimes());
  for (auto& more : {features::kinds(), registry::kinds(), training::kinds(), serving::kinds(),
                     monitoring::kinds(), loop::kinds(), security::access::kinds(),
                     monitoring::webhook_kinds(), jobs::kinds()}) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  return kinds;
}

Result<std::unique_ptr<Program>> Program::start(const Options& options, const Clock& clock) {
  std::unique_ptr<Program> program(new Program(clock));
  FALAJ_TRY(program->open(options));
  return program;
}

Status Program::open(const Options& options) {
  storage_ = FALAJ_TRY(wire_storage(options, clock_));
  tls_ = FALAJ_TRY(wire_tls(options, storage_, clock_));
  trail_ = FALAJ_TRY(wire_audit(options, storage_, clock_));
  // No setting names a zone for dumps, so no project's memory may go there.
  if (!dumps_allowed(*storage_.exits, Zone())) exec::forbid_memory_dumps();
  mkdir((options.data_folder + "/uploads").c_str(), 0700);
  FALAJ_TRY(open_identity(options));
  control_ = FALAJ_TRY(wire_access(options, storage_, *identity_, metrics_, clock_));
  features_ = FALAJ_TRY(wire_features(options.features, storage_, metrics_, clock_));
  training_ = FALAJ_TRY(
      wire_training(options, storage_, {identity_->jobs(), door_}, features_, metrics_, clock_));
  FALAJ_TRY(wire_shredding(storage_, features_, training_, serving_));
  serving_ = FALAJ_TRY(wire_serving(options, storage_, features_, training_, metrics_, clock_));
  catalog_ = std::make_unique<catalog::Catalog>(
      *storage_.sql, *storage_.audit, clock_, all_kinds(), [this] {
        warn_if_failed("grants", control_.access->refresh());
        warn_if_failed("zones", storage_.exits->refresh());
        warn_if_failed("quotas", storage_.quotas->refresh());
        features_.online->definitions_changed();
        if (reconcile_) reconcile_->wake();
        if (loop_) loop_->wake();
      });
  FALAJ_TRY(first_objects());
  wire_evidence(options, trail_, storage_, *identity_, training_, clock_);
  sign_head();
  FALAJ_TRY(storage_.exits->refresh());
  FALAJ_TRY(storage_.quotas->refresh());
  warn_if_failed("deployments", serving_.deployments->tick());
  wire_gate(options, control_, *identity_, tls_, trail_, storage_, serving_, metrics_);
  http_ = wire_routes(options, tls_, trail_, *catalog_, control_, storage_, features_, training_,
                      serving_, metrics_, clock_);
  const api::ZoneOf zone_of = [this](const security::Principal& principal) {
    return control_.access->policies()->zone_of(principal);
  };
  for (net::Route& route : api::identity_routes(*identity_, clock_, zone_of)) {
    http_.router->add(std::move(route));
  }
  // Before the first request can come: a change that it makes wakes the tickers.
  start_ticking(options);
  FALAJ_TRY(check_listening(
      options, identity_->setup_pending() ? Administrators::kNone : Administrators::kSome));
  FALAJ_TRY(wire_http(options, tls_, control_, *identity_, http_, metrics_));
  FALAJ_TRY(wire_grpc(options, tls_, control_, http_, metrics_));
  start_renewing();
  host_ = options.http.host;
  if (!tls_.server().identity.chain_pem.empty()) scheme_ = "https";
  door_ = door_of(options);
  training_.queue->start();
  return {};
}

Status Program::open_identity(const Options& options) {
  IdentityHooks hooks;
  hooks.make_administrator = [this](const std::string& id) -> Status {
    const auto context = security::system_context("service:setup", ProjectName(), Zone());
    const auto grant = security::access::administrator_grant("first-administrator", id);
    FALAJ_TRY(catalog_->apply(context, {grant}, catalog::Mode::kApply));
    return {};
  };
  hooks.metrics = &metrics_;
  hooks.users_changed = [this] { warn_if_failed("grants", control_.access->refresh()); };
  identity_ = FALAJ_TRY(wire_identity(options, storage_, clock_, std::move(hooks)));
  return {};
}

// A new folder starts with one zone and one project, so that the first apply needs neither.
Status Program::first_objects() {
  if (!FALAJ_TRY(catalog_->list("Project", "")).empty()) return {};
  storage::Object zone;
  zone.kind = "Zone";
  zone.name = "local";
  zone.spec = Value::object();
  storage::Object project;
  project.kind = "Project";
  project.name = "default";
  project.spec["zone"] = "local";
  const auto context = security::system_context("service:setup", ProjectName(), Zone());
  FALAJ_TRY(catalog_->apply(context, {zone, project}, catalog::Mode::kApply));
  return {};
}

void Program::start_ticking(const Options& options) {
  reconcile_ = std::make_unique<exec::Ticker>("reconcile", options.tick_interval, [this] {
    warn_if_failed("deployments", serving_.deployments->tick());
    warn_if_failed("monitors", serving_.monitors->tick());
    warn_if_failed("recordings", serving_.recordings->tick());
    warn_if_failed("arrivals",
                   features::tick_arrivals({*storage_.sql, *storage_.audit, metrics_, clock_}));
    warn_if_failed("grants", control_.access->retry());
    warn_if_failed("denials", control_.gate->tick());
    warn_if_failed("zones", storage_.exits->tick());
    warn_if_failed("stored bytes", storage_.quotas->flush());
  });
  parity_ = std::make_unique<exec::Ticker>("parity", options.tick_interval, [this] {
    warn_if_failed("parity", features_.parity->tick());
  });
  loop_ = std::make_unique<exec::Ticker>("loop", options.tick_interval,
                                         [this] { warn_if_failed("loop", serving_.loop->tick()); });
  rollouts_ = std::make_unique<exec::Ticker>(
      "rollouts", std::min(options.tick_interval, kRolloutInterval),
      [this] { warn_if_failed("rollouts", serving_.rollouts->tick()); });
  candidates_ = std::make_unique<exec::Ticker>(
      "candidates", std::min(options.tick_interval, kRolloutInterval),
      [this] { warn_if_failed("candidates", serving_.rollouts->settle()); });
  shadows_ = std::make_unique<exec::Ticker>("shadows", kShadowInterval,
                                            [this] { serving_.rollouts->answer_mirrored(); });
  audit_ =
      std::make_unique<exec::Ticker>("audit", options.audit.head_interval, [this] { sign_head(); });
  accounts_ = std::make_unique<exec::Ticker>("accounts", kAccountsInterval, [this] {
    renew_job_tokens(identity_->jobs(), *training_.queue, clock_);
    identity_->tick();
  });
  journal_ = std::make_unique<exec::Ticker>("journal", options.audit.access_interval, [this] {
    warn_if_failed("access journal", trail_.journal->tick());
  });
  webhooks_ = std::make_unique<exec::Ticker>("webhooks", options.tick_interval, [this] {
    warn_if_failed("webhooks", serving_.webhooks->tick());
  });
  live_ = std::make_unique<exec::Ticker>("live", Duration::milliseconds(500), [this] {
    training_.trainer->tick();
    http_.feed->tick();
  });
}

void Program::start_renewing() {
  if (tls_.server().identity.chain_pem.empty() && trail_.peer == nullptr) return;
  renewal_ = std::make_unique<exec::Ticker>("certificates", kRenewalInterval, [this] {
    warn_if_failed("certificates", tls_.tick(*http_.server, http_.grpc.get()));
    if (trail_.peer) warn_if_failed("certificate for the witness", trail_.peer->tick(clock_.now()));
  });
}

void Program::sign_head() {
  const auto head = trail_.heads->tick();
  if (!head.ok()) return warn_if_failed("audit head", head.error());
  warn_if_failed("receipts", trail_.receipts->tick(*head));
}

Program::~Program() {
  if (renewal_) renewal_->stop();
  if (accounts_) accounts_->stop();
  if (live_) live_->stop();
  if (webhooks_) webhooks_->stop();
  if (parity_) parity_->stop();
  if (loop_) loop_->stop();
  if (rollouts_) rollouts_->stop();
  if (candidates_) candidates_->stop();
  if (shadows_) shadows_->stop();
  if (reconcile_) reconcile_->stop();
  if (http_.grpc) http_.grpc->drain(Duration::seconds(1));
  if (http_.server) http_.server->drain(Duration::seconds(1));
  http_.server.reset();
  http_.grpc.reset();
  if (control_.gate) warn_if_failed("denials", control_.gate->tick());  // Of the last requests too.
  if (training_.queue) training_.queue->stop();
  if (journal_) journal_->stop();
  if (storage_.exits) warn_if_failed("zones", storage_.exits->tick());
  if (storage_.quotas) warn_if_failed("stored bytes", storage_.quotas->flush());
  if (audit_) audit_->stop();
  if (journal_) warn_if_failed("access journal", trail_.journal->tick());
  if (audit_) sign_head();
  if (audit_) warn_if_failed("generations", storage_.generations->advance());
}

Status Program::note_restart(Value detail) {
  const auto context = security::system_context("service:server", ProjectName(), Zone());
  FALAJ_TRY(storage_.audit->record(context, {"server.restart", "Server", std::move(detail)}));
  return {};
}

Result<Listeners> Program::retire(Duration limit) {
  Listeners left;
  left.http = Descriptor(FALAJ_TRY(http_.server->keep_listening()));
  if (http_.grpc) left.grpc = Descriptor(FALAJ_TRY(http_.grpc->keep_listening()));
  http_.server->announce_drain(std::min(kAnnouncement, limit));
  training_.queue->end_waits();
  // HTTP is served meanwhile.
  if (http_.grpc) http_.grpc->drain(limit);
  http_.server->drain(limit);
  return left;
}

std::string Program::setup_link() const {
  const std::string secret = identity_->setup_secret();
  if (secret.empty()) return "";
  // Not the public address: until there is an administrator the server is on loopback only.
  // A fragment: browsers keep it out of requests and logs.
  return url() + "/setup#" + secret;
}

// As a process on this machine reaches it.
jobs::CommandIdentity::Server Program::door_of(const Options& options) const {
  jobs::CommandIdentity::Server out;
  const bool everywhere = net::is_wildcard_address(host_);
  out.url = everywhere ? scheme_ + "://127.0.0.1:" + std::to_string(http_.server->port()) : url();
  if (tls_.certificates != nullptr && options.listen.files.chain.empty()) {
    out.authority = std::filesystem::absolute(tls_.certificates->authority_file()).string();
  }
  return out;
}

std::string Program::grpc_address() const {
  if (http_.grpc == nullptr) return "";
  const std::string host = host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]";
  return host + ":" + std::to_string(http_.grpc->port());
}

std::string Program::url() const {
  const std::string host = host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]";
  return scheme_ + "://" + host + ":" + std::to_string(http_.server->port());
}

}  // namespace falaj::app
