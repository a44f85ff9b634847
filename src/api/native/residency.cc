// Zones, regimes, transfers and the ledger of what crossed.
#include "api/native/exchange.h"
#include "api/native/services.h"
#include "base/decode.h"
#include "base/units.h"
#include "security/residency/exits.h"

namespace falaj::api {
namespace {

using security::residency::Regime;
using security::residency::ZoneInfo;

Value zone_value(const security::residency::Snapshot& snapshot, const ZoneInfo& info) {
  Value row;
  row["name"] = info.zone.name();
  row["parent"] = info.parent.name();
  const Regime* regime = snapshot.zones.regime_of(info.zone);
  row["regime"] = regime == nullptr ? std::string() : regime->name;
  row["breach_deadline"] = to_string(snapshot.zones.breach_deadline(info.zone));
  // Since the beginning of time: how long, whenever it was made.
  const Timestamp kept = snapshot.zones.retention_until(info.zone, Timestamp{});
  row["retention"] = kept == Timestamp::min() ? "0s" : to_string(Duration{kept.nanos});
  row["projects"] = Value::array();
  for (const auto& [name, project] : snapshot.projects) {
    if (project.zone == info.zone) row["projects"].push(name);
  }
  return row;
}

Value zones_value(const Services& services) {
  const auto snapshot = services.exits.snapshot();
  Value reply;
  reply["zones"] = Value::array();
  for (const auto& [name, info] : snapshot->zones.zones()) {
    reply["zones"].push(zone_value(*snapshot, info));
  }
  return reply;
}

Value regimes_value(const Services& services) {
  const auto snapshot = services.exits.snapshot();
  Value reply;
  reply["regimes"] = Value::array();
  for (const auto& [name, regime] : snapshot->zones.regimes()) {
    reply["regimes"].push(to_value(regime));
  }
  return reply;
}

// Totals beside the rows: what an auditor looks at first.
Result<Value> ledger_value(const Services& services, const net::Request& request) {
  auto rows = FALAJ_TRY(services.exits.ledger(request.query_param("project").value_or("")));
  std::erase_if(rows, [&](const security::residency::LedgerRow& row) {
    return !reaches(request, row.project);
  });
  const auto snapshot = services.exits.snapshot();
  std::int64_t crossed = 0;
  std::int64_t unexplained = 0;
  std::int64_t refused = 0;
  for (const auto& row : rows) {
    refused += row.refused;
    if (snapshot->zones.holds(Zone(row.from), Zone(row.to))) continue;
    crossed += row.bytes;
    if (row.transfer.empty()) unexplained += row.bytes;
  }
  Value reply = list_value("rows", rows);
  reply["bytes_crossed"] = crossed;
  reply["bytes_crossed_without_transfer"] = unexplained;
  reply["flows_refused"] = refused;
  return reply;
}

// What would be decided, without doing it.
Result<Value> what_if(const Services& services, const net::Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "flow");
  security::residency::Flow flow;
  flow.project = project_of(request).str();
  flow.exit =
      FALAJ_TRY(security::residency::exit_from_name(FALAJ_TRY(fields.required_text("exit"))));
  flow.data = Zone(FALAJ_TRY(fields.text("from", services.exits.zone_of(flow.project).name())));
  flow.destination = Zone(FALAJ_TRY(fields.required_text("to")));
  flow.object = FALAJ_TRY(fields.text("object"));
  flow.purpose = FALAJ_TRY(fields.text("purpose"));
  FALAJ_TRY(fields.finish());
  const auto snapshot = services.exits.snapshot();
  const auto decision =
      security::residency::decide(flow, snapshot->zones, snapshot->transfers, services.clock.now());
  Value reply;
  reply["allowed"] = decision.allowed;
  reply["rule"] = decision.rule;
  reply["transfer"] = decision.transfer;
  if (!decision.allowed) reply["code"] = to_string(decision.error);
  return reply;
}

Result<Value> approve(Services& services, const net::Request& request) {
  const auto context = FALAJ_TRY(context_of(request, services.catalog));
  const std::string& name = request.params.find("name")->second;
  const auto approval = FALAJ_TRY(services.exits.approve(context, name));
  Value reply;
  reply["approved"] = name;
  reply["approver"] = approval.approver;
  reply["before"] = approval.before;
  return reply;
}

}  // namespace

std::vector<net::Route> residency_routes(Services& services) {
  using net::Method;
  using net::Target;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/zones", {"residency.read", Target::platform("Zone")},
      "The declared zones with regime, retention, breach deadline and the projects in them.",
      [&](const net::Request&) { return zones_value(services); }));
  routes.push_back(value_route(Method::kGet, "/api/v1/regimes",
                               {"account.use", Target::platform("Account")},
                               "The legal regimes that the program carries; not legal advice.",
                               [&](const net::Request&) { return regimes_value(services); }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/zones/ledger",
                  {"residency.read", Target::platform_or_project("Ledger")},
                  "Bytes by day, project, exit and zones, with what crossed and what was refused; "
                  "without the projects whose data may not go where the caller is.",
                  [&](const net::Request& request) { return ledger_value(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/zones:decide", {"residency.read", Target::in_project("Zone")},
      "What would be decided about {exit, from, to, object, purpose}.",
      [&](const net::Request& request) { return what_if(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/transfers", {"residency.read", Target::in_project("Transfer")},
      "The project's transfers, who approved them and whether they are in force.",
      [&](const net::Request& request) {
        return services.exits.transfers(project_of(request).str());
      }));
  routes.push_back(
      value_route(Method::kPost, "/api/v1/transfers/{name}:approve",
                  {"transfers.approve", Target::object("Transfer", "name")},
                  "Approves a Transfer as it is declared now; who declared it may not.",
                  [&](const net::Request& request) { return approve(services, request); }));
  return routes;
}

}  // namespace falaj::api
