#include "api/native/proofs.h"

#include <map>

#include "api/native/exchange.h"
#include "api/place.h"
#include "api/request_id.h"
#include "base/decode.h"
#include "base/json.h"
#include "security/audit/wire.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Target;
using security::SignedHead;
using security::residency::Flow;

security::RequestContext caller_context(const net::Request& request) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

Result<Value> signed_head_value(security::Heads& heads, const SignedHead& head) {
  const security::SignerInfo info = FALAJ_TRY(heads.signer().info());
  Value value;
  value["checkpoint"] = head.note;
  value["head"] = security::head_value(head.head);
  value["key"] = crypto::to_text(info.log_key);
  value["witness_key"] = crypto::to_text(info.witness_key);
  value["witness_trouble"] = heads.witness_trouble();
  return value;
}

Result<std::int64_t> sequence_of(const net::Request& request) {
  const std::string& text = request.params.find("sequence")->second;
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    return Error{ErrorId::kInvalidArgument, "audit sequence '" + text + "' is not a number"};
  }
  return std::stoll(text);
}

// A file that `falaj-verify inclusion` takes.
Result<Value> inclusion(security::Heads& heads, const net::Request& request) {
  const std::int64_t sequence = FALAJ_TRY(sequence_of(request));
  FALAJ_TRY(heads.audit().get(sequence));
  SignedHead head = FALAJ_TRY(heads.latest());
  if (head.head.size < static_cast<std::uint64_t>(sequence)) head = FALAJ_TRY(heads.tick());
  const auto lines = FALAJ_TRY(heads.audit().lines(sequence, 1));
  Value value;
  value["checkpoint"] = head.note;
  value["entry"] = lines.front();
  value["index"] = sequence - 1;
  value["proof"] =
      security::proof_value(FALAJ_TRY(heads.audit().inclusion(sequence, head.head.size)));
  return value;
}

// A file that `falaj-verify consistency` takes.
Result<Value> consistency(security::Heads& heads, const net::Request& request) {
  const std::int64_t from = FALAJ_TRY(query_integer(request, "from", 0, INT64_MAX));
  const SignedHead head = FALAJ_TRY(heads.latest());
  Value value;
  value["checkpoint"] = head.note;
  value["from"] = from;
  value["proof"] = security::proof_value(
      FALAJ_TRY(heads.audit().consistency(static_cast<std::uint64_t>(from), head.head.size)));
  return value;
}

Result<Value> witness(const ProofServices& services, const net::Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "witness");
  const std::string note = FALAJ_TRY(fields.required_text("checkpoint"));
  const std::string key_text = FALAJ_TRY(fields.required_text("key"));
  const Value proof_list = fields.any("proof");
  FALAJ_TRY(fields.finish());
  const crypto::NoteKey key = FALAJ_TRY(crypto::parse_note_key(key_text));
  const crypto::Proof proof = FALAJ_TRY(security::proof_from(proof_list));
  security::Signer& signer = services.heads.signer();
  const bool first = FALAJ_TRY(signer.witnessed(key.name)).size == 0;
  Value value;
  value["checkpoint"] = FALAJ_TRY(signer.cosign(note, key, proof, services.clock.now()));
  if (first) {
    // From now on this log is held to this key: that deserves an entry, before the answer goes out.
    Value detail;
    detail["key"] = key_text;
    FALAJ_TRY(services.heads.audit().record(caller_context(request),
                                            {"witness.pin", "Log/" + key.name, detail}));
  }
  return value;
}

// What projects did, on its way to who asked for evidence: a flow from every zone that a project of
// that name was ever in. One that was never declared has no zone: its entries stay on this machine.
std::vector<Flow> evidence_flows(const ProofServices& services, const net::Request& request,
                                 const std::map<std::string, std::int64_t>& bytes,
                                 const std::map<std::string, std::vector<Zone>>& homes) {
  const security::residency::Caller place = place_of(request.peer);
  const bool stays = place == security::residency::Caller::kOnThisMachine &&
                     !principal_of(request).zone.labelled();
  std::vector<Flow> flows;
  for (const auto& [project, count] : bytes) {
    const auto known = homes.find(project);
    if (known == homes.end() && stays) continue;
    const std::vector<Zone> zones = known == homes.end() ? std::vector{Zone()} : known->second;
    for (const Zone& zone : zones) {
      Flow flow;
      flow.exit = security::residency::Exit::kExport;
      flow.project = project;
      flow.data = zone;
      flow.destination = services.exits.caller_zone(zone, principal_of(request).zone, place);
      flow.object = "Evidence";
      flow.bytes = count;
      flows.push_back(std::move(flow));
    }
  }
  return flows;
}

Status check_flows(const ProofServices& services, const std::vector<Flow>& flows) {
  for (const Flow& flow : flows) {
    const security::residency::Decision decision = services.exits.would_pass(flow);
    if (!decision.allowed) {
      return Error(decision.error,
                   "evidence holds what project '" + flow.project + "' did: " + decision.rule);
    }
  }
  return {};
}

