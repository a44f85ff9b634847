// Canary bytes through the ten exits on the real services: none may be found where its zone does
// not let it be. With one exit's check taken out, the same flows must leak (ten controls).
//
// FALAJ_ZONE_FLOWS=10000 FALAJ_ZONE_SEED=1 zones_test runs more than the share that CI runs. What
// is permitted is decided here once more, by a table and not by residency::decide.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "api/caller.h"
#include "app/backup.h"
#include "app/crash_dumps.h"
#include "app/residency_gate.h"
#include "app/zoned_log.h"
#include "base/json.h"
#include "exec/dumps.h"
#include "monitoring/webhooks.h"
#include "net/client.h"
#include "net/server.h"
#include "security/residency/guarded_stores.h"
#include "security/residency/scrape_filter.h"
#include "security/residency/testing/zone_world.h"
#include "storage/testing/temp_folder.h"
#include "telemetry/log_sinks.h"

namespace falaj {
namespace {

namespace fs = std::filesystem;
using security::residency::Decision;
using security::residency::Exit;
using security::residency::ExitOptions;
using security::residency::Exits;
using security::residency::ZoneWorld;

const std::map<std::string, std::string> kParents{
    {"ae", ""}, {"ae-fin", "ae"}, {"ae-health", "ae"}, {"eu", ""}, {"eu-de", "eu"}};

bool lies_in(std::string inner, const std::string& outer) {
  for (; !inner.empty(); inner = kParents.at(inner)) {
    if (inner == outer) return true;
  }
  return false;
}

// The second opinion. One transfer is declared and approved: p-ae's data to eu.
bool permitted(const std::string& data, const std::string& place, Exit exit) {
  if (lies_in(place, data)) return true;
  const bool side = exit == Exit::kMetric || exit == Exit::kLog || exit == Exit::kDump;
  return !side && data == "ae" && lies_in(place, "eu");
}

std::string read_tree(const std::string& folder) {
  std::string out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    out += text.str() + '\n';
  }
  return out;
}

// What was found at one place, by the exit that led there.
using Places = std::map<std::pair<Exit, std::string>, std::string>;

struct Finding {
  std::size_t inside = 0;   // Canaries found where they may be.
  std::size_t outside = 0;  // And where not.
};

// Canaries look like <<zone#number>>.
Finding scan(const Places& places, Exit only) {
  Finding out;
  for (const auto& [where, bytes] : places) {
    if (where.first != only) continue;
    for (std::size_t at = bytes.find("<<"); at != std::string::npos;
         at = bytes.find("<<", at + 2)) {
      const std::size_t end = bytes.find('#', at);
      if (end == std::string::npos) break;
      const std::string zone = bytes.substr(at + 2, end - at - 2);
      if (!kParents.contains(zone)) continue;
      ++(permitted(zone, where.second, only) ? out.inside : out.outside);
    }
  }
  return out;
}

// The same store under a second owner: one door without a guard, one with.
class Shared final : public storage::BlobStore {
 public:
  explicit Shared(storage::BlobStore& inner) : inner_(inner) {}
  Result<std::unique_ptr<storage::BlobWriter>> create(const storage::Owner& owner) override {
    return inner_.create(owner);
  }
  Result<std::unique_ptr<ByteReader>> open(const storage::Owner& owner,
                                           const BlobId& id) const override {
    return inner_.open(owner, id);
  }
  Result<storage::BlobGrant> grant(const storage::Owner& owner, const BlobId& id) const override {
    return inner_.grant(owner, id);
  }
  Status remove(const storage::Owner& owner, const BlobId& id) override {
    return inner_.remove(owner, id);
  }
  Result<std::vector<BlobId>> list(const storage::Owner& owner) const override {
    return inner_.list(owner);
  }

