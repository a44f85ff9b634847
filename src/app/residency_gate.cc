#include "app/residency_gate.h"

#include "api/place.h"
#include "api/request_id.h"

namespace falaj::app {
namespace {

using api::place_of;
using security::residency::Caller;
using security::residency::Exit;
using security::residency::Flow;
using security::residency::Passage;
using security::residency::Visit;

std::string project_of(const Entrant& entrant) { return std::string(entrant.object.project); }

std::string object_text(const Entrant& entrant) {
  std::string out(entrant.object.kind);
  if (!entrant.object.name.empty()) out.append("/").append(entrant.object.name);
  return out;
}

security::RequestContext context_of(const Entrant& entrant, const Zone& data) {
  security::RequestContext context;
  context.principal = entrant.principal;
  context.project = ProjectName(project_of(entrant));
  context.zone = data;
  context.request_id = api::carried_id(entrant.request);
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

std::string out_of_reach(const security::residency::Exits& exits, const Row& row,
                         const security::Principal& principal, const std::string& peer) {
  Flow flow;
  flow.exit = Exit::kServe;
  flow.project = row.project;
  flow.data = exits.zone_of(row.project);
  if (!flow.data.labelled()) return "";  // Not declared: it holds nothing.
  flow.destination = exits.caller_zone(flow.data, principal.zone, place_of(peer));
  flow.object = row.object;
  const security::residency::Decision decision = exits.would_pass(std::move(flow));
  return decision.allowed ? "" : decision.rule;
}

Result<std::function<void(std::size_t)>> admit(security::residency::Exits& exits,
                                               const Entrant& entrant) {
  std::function<void(std::size_t)> on_sent;
  const std::string project = project_of(entrant);
  // A project that is not declared holds nothing; the handler says so.
  if (project.empty() || !exits.zone_of(project).labelled()) return on_sent;
  const Visit visit{entrant.route.gives == net::Gives::kFile ? Exit::kExport : Exit::kServe,
                    project, entrant.principal.zone, place_of(entrant.request.peer)};
  // What leaves in bulk has its entry first; the pool's threads may wait for that.
  const bool recorded = visit.exit == Exit::kExport && entrant.route.runs_on == net::RunsOn::kPool;
  const Result<Passage> passed =
      recorded ? pass_recorded(exits, visit, entrant)
               : exits.answer(
                     visit, [&] { return object_text(entrant); },
                     [&] { return context_of(entrant, exits.zone_of(project)); });
  if (!passed.ok()) {
    Error refused = passed.error();
    if (visit.caller == Caller::kElsewhere) {
      refused.message += remedy(entrant.principal, exits.zone_of(project));
    }
    return refused;
  }
  on_sent = [&exits, passage = *passed](std::size_t bytes) {
    exits.count(passage, static_cast<std::int64_t>(bytes));
  };
  return on_sent;
}

}  // namespace falaj::app