// All of them or none: nothing is counted of an answer that does not leave. Every Transfer that one
// stands on has its entry in the log before that.
Status let_pass(const ProofServices& services, const net::Request& request,
                std::vector<Flow> flows) {
  FALAJ_TRY(check_flows(services, flows));
  for (Flow& flow : flows) {
    security::RequestContext context = caller_context(request);
    context.project = ProjectName(flow.project);
    context.zone = flow.data;
    FALAJ_TRY(services.exits.pass_recorded(context, std::move(flow)));
  }
  return {};
}

Result<Value> evidence(const ProofServices& services, const net::Request& request) {
  const auto homes = FALAJ_TRY(services.exits.homes());
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [project, zones] : homes) bytes[project] = 0;
  FALAJ_TRY(check_flows(services, evidence_flows(services, request, bytes, homes)));
  const security::Evidence built = FALAJ_TRY(services.evidence.build(caller_context(request)));
  // Its files are about all of them: each is counted with the whole.
  for (const auto& [path, content] : built.files) {
    for (auto& [project, count] : bytes) count += static_cast<std::int64_t>(content.size());
  }
  FALAJ_TRY(let_pass(services, request, evidence_flows(services, request, bytes, homes)));
  Value value;
  value["entries"] = built.entries;
  value["files"] = Value::object();
  for (const auto& [path, content] : built.files) value["files"][path] = content;
  return value;
}

// Those of no project are the platform's own.
Status let_entries_pass(const ProofServices& services, const net::Request& request,
                        const std::vector<std::string>& lines) {
  std::map<std::string, std::int64_t> bytes;
  for (const std::string& line : lines) {
    const Value entry = FALAJ_TRY(parse_json(line));
    const std::string project = entry.text("project");
    if (!project.empty()) bytes[project] += static_cast<std::int64_t>(line.size()) + 1;
  }
  const auto homes = FALAJ_TRY(services.exits.homes());
  return let_pass(services, request, evidence_flows(services, request, bytes, homes));
}

net::Response entry_lines(const ProofServices& services, const net::Request& request) {
  const auto first = query_integer(request, "first", 1, INT64_MAX);
  const auto limit = query_integer(request, "limit", 5'000, 5'000);
  if (!first.ok()) return answer(request, first.error());
  if (!limit.ok()) return answer(request, limit.error());
  const auto lines = services.heads.audit().lines(*first, *limit);
  if (!lines.ok()) return answer(request, lines.error());
  const Status passed = let_entries_pass(services, request, *lines);
  if (!passed.ok()) return answer(request, passed.error());
  net::Response response;
  response.content_type = "application/x-ndjson";
  for (const std::string& line : *lines) response.body += line + "\n";
  return response;
}

void add_head_routes(std::vector<net::Route>& routes, const ProofServices& services) {
  security::Heads& heads = services.heads;
  routes.push_back(value_route(Method::kGet, "/api/v1/audit/head",
                               {"audit.read", Target::platform("AuditEntry")},
                               "The newest signed head of the audit log, and the log's keys.",
                               [&heads](const net::Request&) -> Result<Value> {
                                 const SignedHead head = FALAJ_TRY(heads.latest());
                                 return signed_head_value(heads, head);
                               }));
  routes.push_back(value_route(Method::kPost, "/api/v1/audit:sign",
                               {"audit.verify", Target::platform("AuditEntry")},
                               "Signs a head of the audit log as it is now.",
                               [&heads](const net::Request&) -> Result<Value> {
                                 const SignedHead head = FALAJ_TRY(heads.tick());
                                 return signed_head_value(heads, head);
                               }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/audit/{sequence}/proof",
                  {"audit.read", Target::record("AuditEntry", "sequence")},
                  "Proof that an entry is in the signed log, for falaj-verify.",
                  [&heads](const net::Request& request) { return inclusion(heads, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/audit/consistency", {"audit.read", Target::platform("AuditEntry")},
      "Proof that the signed log continues the one of ?from= entries, for falaj-verify.",
      [&heads](const net::Request& request) { return consistency(heads, request); }));
}

}  // namespace

std::vector<net::Route> proof_routes(const ProofServices& services) {
  std::vector<net::Route> routes;
  add_head_routes(routes, services);
  routes.push_back(
      value_route(Method::kPost, "/api/v1/witness", {"audit.witness", Target::platform("Log")},
                  "Cosigns another log's signed head if it continues what was seen of it before.",
                  [services](const net::Request& request) { return witness(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/witness", {"audit.witness", Target::platform("Log")},
      "The last head (size, root) of the log ?origin= that was cosigned here.",
      [services](const net::Request& request) -> Result<Value> {
        return security::head_value(FALAJ_TRY(
            services.heads.signer().witnessed(request.query_param("origin").value_or(""))));
      }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/evidence", {"audit.export", Target::platform("Evidence")},
      "Evidence for a reader outside: every file but the entries, under a signed manifest.",
      [services](const net::Request& request) { return evidence(services, request); }));
  routes.emplace_back(
      Method::kGet, "/api/v1/evidence/entries", net::Permission("audit.export"),
      Target::platform("Evidence"), "Canonical audit entries from ?first= on, one a line.",
      [services](const net::Request& request) { return entry_lines(services, request); });
  return routes;
}

}  // namespace falaj::api
