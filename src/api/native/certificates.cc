// Certificates of the deployment's processes: asked for by name, renewed by who has one.
#include "api/native/certificates.h"

#include "api/native/exchange.h"
#include "api/request_id.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

using security::Certificates;

Result<Certificates*> needed(Certificates* certificates) {
  if (certificates != nullptr) return certificates;
  return Error{Code::kFailedPrecondition,
               "falaj dev has no certificates: one process, one user; use falaj serve"};
}

security::RequestContext context_of_caller(const net::Request& request) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

Value issued_value(const security::IssuedCertificate& issued, const Certificates& certificates) {
  Value value;
  value["id"] = issued.id;
  value["chain"] = issued.chain_pem;
  value["fingerprint"] = issued.fingerprint;
  value["not_after"] = to_rfc3339(issued.not_after);
  value["authority"] = certificates.authority_pem();
  return value;
}

Result<Value> authority(Certificates* maybe) {
  const Certificates* certificates = FALAJ_TRY(needed(maybe));
  Value value;
  value["authority"] = certificates->authority_pem();
  value["fingerprint"] = "sha256:" + certificates->fingerprint();
  value["trust_domain"] = certificates->trust_domain();
  return value;
}

Result<Value> issue(Certificates* maybe, const net::Request& request) {
  Certificates* certificates = FALAJ_TRY(needed(maybe));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "certificate");
  const std::string service = FALAJ_TRY(fields.required_text("service"));
  const std::string asked = FALAJ_TRY(fields.required_text("request"));
  FALAJ_TRY(fields.finish());
  // As for a token: who holds the certificate is the service.
  FALAJ_TRY(policies_of(request).may_act_for(asking(request, ""),
                                             "service:" + certificates->id_of(service)));
  const auto issued = FALAJ_TRY(certificates->issue(context_of_caller(request), service, asked));
  return issued_value(issued, *certificates);
}

// The connection itself says for whom: its certificate, and no other name.
Result<Value> renew(Certificates* maybe, const net::Request& request) {
  Certificates* certificates = FALAJ_TRY(needed(maybe));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "certificate");
  const std::string asked = FALAJ_TRY(fields.required_text("request"));
  FALAJ_TRY(fields.finish());
  const auto issued =
      FALAJ_TRY(certificates->renew(context_of_caller(request), request.tls_peer, asked));
  return issued_value(issued, *certificates);
}

Result<Value> revoke(Certificates* maybe, const net::Request& request) {
  Certificates* certificates = FALAJ_TRY(needed(maybe));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "certificate");
  const std::string service = FALAJ_TRY(fields.required_text("service"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(certificates->revoke(context_of_caller(request), service));
  return Value::object();
}

}  // namespace

std::vector<net::Route> certificate_routes(Certificates* certificates) {
  using net::Method;
  using net::Target;
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/certificates/authority", {"public.read", Target::nothing()},
      "The deployment's certificate authority: PEM, fingerprint and trust domain.",
      [certificates](const net::Request&) { return authority(certificates); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/certificates", {"identity.write", Target::platform("Certificate")},
      "A certificate of at most an hour for {service}, from a signing {request} (PEM).",
      [certificates](const net::Request& request) { return issue(certificates, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/certificates:renew",
      {"account.manage", Target::platform("Certificate")},
      "The same for the process whose certificate this connection was made with.",
      [certificates](const net::Request& request) { return renew(certificates, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/certificates", {"identity.read", Target::platform("Certificate")},
      "The processes that were given certificates, and which of them were revoked.",
      [certificates](const net::Request&) -> Result<Value> {
        const Certificates* known = FALAJ_TRY(needed(certificates));
        return list_value("processes", known->processes());
      }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/certificates:revoke",
      {"identity.write", Target::platform("Certificate")},
      "Refuses the process {service} (its name or SPIFFE id) from now on, whatever it shows.",
      [certificates](const net::Request& request) { return revoke(certificates, request); }));
  return routes;
}

}  // namespace falaj::api