 private:
  storage::BlobStore& inner_;
};

// A machine in one zone: its stores, its door, its log, its scrape page.
class Site {
 public:
  // `only`: the one project that it ever held; "" for all. One that was deleted would still count.
  Site(const std::string& zone, security::residency::Decider decider, const std::string& only = "")
      : zone_(zone), world_(declared(only)) {
    storage::SqlStore& sql = *world_.sql;
    EXPECT_TRUE(
        sql.migrate({storage::kObjectsMigration, security::kAuditMigration,
                     security::residency::kResidencyMigration, monitoring::kWebhooksMigration})
            .ok());
    if (only.empty() || only == "p-ae") approve_transfer();
    ExitOptions options;
    options.regimes = ZoneWorld::regimes();
    options.machine = {Zone(zone)};
    options.decider = std::move(decider);
    exits_ = std::make_unique<Exits>(sql, *world_.audit, world_.clock, std::move(options));
    EXPECT_TRUE(exits_->refresh().ok());
    fs::create_directories(folder_ / "blobs");
    blobs_ = guard_blobs(storage::open_files(folder_ / "blobs").value(), *exits_);
    rows_ = guard_kv(storage::make_fake_kv(), *exits_);
    plant_ = storage::open_files(folder_ / "planted").value();
    planted_ = guard_blobs(std::make_unique<Shared>(*plant_), *exits_);
    log_file_ = ::open((folder_ / "server.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    log_ = std::make_unique<app::ZonedLog>(
        telemetry::make_log_sink(telemetry::LogFormat::kJson, log_file_, world_.clock));
    log_->judge_by(exits_.get());
    listen();
  }
  ~Site() { ::close(log_file_); }

  const std::string& zone() const { return zone_; }
  Exits& exits() { return *exits_; }
  storage::BlobStore& blobs() { return *blobs_; }
  storage::KvStore& rows() { return *rows_; }
  // Bytes that lie here already, whoever let them in; and the guarded way to them.
  BlobId plant(const storage::Owner& owner, const std::string& bytes) {
    return plant_->put(owner, bytes)->id;
  }
  storage::BlobStore& planted() { return *planted_; }
  app::ZonedLog& log() { return *log_; }
  std::string blob_folder() const { return folder_ / "blobs"; }
  std::string log_text() const { return read_tree_file(folder_ / "server.log"); }

  // A caller in `zone` asks for the canary of a project: the reply, whatever it is.
  std::string ask(const std::string& caller, const std::string& project, Exit exit,
                  const std::string& canary) {
    answer_ = canary;
    const std::string path = exit == Exit::kExport ? "/file" : "/answer";
    auto& client = clients_[caller];
    if (client == nullptr) {
      net::ClientOptions options;
      options.base_url = "http://127.0.0.1:" + std::to_string(server_->port());
      options.headers = {{"X-Caller-Zone", caller}};
      client = net::Client::create(options).value();
    }
    const auto reply = client->send(net::Method::kGet, path + "?project=" + project, "");
    return reply.ok() ? reply->body : std::string();
  }

  // An alarm of that project whose words hold the canary, and who was told of it.
  std::string raise_alarm(const std::string& project, const std::string& receiver,
                          const std::string& canary) {
    storage::Object hook;
    hook.kind = "Webhook";
    hook.project = project;
    hook.name = "hook-" + receiver;
    hook.spec["url"] = "https://" + receiver + ".example/hook";
    hook.spec["zone"] = receiver;
    world_.put(hook);
    monitoring::Monitors::Alarm alarm;
    alarm.id = ++alarms_;
    alarm.project = project;
    alarm.monitor = canary;
    std::string told;
    monitoring::Webhooks hooks(
        *world_.sql,
        [&](const ProjectName&) -> Result<std::vector<monitoring::Monitors::Alarm>> {
          return std::vector<monitoring::Monitors::Alarm>{alarm};
        },
        *exits_, *world_.audit, world_.clock,
        [&](const std::string&, const std::string& body) -> Result<int> {
          told += body + "\n";
          return 200;
        });
    EXPECT_TRUE(hooks.tick().ok());
    remove(hook);
    return told;
  }

 private:
  static std::string read_tree_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static std::vector<storage::Object> declared(const std::string& only) {
    auto objects = ZoneWorld::objects();
    std::erase_if(objects, [&](const storage::Object& object) {
      return !only.empty() && object.kind == "Project" && object.name != only;
    });
    return objects;
  }

  void approve_transfer() {
    storage::Object object;
    object.kind = "Transfer";
    object.project = "p-ae";
    object.name = "group";
    object.spec = *parse_json(
        R"({"from":"ae","to":"eu","ground":"contract","expires":"2200-01-01T00:00:00Z"})");
    world_.put(object);
    EXPECT_TRUE(world_.exits->refresh().ok());
    EXPECT_TRUE(world_.exits->approve(world_.context("p-ae", "user:officer"), "group").ok());
  }

  void listen() {
    const auto handler = [this](const net::Request&) { return net::Response::text(answer_); };
    net::Route answer(net::Method::kGet, "/answer", net::Permission("features.read"),
                      net::Target::in_project("FeatureView"), "An answer.", handler);
    net::Route file(net::Method::kGet, "/file", net::Permission("features.read"),
                    net::Target::in_project("FeatureView"), "A file.", handler);
    file.gives = net::Gives::kFile;
    router_.add(std::move(answer));
    router_.add(std::move(file));
    const net::Gate gate = [this](const net::Route& route, net::Request& request) -> Status {
      security::Principal caller;
      caller.kind = security::PrincipalKind::kService;
      caller.id = "service:test";
      caller.zone = Zone(std::string(net::find_header(request.headers, "X-Caller-Zone")));
      const std::string project = request.query_param("project").value_or("");
      auto on_sent = FALAJ_TRY(
          app::admit(*exits_, {route, request, {project, "FeatureView", "", nullptr}, caller}));
      return {};
    };
    server_ = net::Server::start({}, router_, gate, metrics_).value();
  }

  void remove(const storage::Object& object) {
    EXPECT_TRUE(world_.sql
                    ->write([&](storage::SqlTransaction& tx) {
                      return storage::delete_object(tx, object.kind, object.project, object.name);
                    })
                    .ok());
  }

  std::string zone_;
  storage::TempFolder folder_;
  ZoneWorld world_;
  std::unique_ptr<Exits> exits_;
  std::unique_ptr<storage::BlobStore> blobs_;
  std::unique_ptr<storage::KvStore> rows_;
  std::unique_ptr<storage::BlobStore> plant_;
  std::unique_ptr<storage::BlobStore> planted_;
  std::int64_t alarms_ = 0;
  int log_file_ = -1;
  std::unique_ptr<app::ZonedLog> log_;
  telemetry::Metrics metrics_;
  std::string answer_;
  net::Router router_;
  std::unique_ptr<net::Server> server_;
  std::map<std::string, std::unique_ptr<net::Client>> clients_;
};

// Every exit in turn, with random sites, projects and destinations.
class Flows {
 public:
  Flows(std::uint64_t seed, const security::residency::Decider& decider) : random_(seed) {
    for (const auto& [zone, parent] : kParents) {
      sites_.push_back(std::make_unique<Site>(zone, decider));
      lone_[zone] = std::make_unique<Site>(zone, decider, "p-" + zone);
      zones_.push_back(zone);
    }
  }

