// The audit: read, verify, replay.
#include "api/native/exchange.h"
#include "api/native/services.h"
#include "api/request_id.h"
#include "crypto/base64.h"

namespace falaj::api {
namespace {

Value head_value(const security::AuditHead& head) {
  Value value;
  value["sequence"] = head.sequence;
  value["hash"] = head.hash;
  return value;
}

Result<Value> entries(Services& services, const net::Request& request) {
  security::AuditQuery query;
  query.after = FALAJ_TRY(query_integer(request, "after", 0, INT64_MAX));
  query.limit = FALAJ_TRY(query_integer(request, "limit", 100, 1000));
  query.action = request.query_param("action").value_or("");
  query.object = request.query_param("object").value_or("");
  query.project = request.query_param("project").value_or("");
  query.actor = request.query_param("actor").value_or("");
  if (request.query_param("order").value_or("newest") == "oldest") {
    query.order = security::AuditQuery::Order::kOldestFirst;
  }
  std::vector<security::AuditEntry> found = FALAJ_TRY(services.audit.list(query));
  // Without the projects whose data may not go where the caller is. Pages are by sequence, so a
  // shorter one is not the last.
  std::erase_if(found, [&](const auto& entry) { return !reaches(request, entry.project); });
  Value reply = list_value("entries", found);
  // How long the log is tells of every project: for who may read all of it.
  if (may(request, "audit.read", {})) reply["head"] = head_value(FALAJ_TRY(services.audit.head()));
  return reply;
}

Result<security::AuditEntry> entry_of(Services& services, const net::Request& request) {
  const std::string& text = request.params.find("sequence")->second;
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    return Error{ErrorId::kInvalidArgument, "audit sequence '" + text + "' is not a number"};
  }
  return services.audit.get(std::stoll(text));
}

Result<Value> replay(Services& services, const net::Request& request) {
  const security::AuditEntry entry = FALAJ_TRY(entry_of(services, request));
  Value reply;
  if (entry.action.starts_with("rollout.")) {
    const auto decision = FALAJ_TRY(serving::rollout::replay(entry));
    reply["action"]["kind"] = serving::rollout::verdict_name(decision.verdict);
    reply["action"]["reason"] = decision.reason;
  } else if (entry.action.starts_with("scheduler.")) {
    const Value again = FALAJ_TRY(services.jobs.replay_decision(entry));
    reply["action"] = again;
    reply["action"]["kind"] = "decide";
    reply["action"]["reason"] = std::to_string(again.integer("admitted")) + " started, " +
                                std::to_string(again.integer("preempted")) + " told to leave, " +
                                std::to_string(again.integer("held")) + " wait; no rule is broken";
  } else {
    reply["action"] = loop::to_value(FALAJ_TRY(loop::replay(entry)));
  }
  reply["ok"] = true;
  reply["sequence"] = entry.sequence;
  return reply;
}

security::RequestContext context_about(const net::Request& request,
                                       const security::AuditEntry& entry) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.project = ProjectName(entry.project);
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

// The texts behind an entry's commitments: reasons, and the rows of a batch of reads.
Result<Value> open_entry(Services& services, const net::Request& request) {
  const security::AuditEntry entry = FALAJ_TRY(entry_of(services, request));
  const security::RequestContext context = context_about(request, entry);
  // Who looked is written down before anything is told.
  Value looked;
  looked["entry"] = entry.sequence;
  FALAJ_TRY(services.audit.record(
      context, {"audit.open", "AuditEntry/" + std::to_string(entry.sequence), std::move(looked)}));
  Value reply = to_value(entry);
  reply["openings"] = Value::array();
  for (const auto& opening : FALAJ_TRY(services.audit.openings(entry.sequence))) {
    Value row;
    row["name"] = opening.name;
    row["salt"] = crypto::base64(opening.salt);
    row["text"] = opening.text;
    reply["openings"].push(std::move(row));
  }
  return reply;
}

Result<Value> erase_openings(Services& services, const net::Request& request) {
  const security::AuditEntry entry = FALAJ_TRY(entry_of(services, request));
  if (entry.actor == principal_of(request).id) {
    return note_denied(request, "keys.shred", {entry.project, "AuditEntry", "", nullptr},
                       Error{Code::kPermissionDenied,
                             "nobody erases the texts of their own entry: somebody else must"})
        .error();
  }
  Value reply;
  reply["sequence"] = entry.sequence;
  reply["erased"] =
      FALAJ_TRY(services.audit.erase_openings(context_about(request, entry), entry.sequence));
  return reply;
}

}  // namespace

std::vector<net::Route> audit_routes(Services& services) {
  using net::Method;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/audit", {"audit.read", net::Target::platform_or_project("AuditEntry")},
      "Audit entries by ?after=, ?action= (a prefix ends in a dot), ?object=, ?actor=, ?limit=.",
      [&](const net::Request& request) { return entries(services, request); }));
  routes.push_back(value_route(Method::kGet, "/api/v1/audit/{sequence}",
                               {"audit.read", net::Target::record("AuditEntry", "sequence")},
                               "One entry.", [&](const net::Request& request) -> Result<Value> {
                                 return to_value(FALAJ_TRY(entry_of(services, request)));
                               }));
  routes.push_back(value_route(Method::kPost, "/api/v1/audit:verify",
                               {"audit.verify", net::Target::platform("AuditEntry")},
                               "Recomputes the whole log, its tree and its signed heads.",
                               [&](const net::Request&) -> Result<Value> {
                                 Value reply;
                                 reply["head"] = head_value(FALAJ_TRY(services.audit.verify()));
                                 reply["ok"] = true;
                                 return reply;
                               }));
  routes.push_back(
      value_route(Method::kPost, "/api/v1/audit/{sequence}:replay",
                  {"audit.verify", net::Target::record("AuditEntry", "sequence")},
                  "Recomputes a decision of the loop, of a rollout or of the scheduler from its "
                  "recorded inputs.",
                  [&](const net::Request& request) { return replay(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/audit/{sequence}:open",
      {"audit.read", net::Target::record("AuditEntry", "sequence")},
      "One entry with the texts behind its commitments (reasons, rows of reads), as far "
      "as their keys exist. That they were read is an entry itself.",
      [&](const net::Request& request) { return open_entry(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/audit/{sequence}:erase",
      // Of the platform, for entries of a project too: its own people do not erase who read what.
      {"keys.shred", net::Target::platform("AuditEntry", "sequence")},
      "Forgets the texts behind an entry's commitments (names, addresses, reasons): the entry and "
      "its proofs stay. The erasure is an entry itself.",
      [&](const net::Request& request) { return erase_openings(services, request); }));
  return routes;
}

}  // namespace falaj::api
