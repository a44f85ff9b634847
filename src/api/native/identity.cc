// Users, services, tokens and sessions: administration, and everyone's own account.
#include "api/native/identity.h"

#include "api/native/exchange.h"
#include "api/native/sign_in.h"
#include "api/request_id.h"
#include "base/decode.h"
#include "security/access/roles.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Target;
using security::Identity;

security::RequestContext context_for(const net::Request& request) {
  security::RequestContext context;
  context.principal = principal_of(request);
  context.deadline = request.deadline;
  context.request_id = carried_id(request);
  context.traceparent = request.traceparent;
  return context;
}

const std::string& param(const net::Request& request, std::string_view name) {
  return request.params.find(name)->second;
}

Result<std::optional<std::vector<security::Scope>>> scopes_of(Fields& fields) {
  if (fields.any("scopes").is_null()) return std::optional<std::vector<security::Scope>>();
  std::vector<security::Scope> scopes;
  const std::vector<std::string> texts = FALAJ_TRY(fields.texts("scopes"));
  for (const std::string& text : texts) {
    security::Scope scope = FALAJ_TRY(security::parse_scope(text));
    // A token for what nothing ever asks for would be a slip of the pen that nobody is told of.
    FALAJ_TRY(security::access::ActionSet::scoped(scope.action));
    scopes.push_back(std::move(scope));
  }
  return std::optional(std::move(scopes));
}

// A token never gives more than the credential that asks for it: a limited credential makes none,
// and one made by a token ends with it.
Status check_maker(const security::Principal& maker, const security::TokenRequest& request,
                   Timestamp now) {
  if (maker.scopes) {
    return Error{Code::kPermissionDenied,
                 "a credential that is limited by scopes cannot make tokens; sign in with your "
                 "password, or use a token without scopes"};
  }
  const bool by_token = maker.credential.starts_with("token:");
  if (by_token && maker.id == request.user && now + request.lifetime > maker.expires) {
    return Error{Code::kPermissionDenied, "a token made by a token ends no later than " +
                                              to_rfc3339(maker.expires) + "; ask for less"};
  }
  return {};
}

// Where a token is used is the administrator's to say: who makes one for himself takes it where he
// is.
enum class TokenZone : std::uint8_t { kOfUser, kDeclared };
Result<Value> make_token(Identity& identity, const Clock& clock, const net::Request& request,
                         const std::string& user, TokenZone zone) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "token");
  security::TokenRequest wanted;
  wanted.user = user;
  wanted.label = FALAJ_TRY(fields.text("label"));
  wanted.lifetime = FALAJ_TRY(fields.duration("lifetime", Duration::days(90)));
  wanted.scopes = FALAJ_TRY(scopes_of(fields));
  if (zone == TokenZone::kDeclared) wanted.zone = Zone(FALAJ_TRY(fields.text("zone")));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(note_denied(request, "account.manage", {},
                        check_maker(principal_of(request), wanted, clock.now())));
  const security::NewToken made = FALAJ_TRY(identity.add_token(context_for(request), wanted));
  Value reply = to_value(made.info);
  reply["token"] = made.text;
  return reply;
}

Status revoke(Identity& identity, const net::Request& request, const std::string& user) {
  const std::string& id = param(request, "token");
  for (const security::TokenInfo& token : identity.directory().tokens(user)) {
    if (token.id == id) return identity.directory().revoke_token(context_for(request), id);
  }
  return Error{Code::kNotFound, "there is no token '" + id + "'"};
}

Value deleted(const std::string& what) {
  Value reply;
  reply["deleted"] = what;
  return reply;
}

// Who sets what speaks for somebody could act as them: it takes all that they may do.
Status check_speaks_for(const net::Request& request, const std::string& subject) {
  if (subject == principal_of(request).id) return {};
  return policies_of(request).may_act_for(asking(request, ""), subject);
}

Result<Value> create_account(Identity& identity, const net::Request& request,
                             security::PrincipalKind kind) {
  const Value body = FALAJ_TRY(body_of(request));
  const bool service = kind == security::PrincipalKind::kService;
  Fields fields(body, service ? "service" : "user");
  const std::string name = FALAJ_TRY(fields.required_text("name"));
  const std::string password = service ? "" : FALAJ_TRY(fields.text("password"));
  const Zone zone(FALAJ_TRY(fields.text("zone")));
  FALAJ_TRY(fields.finish());
  // Grants may be declared before the one whom they name is there.
  const std::string subject = FALAJ_TRY(security::normal_user_name(name));
  FALAJ_TRY(check_speaks_for(request, (service ? "service:" : "user:") + subject));
  const security::RequestContext context = context_for(request);
  const security::User made = FALAJ_TRY(service ? identity.add_service(context, name, zone)
                                                : identity.add_user(context, name, password, zone));
  return to_value(made);
}

