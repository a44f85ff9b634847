#include "app/residency_gate.h"

#include "net/address.h"

namespace falaj::app {
namespace {

using security::residency::Caller;
using security::residency::Exit;
using security::residency::Flow;
using security::residency::Passage;

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

}  // namespace

Result<std::function<void(std::size_t)>> admit(security::residency::Exits& exits,
                                               const Entrant& entrant) {
  std::function<void(std::size_t)> on_sent;
  const Zone data = exits.zone_of(entrant.project);
  // A project that is not declared holds nothing; the handler says so.
  if (entrant.project.empty() || !data.labelled()) return on_sent;
  const Caller where =
      net::is_loopback_address(entrant.request.peer) ? Caller::kOnThisMachine : Caller::kElsewhere;
  Flow flow;
  flow.exit = entrant.route.gives == net::Gives::kFile ? Exit::kExport : Exit::kServe;
  flow.project = entrant.project;
  flow.data = data;
  flow.destination = exits.caller_zone(data, entrant.principal.zone, where);
  flow.object = object_text(entrant);
  Passage passage = FALAJ_TRY(
      exits.pass([&entrant, &data] { return context_of(entrant, data); }, std::move(flow)));
  on_sent = [&exits, passage = std::move(passage)](std::size_t bytes) {
    exits.count(passage, static_cast<std::int64_t>(bytes));
  };
  return on_sent;
}

}  // namespace falaj::app
