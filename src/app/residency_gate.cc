#include "app/residency_gate.h"

#include "net/address.h"

namespace falaj::app {
namespace {

using security::residency::Caller;
using security::residency::Exit;
using security::residency::Flow;
using security::residency::Passage;
using security::residency::Visit;

std::string param(const net::Request& request, const std::string& name) {
  const auto found = request.params.find(name);
  return found == request.params.end() ? std::string() : found->second;
}

std::string object_text(const Entrant& entrant) {
  const net::Target& target = entrant.route.target;
  const std::string kind = target.kind_parameter().empty()
                               ? target.kind()
                               : param(entrant.request, target.kind_parameter());
  const std::string name = param(entrant.request, target.parameter());
  return name.empty() ? kind : kind + "/" + name;
}

security::RequestContext context_of(const Entrant& entrant, const Zone& data) {
  security::RequestContext context;
  context.principal = entrant.principal;
  context.project = ProjectName(entrant.project);
  context.zone = data;
  context.request_id = entrant.request.request_id;
  return context;
}

// What an administrator does for a caller whose place nobody declared, or whose groups disagree.
std::string remedy(const security::Principal& principal, const Zone& data) {
  const bool several = principal.zone.name().find('+') != std::string::npos;
  if (principal.zone.labelled() && !several) return "";
  std::string who = principal.name.empty() ? principal.id : principal.name;
  if (principal.kind == security::PrincipalKind::kService) who = "service:" + who;
  std::string out =
      several ? "; your groups name several zones" : "; nobody declared where you are";
  const bool of_provider = principal.id.starts_with("user:o_");
  if (of_provider) who = principal.id;
  if (of_provider && !several && !principal.groups.empty()) {
    return out + ": an administrator runs 'falaj groups zone " + principal.groups.front() + " " +
           data.name() + "' if that group is there";
  }
  return out + ": an administrator runs 'falaj users zone " + who + " " + data.name() +
         "' if that is where you are";
}

Caller place_of(const std::string& peer) {
  return net::is_loopback_address(peer) ? Caller::kOnThisMachine : Caller::kElsewhere;
}

Result<Passage> pass_recorded(security::residency::Exits& exits, const Visit& visit,
                              const Entrant& entrant) {
  Flow flow;
  flow.exit = visit.exit;
  flow.project = visit.project;
  flow.data = exits.zone_of(visit.project);
  flow.destination = exits.caller_zone(flow.data, visit.declared, visit.caller);
  flow.object = object_text(entrant);
  const security::RequestContext context = context_of(entrant, flow.data);
  return exits.pass_recorded(context, std::move(flow));
}

}  // namespace

bool may_reach(const security::residency::Exits& exits, const std::string& project,
               const security::Principal& principal, const std::string& peer) {
  Flow flow;
  flow.exit = Exit::kServe;
  flow.project = project;
  flow.data = exits.zone_of(project);
  if (!flow.data.labelled()) return true;  // Not declared: it holds nothing.
  flow.destination = exits.caller_zone(flow.data, principal.zone, place_of(peer));
  return exits.would_pass(std::move(flow)).allowed;
}

Result<std::function<void(std::size_t)>> admit(security::residency::Exits& exits,
                                               const Entrant& entrant) {
  std::function<void(std::size_t)> on_sent;
  // A project that is not declared holds nothing; the handler says so.
  if (entrant.project.empty() || !exits.zone_of(entrant.project).labelled()) return on_sent;
  const Visit visit{entrant.route.gives == net::Gives::kFile ? Exit::kExport : Exit::kServe,
                    entrant.project, entrant.principal.zone, place_of(entrant.request.peer)};
  // What leaves in bulk has its entry first; the pool's threads may wait for that.
  const bool recorded = visit.exit == Exit::kExport && entrant.route.runs_on == net::RunsOn::kPool;
  const Result<Passage> passed =
      recorded ? pass_recorded(exits, visit, entrant)
               : exits.answer(
                     visit, [&] { return object_text(entrant); },
                     [&] { return context_of(entrant, exits.zone_of(entrant.project)); });
  if (!passed.ok()) {
    Error refused = passed.error();
    if (visit.caller == Caller::kElsewhere) {
      refused.message += remedy(entrant.principal, exits.zone_of(entrant.project));
    }
    return refused;
  }
  on_sent = [&exits, passage = *passed](std::size_t bytes) {
    exits.count(passage, static_cast<std::int64_t>(bytes));
  };
  return on_sent;
}

}  // namespace falaj::app