Result<Value> change_user(Identity& identity, const net::Request& request) {
  const security::User user = FALAJ_TRY(identity.find(param(request, "user")));
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "user");
  const std::string password = FALAJ_TRY(fields.text("password"));
  const std::string state = FALAJ_TRY(fields.choice("state", {"", "active", "disabled"}));
  const bool moves = !fields.any("zone").is_null();
  const Zone zone(FALAJ_TRY(fields.text("zone")));
  FALAJ_TRY(fields.finish());
  const security::RequestContext context = context_for(request);
  if (!password.empty()) {
    FALAJ_TRY(check_speaks_for(request, user.id));
    FALAJ_TRY(identity.set_password(context, user.id, password));
  }
  if (!state.empty()) {
    const auto wanted =
        state == "active" ? security::AccountState::kActive : security::AccountState::kDisabled;
    FALAJ_TRY(identity.set_state(context, user.id, wanted));
  }
  if (moves) FALAJ_TRY(identity.set_zone(context, user.id, zone));
  return to_value(FALAJ_TRY(identity.find(user.id)));
}

Result<Value> change_own_password(Identity& identity, const net::Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "password");
  const std::string present = FALAJ_TRY(fields.required_text("present"));
  const std::string next = FALAJ_TRY(fields.required_text("next"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(identity.change_password(context_for(request), present, next, request.peer));
  return Value::object();
}

Value session_value(const security::SessionInfo& session) {
  Value value;
  value["id"] = session.id;
  value["user"] = session.user;
  value["created"] = to_rfc3339(session.created);
  value["seen"] = to_rfc3339(session.seen);
  value["expires"] = to_rfc3339(session.expires);
  return value;
}

void add_own_routes(std::vector<net::Route>& routes, Identity& identity, const Clock& clock) {
  const Target self = Target::platform("User");
  routes.push_back(value_route(Method::kGet, "/api/v1/whoami", {"account.use", self},
                               "Who the caller is, and by which credential.",
                               [](const net::Request& request) -> Result<Value> {
                                 return principal_value(principal_of(request));
                               }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/password", {"account.manage", self},
      "Changes the caller's own password {present, next}; ends their sessions.",
      [&](const net::Request& request) { return change_own_password(identity, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/tokens", {"account.use", self},
      "The caller's own tokens, without their secrets.",
      [&](const net::Request& request) -> Result<Value> {
        return list_value("tokens", identity.directory().tokens(principal_of(request).id));
      }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/tokens", {"account.manage", self},
      "Makes a token {label, lifetime, scopes}; its text is shown once.",
      [&](const net::Request& request) {
        return make_token(identity, clock, request, principal_of(request).id, TokenZone::kOfUser);
      },
      201));
  routes.push_back(value_route(Method::kDelete, "/api/v1/tokens/{token}", {"account.manage", self},
                               "Revokes one of the caller's own tokens.",
                               [&](const net::Request& request) -> Result<Value> {
                                 FALAJ_TRY(revoke(identity, request, principal_of(request).id));
                                 return deleted("token/" + param(request, "token"));
                               }));
}

void add_user_routes(std::vector<net::Route>& routes, Identity& identity) {
  const Target one = Target::platform("User", "user");
  routes.push_back(value_route(Method::kGet, "/api/v1/users",
                               {"identity.read", Target::platform("User")}, "Users and services.",
                               [&](const net::Request&) -> Result<Value> {
                                 return list_value("users", identity.directory().users());
                               }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/users", {"identity.write", Target::platform("User")},
      "Makes a local user {name, password, zone}; the zone is where they are.",
      [&](const net::Request& request) {
        return create_account(identity, request, security::PrincipalKind::kUser);
      },
      201));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/services", {"identity.write", Target::platform("User")},
      "Makes a service {name, zone}: a program that signs in by token only.",
      [&](const net::Request& request) {
        return create_account(identity, request, security::PrincipalKind::kService);
      },
      201));
  routes.push_back(value_route(Method::kGet, "/api/v1/users/{user}", {"identity.read", one},
                               "One user or service, by name (service:NAME) or id.",
                               [&](const net::Request& request) -> Result<Value> {
                                 return to_value(FALAJ_TRY(identity.find(param(request, "user"))));
                               }));
  routes.push_back(value_route(
      Method::kPatch, "/api/v1/users/{user}", {"identity.write", one},
      "Sets a password, the state (active, disabled) or the zone (\"\" takes it back); ends the "
      "user's sessions.",
      [&](const net::Request& request) { return change_user(identity, request); }));
  routes.push_back(value_route(Method::kDelete, "/api/v1/users/{user}", {"identity.write", one},
                               "Deletes a user or service with all of its tokens.",
                               [&](const net::Request& request) -> Result<Value> {
                                 const security::User user =
                                     FALAJ_TRY(identity.find(param(request, "user")));
                                 FALAJ_TRY(identity.remove_user(context_for(request), user.id));
                                 return deleted("user/" + user.id);
                               }));
}

void add_others_routes(std::vector<net::Route>& routes, Identity& identity, const Clock& clock) {
  const Target one = Target::platform("User", "user");
  routes.push_back(value_route(Method::kGet, "/api/v1/users/{user}/tokens", {"identity.read", one},
                               "A user's or service's tokens, without their secrets.",
                               [&](const net::Request& request) -> Result<Value> {
                                 const security::User user =
                                     FALAJ_TRY(identity.find(param(request, "user")));
                                 return list_value("tokens", identity.directory().tokens(user.id));
                               }));
  // Not for people, and for services only by who may do all that the service may.
  routes.push_back(value_route(
      Method::kPost, "/api/v1/users/{user}/tokens", {"identity.write", one},
      "Makes a token for a service {label, lifetime, scopes, zone}; its text is shown once.",
      [&](const net::Request& request) -> Result<Value> {
        const security::User user = FALAJ_TRY(identity.find(param(request, "user")));
        if (user.kind != security::PrincipalKind::kService) {
          return Error{Code::kFailedPrecondition,
                       "people make their own tokens; for a program make a service"};
        }
        FALAJ_TRY(check_speaks_for(request, user.id));
        return make_token(identity, clock, request, user.id, TokenZone::kDeclared);
      },
      201));
  routes.push_back(value_route(
      Method::kDelete, "/api/v1/users/{user}/tokens/{token}", {"identity.write", one},
      "Revokes a user's or service's token.", [&](const net::Request& request) -> Result<Value> {
        const security::User user = FALAJ_TRY(identity.find(param(request, "user")));
        FALAJ_TRY(revoke(identity, request, user.id));
        return deleted("token/" + param(request, "token"));
      }));
  routes.push_back(
      value_route(Method::kGet, "/api/v1/sessions", {"identity.read", Target::platform("Session")},
                  "Who is signed in to the console.", [&](const net::Request&) -> Result<Value> {
                    Value reply;
                    reply["sessions"] = Value::array();
                    for (const auto& session : identity.sessions().list()) {
                      reply["sessions"].push(session_value(session));
                    }
                    return reply;
                  }));
  routes.push_back(value_route(
      Method::kDelete, "/api/v1/sessions/{session}",
      {"identity.write", Target::platform("Session", "session")}, "Ends one session at once.",
      [&](const net::Request& request) -> Result<Value> {
        FALAJ_TRY(identity.revoke_session(context_for(request), param(request, "session")));
        return deleted("session/" + param(request, "session"));
      }));
}

}  // namespace

security::Credentials credentials_of(const net::Request& request) {
  security::Credentials shown;
  shown.authorization = net::find_header(request.headers, "Authorization");
  shown.cookie = net::find_header(request.headers, "Cookie");
  shown.csrf = net::find_header(request.headers, "X-Falaj-CSRF");
  shown.tls_peer = request.tls_peer;
  shown.address = request.peer;
  const bool safe = request.method == Method::kGet || request.method == Method::kHead ||
                    request.method == Method::kOptions;
  shown.method = safe ? security::Method::kSafe : security::Method::kUnsafe;
  return shown;
}

std::vector<net::Route> identity_routes(Identity& identity, const Clock& clock,
                                        const ZoneOf& zone_of) {
  std::vector<net::Route> routes = sign_in_routes(identity, zone_of);
  add_own_routes(routes, identity, clock);
  add_user_routes(routes, identity);
  add_others_routes(routes, identity, clock);
  return routes;
}

}  // namespace falaj::api