  void flow(Exit exit) {
    Site& site = *sites_[random_() % sites_.size()];
    const std::string data = pick();
    const std::string project = "p-" + data;
    const std::string other = pick();
    const std::string canary = "<<" + data + "#" + std::to_string(++flows_) + ">>";
    const storage::Owner owner{ProjectName(project), Zone(data), "FeatureView/activity"};
    switch (exit) {
      case Exit::kWrite:
        return put(site, owner, canary);
      case Exit::kReplicate:
        return replicate(site, owner, canary);
      case Exit::kSchedule:
        return schedule(site, owner, canary);
      case Exit::kServe:
      case Exit::kExport:
        places[{exit, other}] += site.ask(other, project, exit, canary);
        return;
      case Exit::kWebhook:
        places[{exit, other}] += site.raise_alarm(project, other, canary);
        return;
      case Exit::kMetric:
        return scrape(site, other, project, canary);
      case Exit::kLog:
        site.log().write(log::Level::kInfo, "model loaded",
                         {{"project", project}, {"model", canary}});
        return;
      case Exit::kBackup:
        return back_up(other, data, canary);
      case Exit::kDump:
        return dump(other, data, canary);
    }
  }

  // What only lies in files is read at the end.
  void collect() {
    for (const auto& site : sites_) {
      places[{Exit::kWrite, site->zone()}] += read_tree(site->blob_folder());
      places[{Exit::kLog, site->zone()}] += site->log_text();
    }
    for (const std::string& zone : zones_) {
      for (const char* kind : {"backup-", "dump-"}) {
        const std::string folder = folder_ / (kind + zone);
        if (!fs::exists(folder)) continue;
        places[{kind[0] == 'b' ? Exit::kBackup : Exit::kDump, zone}] += read_tree(folder);
      }
    }
  }

