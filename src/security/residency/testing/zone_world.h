// security/residency/testing/zone_world.h — zones, regimes and a project in each, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "security/residency/exits.h"
#include "storage/objects.h"
#include "storage/open.h"

namespace falaj::security::residency {

// ae ⊃ ae-fin, ae-health; eu ⊃ eu-de. Projects "p-<zone>", all for purpose "fraud", and "p-held" in
// eu under legal hold.
struct ZoneWorld {
  static Regime regime(const std::string& name, const std::string& territory) {
    Regime out;
    out.name = name;
    out.territory = territory;
    out.as_of = "2026-11-16";
    out.breach_deadline = Duration::hours(72);
    out.grounds = {{"contract", "A contract."}};
    return out;
  }
  static std::vector<Regime> regimes() {
    Regime fin = regime("fin", "AE");
    fin.retention = Duration::days(5 * 365);
    fin.evidence = {"regulator-approval"};
    fin.undeclared_clients = UndeclaredClients::kRefused;
    Regime health = regime("health", "AE");
    health.exceptions = {"x-1"};
    health.processing_abroad = ProcessingAbroad::kException;
    return {regime("law", "AE"), regime("gdpr", "EU"), fin, health};
  }
  static std::vector<std::string> zone_names() {
    return {"ae", "ae-fin", "ae-health", "eu", "eu-de"};
  }
  static std::vector<storage::Object> objects() {
    std::vector<storage::Object> out;
    const auto add = [&](std::string kind, std::string name, std::string_view spec) {
      storage::Object object;
      object.kind = std::move(kind);
      object.name = std::move(name);
      object.spec = *parse_json(spec);
      out.push_back(std::move(object));
    };
    add("Zone", "ae", R"({"regime": "law"})");
    add("Zone", "ae-fin", R"({"parent": "ae", "regime": "fin"})");
    add("Zone", "ae-health", R"({"parent": "ae", "regime": "health"})");
    add("Zone", "eu", R"({"regime": "gdpr"})");
    add("Zone", "eu-de", R"({"parent": "eu"})");
    for (const std::string& zone : zone_names()) {
      add("Project", "p-" + zone, R"({"zone": ")" + zone + R"(", "purpose": "fraud"})");
    }
    add("Project", "p-held", R"({"zone": "eu", "legal_hold": "case 17"})");
    return out;
  }

  explicit ZoneWorld(const std::vector<storage::Object>& declared = objects())
      : sql(storage::make_fake_sql()) {
    FALAJ_CHECK(
        sql->migrate({storage::kObjectsMigration, kAuditMigration, kResidencyMigration}).ok());
    audit = std::make_unique<Audit>(*sql, clock);
    for (const storage::Object& object : declared) put(object);
    exits = std::make_unique<Exits>(*sql, *audit, clock, ExitOptions{.regimes = regimes()});
    FALAJ_CHECK(exits->refresh().ok());
  }

  void put(const storage::Object& object) {
    FALAJ_CHECK(sql->write([&](storage::SqlTransaction& tx) -> Status {
                     FALAJ_TRY(storage::put_object(tx, object, clock.now()));
                     return {};
                   })
                    .ok());
  }

  // As the catalog does it: object and audit entry. Runs out after a day.
  void declare_transfer(const std::string& author, const std::string& project,
                        const std::string& name, const std::string& from, const std::string& to) {
    storage::Object object;
    object.kind = "Transfer";
    object.project = project;
    object.name = name;
    object.spec["from"] = from;
    object.spec["to"] = to;
    object.spec["ground"] = "contract";
    object.spec["expires"] = to_rfc3339(clock.now() + Duration::days(1));
    put(object);
    FALAJ_CHECK(audit
                    ->record(context(project, author),
                             {"object.apply", "Transfer/" + project + "/" + name, Value::object()})
                    .ok());
    FALAJ_CHECK(exits->refresh().ok());
  }

  RequestContext context(const std::string& project, const std::string& who = "user:someone") {
    return system_context(who, ProjectName(project), exits ? exits->zone_of(project) : Zone());
  }

  std::vector<AuditEntry> entries(const std::string& action) {
    AuditQuery query;
    query.action = action;
    return *audit->list(query);
  }

  FakeClock clock;
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<Audit> audit;
  std::unique_ptr<Exits> exits;
};

}  // namespace falaj::security::residency
