#include "security/context.h"

namespace falaj::security {

RequestContext system_context(std::string actor, ProjectName project, Zone zone) {
  RequestContext context;
  context.principal = {PrincipalKind::kSystem, std::move(actor)};
  context.project = std::move(project);
  context.zone = std::move(zone);
  return context;
}

}  // namespace falaj::security