  // Crossing bytes in the ledgers that stand on no transfer.
  std::int64_t unexplained_bytes() {
    std::int64_t bytes = 0;
    for (const auto& site : sites_) {
      EXPECT_TRUE(site->exits().tick().ok());
      const auto rows = site->exits().ledger("").value();
      for (const auto& row : rows) {
        if (row.transfer.empty() && !lies_in(row.to, row.from)) bytes += row.bytes;
      }
    }
    return bytes;
  }

  Places places;

 private:
  std::string pick() { return zones_[random_() % zones_.size()]; }

  // The three ways in which bytes come to rest.
  void put(Site& site, const storage::Owner& owner, const std::string& canary) {
    switch (random_() % 3) {
      case 0:
        return static_cast<void>(site.blobs().put(owner, canary).ok());
      case 1: {
        auto writer = site.blobs().create(owner);
        if (writer.ok() && (*writer)->append(canary).ok()) (void)(*writer)->commit().ok();
        return;
      }
      default: {
        (void)site.rows().write(owner, {{"row", canary}}).ok();
        const auto lies = site.rows().get(owner, "row");
        if (lies.ok() && *lies) places[{Exit::kWrite, site.zone()}] += **lies;
      }
    }
  }

  void replicate(Site& site, const storage::Owner& owner, const std::string& canary) {
    const auto read = site.planted().get(owner, site.plant(owner, canary));
    if (read.ok()) places[{Exit::kReplicate, site.zone()}] += *read;
  }
  void schedule(Site& site, const storage::Owner& owner, const std::string& canary) {
    const auto grant = site.planted().grant(owner, site.plant(owner, canary));
    if (!grant.ok()) return;
    std::string bytes(canary.size(), '\0');
    const ssize_t got = ::pread(grant->file.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) places[{Exit::kSchedule, site.zone()}] += bytes;
  }

  // The series is labelled with the project's name and holds a canary as its model's.
  void scrape(Site& site, const std::string& scraper, const std::string& project,
              const std::string& canary) {
    telemetry::Metrics metrics;
    metrics
        .counter({"falaj_test_total",
                  "A test's.",
                  telemetry::MetricKind::kCounter,
                  {"project", "model"}},
                 {project, canary})
        .add();
    places[{Exit::kMetric, scraper}] += metrics.exposition(security::residency::scrape_filter(
        site.exits(), scraper_in(scraper), security::residency::Caller::kElsewhere));
  }
  static security::Principal scraper_in(const std::string& zone) {
    security::Principal out;
    out.id = "service:prometheus";
    out.zone = Zone(zone);
    return out;
  }

  // A machine that holds one project's data alone.
  void back_up(const std::string& to, const std::string& data, const std::string& canary) {
    Site& site = *lone_.at(data);
    const storage::TempFolder source;
    std::ofstream(source / "segment") << canary;
    const storage::Owner owner{ProjectName("p-" + data), Zone(data), "FeatureView/activity"};
    if (!app::pass_backup(site.exits(), {owner}, to).ok()) return;
    const std::string target = folder_ / ("backup-" + to) + "/" + std::to_string(flows_);
    EXPECT_TRUE(app::copy_folder(source.path(), target).ok());
  }

