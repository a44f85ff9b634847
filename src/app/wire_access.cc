// Access control: the snapshot of grants, and the gate before every handler.
#include "app/program.h"
#include "app/wiring.h"
#include "net/address.h"

namespace falaj::app {
namespace {

// Whoever sits at this machine.
security::PrincipalPtr local_developer() {
  security::Principal developer;
  developer.kind = security::PrincipalKind::kUser;
  developer.id = "user:dev";
  developer.name = "dev";
  return std::make_shared<const security::Principal>(std::move(developer));
}

Result<std::string> project_of_record(Storage& storage, Training& training, const std::string& kind,
                                      const std::string& id) {
  if (kind == "Run") return FALAJ_TRY(training.runs->get(RunId(id))).project;
  if (kind == "Job") return FALAJ_TRY(training.queue->get(JobId(id))).spec.project;
  if (kind == "AuditEntry") {
    const bool number =
        !id.empty() && id.size() <= 18 && id.find_first_not_of("0123456789") == std::string::npos;
    if (!number) return Error{Code::kNotFound, "no such entry"};
    return FALAJ_TRY(storage.audit->get(std::stoll(id))).project;
  }
  return Error{Code::kInternal, "nobody knows whose a " + kind + " is"};
}

}  // namespace

Result<AccessControl> wire_access(Storage& storage, const Clock& clock) {
  AccessControl control;
  control.access = std::make_unique<security::access::Access>(
      *storage.sql, clock,
      security::access::AccessOptions{.built_in = {security::access::local_developer()},
                                      .resolve = {}});
  control.denials = std::make_unique<security::access::Denials>();
  FALAJ_TRY(control.access->refresh());
  return control;
}

void wire_gate(const Options& options, AccessControl& control, Storage& storage, Training& training,
               Serving& serving, telemetry::Metrics& metrics) {
  api::GateParts parts{
      .authenticate = [developer = local_developer(),
                       nobody = std::make_shared<const security::Principal>()](
                          net::Request& request) -> Result<security::PrincipalPtr> {
        return net::is_loopback_address(request.peer) ? developer : nobody;
      },
      .access = *control.access,
      .denials = *control.denials,
      .audit = *storage.audit,
      .metrics = metrics,
      .requests_per_second = options.requests_per_second,
      .platform_kinds = {},
      .project_of_record =
          [&storage, &training](const std::string& kind, const std::string& id) {
            return project_of_record(storage, training, kind, id);
          },
      .projects_serving =
          [&serving](const std::string& name) { return serving.deployments->projects_with(name); }};
  for (const storage::KindInfo& kind : all_kinds()) {
    if (kind.scope == storage::Scope::kPlatform) parts.platform_kinds.insert(kind.kind);
  }
  control.gate = std::make_unique<api::Gate>(std::move(parts));
}

}  // namespace falaj::app
