// Access control: the snapshot of grants, and the gate before every handler.
#include <algorithm>

#include "api/native/identity.h"
#include "app/program.h"
#include "app/residency_gate.h"
#include "app/wiring.h"
#include "base/decode.h"
#include "features/quarantine_files.h"
#include "net/address.h"
#include "security/access/submitter.h"
#include "storage/objects.h"

namespace falaj::app {
namespace {

// The local developer is whoever sits at this machine, and nobody elsewhere. A failed sign-in may
// have to wait: how long goes into Retry-After.
Result<security::PrincipalPtr> authenticate(security::Identity& identity, const Tls& tls,
                                            net::Request& request, security::Asking asking) {
  // On every request: a connection outlives the certificate that it was made with.
  if (tls.certificates != nullptr && !request.tls_peer.empty()) {
    FALAJ_TRY(tls.certificates->check_process(request.tls_peer));
  }
  security::Credentials shown = api::credentials_of(request);
  shown.asking = asking;
  Result<security::PrincipalPtr> principal = identity.authenticate(shown);
  if (!principal.ok() && principal.error().id == ErrorId::kRateLimited) {
    const auto authorization = security::parse_authorization(shown.authorization);
    const std::string name = authorization.ok() ? authorization->name : "";
    const auto wait = identity.back_off(name, request.peer).value_or(Duration::seconds(1));
    request.retry_after = security::access::retry_after_seconds(wait);
  }
  const bool developer = principal.ok() && (*principal)->id == security::kDeveloperId;
  if (developer && !net::is_loopback_address(request.peer)) {
    return Error{Code::kUnauthenticated, "the local developer sits at this machine"};
  }
  return principal;
}

// Records that are counted: nullopt for what is no number.
std::optional<std::int64_t> number_of(const std::string& id) {
  const bool number =
      !id.empty() && id.size() <= 18 && id.find_first_not_of("0123456789") == std::string::npos;
  if (!number) return std::nullopt;
  return std::stoll(id);
}

// A declared object by PROJECT/NAME, of those above projects only the name counts: its project. Of
// a kind that can be declared "" is always there.
Result<std::string> project_of_declared(Storage& storage, const storage::KindInfo& kind,
                                        const std::string& id) {
  if (id.empty()) return std::string();
  const std::size_t slash = id.find('/');  // Neither part of what is declared has one.
  if (slash == std::string::npos) return Error{Code::kNotFound, "no such " + kind.kind};
  const bool above = kind.scope == storage::Scope::kPlatform;
  const std::string project = above ? "" : id.substr(0, slash);
  bool found = false;
  FALAJ_TRY(storage.sql->read([&](storage::SqlTransaction& tx) -> Status {
    const std::string name = id.substr(slash + 1);
    found = FALAJ_TRY(storage::find_object(tx, kind.kind, project, name)).has_value();
    return {};
  }));
  if (!found) return Error{Code::kNotFound, "no such " + kind.kind};
  return project;
}

// Only whose it is, not the record: were another's slower to find than nothing, it could be timed.
Result<std::string> project_of_record(Storage& storage, const std::string& kind,
                                      const std::string& id) {
  const auto row = [&](const char* statement,
                       const storage::SqlParams& key) -> Result<std::string> {
    const storage::SqlRows rows = FALAJ_TRY(storage::query(*storage.sql, statement, key));
    if (rows.empty()) return Error{Code::kNotFound, "no such " + kind};
    return rows.front().text(0);
  };
  if (kind == "Run") return row("SELECT project FROM runs WHERE id = ?", {id});
  if (kind == "Job") return row("SELECT project FROM jobs WHERE id = ?", {id});
  const std::optional<std::int64_t> number = number_of(id);
  if (kind == "AuditEntry" || kind == "Emergency") {
    if (!number) return Error{Code::kNotFound, "no such " + kind};
    if (kind == "Emergency") {
      return row("SELECT project FROM emergencies WHERE id = ?", {*number});
    }
    return row("SELECT project FROM audit WHERE sequence = ?", {*number});
  }
  return Error{Code::kInternal, "nobody knows whose a " + kind + " is"};
}

// Reads of data and predictions leave no entry of their own; they are counted. What is counted is
// what was decided upon, never a text of the caller's: a project that there is not, or a name that
// could be none, is not written down.
void note_access(security::AccessJournal& journal, const security::residency::Exits& exits,
                 const security::access::AccessRequest& asked) {
  if (asked.action != "serving.predict" && asked.action != "features.read" &&
      asked.action != "data.read") {
    return;
  }
  const security::access::ObjectRef& object = asked.object;
  const std::string project(object.project);
  const bool declared = exits.zone_of(project).labelled();
  const bool named = object.name.empty() || check_name("", object.name).ok();
  thread_local std::string text;
  text.assign(object.kind).append("/").append(named ? object.name : "(no name)");
  journal.note({asked.principal.id, asked.action, declared ? project : "", text});
}

// What a person, service or process may do himself, by now.
bool submitter_may(const AccessControl& control, const security::Identity& identity, const Tls& tls,
                   const security::Principal& submitter, const security::Scope& scope) {
  constexpr std::string_view kProcess = "service:spiffe:";
  const bool process = submitter.id.starts_with(kProcess);
  if (process && tls.certificates != nullptr &&
      !tls.certificates->check_process(submitter.id.substr(std::string_view("service:").size()))
           .ok()) {
    return false;
  }
  return identity.counts(submitter) &&
         security::access::may_still(*control.access->policies(), submitter, scope,
                                     control.access->now());
}

}  // namespace

std::vector<security::access::Grant> built_in_grants(const Options& options) {
  if (options.listen.mode != ListenOptions::Mode::kLoopback) return {};
  return {security::access::local_developer()};
}

Result<AccessControl> wire_access(const Options& options, Storage& storage,
                                  const security::Identity& identity, telemetry::Metrics& metrics,
                                  const Clock& clock) {
  AccessControl control;
  security::access::AccessOptions access;
  access.built_in = built_in_grants(options);
  access.resolve = [&identity](const std::string& subject) { return identity.resolve(subject); };
  control.access =
      std::make_unique<security::access::Access>(*storage.sql, clock, std::move(access));
  control.denials = std::make_unique<security::access::Denials>();
  control.emergencies =
      std::make_unique<security::access::Emergencies>(*storage.sql, *storage.audit, metrics, clock);
  FALAJ_TRY(control.access->refresh());
  return control;
}

void wire_gate(const Options& options, AccessControl& control, security::Identity& identity,
               const Tls& tls, AuditTrail& trail, Storage& storage, Serving& serving,
               telemetry::Metrics& metrics) {
  identity.jobs().bound_by([&](const security::Principal& submitter, const security::Scope& scope) {
    return submitter_may(control, identity, tls, submitter, scope);
  });
  api::GateParts parts{
      .authenticate =
          [&identity, &tls](net::Request& request, security::Asking asking) {
            return authenticate(identity, tls, request, asking);
          },
      .access = *control.access,
      .denials = *control.denials,
      .emergencies = *control.emergencies,
      .audit = *storage.audit,
      .metrics = metrics,
      .requests_per_second = options.requests_per_second,
      .platform_kinds = {},
      .project_of_record =
          [&storage, kinds = all_kinds()](const std::string& kind, const std::string& id) {
            const auto declared = std::ranges::find(kinds, kind, &storage::KindInfo::kind);
            return declared == kinds.end() ? project_of_record(storage, kind, id)
                                           : project_of_declared(storage, *declared, id);
          },
      .holder_of =
          [&storage](const std::string&, const std::string& project, const std::string& id) {
            return features::view_of_quarantine(*storage.sql, ProjectName(project), BlobId(id));
          },
      .admit =
          [exits = storage.exits.get()](const net::Route& route, const net::Request& request,
                                        const security::access::ObjectRef& object,
                                        const security::Principal& principal) {
            return admit(*exits, {route, request, object, principal});
          },
      .out_of_reach =
          [exits = storage.exits.get()](const net::Request& request,
                                        const security::PrincipalPtr& principal) {
            return [exits, principal, peer = request.peer](const std::string& project,
                                                           const std::string& object) {
              return out_of_reach(*exits, {project, object}, *principal, peer);
            };
          },
      .passed =
          [journal = trail.journal.get(),
           exits = storage.exits.get()](const security::access::AccessRequest& asked) {
            note_access(*journal, *exits, asked);
          },
      .projects_serving =
          [&serving](const std::string& name) { return serving.deployments->projects_with(name); },
      .quotas = storage.quotas.get()};
  for (const storage::KindInfo& kind : all_kinds()) {
    if (kind.scope == storage::Scope::kPlatform) parts.platform_kinds.insert(kind.kind);
  }
  control.gate = std::make_unique<api::Gate>(std::move(parts));
}

}  // namespace falaj::app