  // The kernel's part is played by the child itself: it writes what it holds where its limit lets
  // a dump be.
  void dump(const std::string& to, const std::string& data, const std::string& canary) {
    Site& site = *lone_.at(data);
    const bool allowed = app::dumps_allowed(site.exits(), Zone(to));
    const std::string target = folder_ / ("dump-" + to);
    fs::create_directories(target);
    const std::string core = target + "/core." + std::to_string(flows_);
    const pid_t child = ::fork();
    if (child == 0) {
      if (!allowed) exec::forbid_memory_dumps();
      rlimit limit{};
      ::getrlimit(RLIMIT_CORE, &limit);
      if (allowed || limit.rlim_cur > 1) {
        const int file = ::open(core.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (::write(file, canary.data(), canary.size()) < 0) ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  std::mt19937_64 random_;
  storage::TempFolder folder_;
  std::vector<std::string> zones_;
  std::vector<std::unique_ptr<Site>> sites_;
  std::map<std::string, std::unique_ptr<Site>> lone_;  // Machines that hold one project alone.
  std::int64_t flows_ = 0;
};

std::int64_t from_environment(const char* name, std::int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

const std::int64_t kFlows = from_environment("FALAJ_ZONE_FLOWS", 1'000);
const auto kSeed = static_cast<std::uint64_t>(from_environment("FALAJ_ZONE_SEED", 20'261'116));

TEST(ZoneFlows, no_canary_is_found_outside_its_zone) {
  Flows flows(kSeed, security::residency::decide);
  for (std::int64_t i = 0; i < kFlows; ++i) {
    flows.flow(security::residency::all_exits()[static_cast<std::size_t>(i) % 10]);
  }
  flows.collect();
  for (const Exit exit : security::residency::all_exits()) {
    const Finding found = scan(flows.places, exit);
    EXPECT_EQ(found.outside, 0u) << exit_name(exit);
    EXPECT_GT(found.inside, 0u) << exit_name(exit) << " let nothing through at all";
    std::printf("%-10s %6zu canaries inside, %zu outside\n", std::string(exit_name(exit)).c_str(),
                found.inside, found.outside);
  }
  EXPECT_EQ(flows.unexplained_bytes(), 0);
}

// The negative controls: a service that forgets to ask at one exit.
TEST(ZoneFlows, with_any_one_check_taken_out_canaries_are_found_outside) {
  for (const Exit open : security::residency::all_exits()) {
    Flows flows(kSeed, [open](const auto& flow, const auto& zones, auto transfers, Timestamp now) {
      if (flow.exit == open) return Decision{true, ErrorId::kZoneRefused, "not asked", ""};
      return security::residency::decide(flow, zones, transfers, now);
    });
    for (int i = 0; i < 40; ++i) flows.flow(open);
    flows.collect();
    EXPECT_GT(scan(flows.places, open).outside, 0u) << exit_name(open);
  }
}

// A data folder whose only data are rows and files that no key tells of.
class FolderWithoutKeys {
 public:
  FolderWithoutKeys() {
    options_.data_folder = folder_ / "data";
    fs::create_directories(options_.data_folder);
    app::Storage storage = app::wire_storage(options_, clock_).value();
    for (const char* zone : {"ae", "eu"}) add(storage, "Zone", zone, "{}");
    add(storage, "Zone", "ae-fin", R"({"parent": "ae"})");
    add(storage, "Project", "payments", R"({"zone": "ae-fin"})");
    tracking::Runs runs(*storage.sql, *storage.audit, clock_);
    const auto context =
        security::system_context("user:x", ProjectName("payments"), Zone("ae-fin"));
    const RunId run = runs.create(context, {}).value().id;
    const std::string archive = options_.data_folder + "/checkpoints/" + run.str() + "/archive";
    fs::create_directories(archive);
    std::ofstream(archive + "/00000001") << "<<ae-fin#1>>";
  }

  // Where it was copied to; "" when it was refused.
  std::string back_up(const std::string& zone) {
    const std::string out = folder_ / ("copy-" + zone);
    const auto made = app::back_up({options_, out, zone}, clock_);
    if (!made.ok()) {
      EXPECT_EQ(made.error().id, ErrorId::kZoneRefused) << made.error().message;
    }
    EXPECT_EQ(fs::exists(out), made.ok());
    return made.ok() ? out : "";
  }
  std::vector<security::residency::LedgerRow> ledger() {
    const app::Storage storage = app::wire_storage(options_, clock_).value();
    return storage.exits->ledger("payments").value();
  }

 private:
  void add(app::Storage& storage, const std::string& kind, const std::string& name,
           std::string_view spec) {
    storage::Object object;
    object.kind = kind;
    object.name = name;
    object.spec = *parse_json(spec);
    EXPECT_TRUE(storage.sql
                    ->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(storage::put_object(tx, object, clock_.now()));
                      return {};
                    })
                    .ok());
  }

  FakeClock clock_;
  storage::TempFolder folder_;
  app::Options options_;
};

TEST(ZoneFlows, a_backup_of_runs_and_checkpoints_alone_passes_its_exit) {
  FolderWithoutKeys folder;
  EXPECT_EQ(folder.back_up("eu"), "");
  EXPECT_NE(folder.back_up("ae-fin"), "");
  std::int64_t refused = 0;
  std::int64_t bytes = 0;
  for (const auto& row : folder.ledger()) {
    if (row.exit != "backup") continue;
    refused += row.to == "eu" ? row.refused : 0;
    EXPECT_TRUE(row.to == "ae-fin" || row.bytes == 0) << row.to;
    bytes += row.bytes;
  }
  EXPECT_EQ(refused, 1);
  EXPECT_GT(bytes, 0);
}

TEST(ZoneFlows, rows_that_lie_on_another_machine_pass_the_exit_into_its_zone) {
  Site site("ae", security::residency::decide);
  const auto rows = guard_kv(storage::make_fake_kv(), site.exits(), Zone("eu"));
  const auto write = [&](const std::string& zone) {
    const storage::Owner owner{ProjectName("p-" + zone), Zone(zone), "FeatureView/activity"};
    return rows->write(owner, {{"row", "value"}});
  };
  EXPECT_EQ(write("ae-fin").error().id, ErrorId::kZoneRefused);
  EXPECT_TRUE(write("eu").ok());
  EXPECT_TRUE(write("ae").ok()) << "stands on its transfer";
  const auto nowhere = guard_kv(storage::make_fake_kv(), site.exits(), Zone("mars"));
  const storage::Owner owner{ProjectName("p-ae"), Zone("ae"), "FeatureView/activity"};
  EXPECT_FALSE(nowhere->write(owner, {{"row", "value"}}).ok());
}

TEST(ZoneFlows, unlabelled_data_is_refused_at_every_exit) {
  Site site("ae", security::residency::decide);
  const storage::Owner nobody{ProjectName("p-ae"), Zone(), "FeatureView/activity"};
  EXPECT_EQ(site.blobs().put(nobody, "x").error().id, ErrorId::kZoneMissing);
  EXPECT_EQ(site.blobs().create(nobody).error().id, ErrorId::kZoneMissing);
  const BlobId id = site.plant(nobody, "x");
  EXPECT_EQ(site.planted().open(nobody, id).error().id, ErrorId::kZoneMissing);
  EXPECT_EQ(site.planted().grant(nobody, id).error().id, ErrorId::kZoneMissing);
  for (const Exit exit : security::residency::all_exits()) {
    security::residency::Flow flow;
    flow.exit = exit;
    flow.project = "p-ae";
    flow.destination = Zone("ae");
    const auto context = security::system_context("service:test", ProjectName("p-ae"), Zone());
    EXPECT_EQ(site.exits().pass(context, flow).error().id, ErrorId::kZoneMissing);
  }
}

}  // namespace
}  // namespace falaj
