#include "api/native/sign_in.h"

#include <type_traits>

#include "api/native/exchange.h"
#include "api/native/identity.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;
using net::Target;
using security::Identity;

// Lax, not Strict: the provider sends the browser back from another site.
constexpr std::string_view kLoginCookie = "__Host-falaj-login";

std::string_view kind_name(security::PrincipalKind kind) {
  switch (kind) {
    case security::PrincipalKind::kNobody:
      return "nobody";
    case security::PrincipalKind::kUser:
      return "user";
    case security::PrincipalKind::kService:
      return "service";
    case security::PrincipalKind::kJob:
      return "job";
    case security::PrincipalKind::kSystem:
      break;
  }
  return "system";
}

void set_cookie(Response& response, std::string_view name, const std::string& value,
                std::string_view rest) {
  response.headers.emplace_back(
      "Set-Cookie",
      std::string(name) + "=" + value + "; Path=/; Secure; HttpOnly; " + std::string(rest));
}

void set_session(Response& response, const security::SignedIn& signed_in) {
  set_cookie(response, security::kSessionCookie, signed_in.session.cookie, "SameSite=Strict");
}

void clear_session(Response& response) {
  set_cookie(response, security::kSessionCookie, "", "SameSite=Strict; Max-Age=0");
}

std::string session_cookie(const Request& request) {
  return std::string(
      security::find_cookie(net::find_header(request.headers, "Cookie"), security::kSessionCookie));
}

Response json(const Value& value) {
  Response response = Response::json(to_json(value));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

// The problem, with how long to wait when that is the problem.
Response refused(const Identity& identity, const Request& request, const std::string& name,
                 const Error& error) {
  Response response = net::problem(error, request);
  if (error.id != ErrorId::kRateLimited) return response;
  const auto wait = identity.back_off(name, request.peer);
  const std::int64_t seconds = wait ? (wait->nanos + 999'999'999) / 1'000'000'000 : 1;
  std::erase_if(response.headers, [](const auto& header) { return header.first == "Retry-After"; });
  response.headers.emplace_back("Retry-After", std::to_string(seconds));
  return response;
}

struct NamePassword {
  std::string name;
  std::string password;
  std::string secret;
};
Result<NamePassword> name_password(const Request& request, std::string_view secret_field) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "sign-in");
  NamePassword out;
  out.name = FALAJ_TRY(fields.required_text("name"));
  out.password = FALAJ_TRY(fields.required_text("password"));
  if (!secret_field.empty()) out.secret = FALAJ_TRY(fields.required_text(secret_field));
  FALAJ_TRY(fields.finish());
  return out;
}

// A handler that says where its caller is.
using Placing = Response (*)(Identity&, const ZoneOf&, const Request&);

Value placed_value(const security::Principal& principal, const ZoneOf& zone_of) {
  Value value = principal_value(principal);
  value["zone"] = zone_of(principal).name();
  return value;
}

// What the console's page asks first: am I signed in, and how could I?
Response show_session(Identity& identity, const ZoneOf& zone_of, const Request& request) {
  Value reply;
  const Result<security::PrincipalPtr> principal = identity.authenticate(credentials_of(request));
  const bool known = principal.ok() && (*principal)->kind != security::PrincipalKind::kNobody;
  reply["signed_in"] = known;
  reply["setup_pending"] = !identity.setup_secret().empty();
  reply["provider"] = identity.has_provider();
  if (known) {
    reply["user"] = placed_value(**principal, zone_of);
    reply["csrf"] = identity.csrf_of(session_cookie(request));
  }
  return json(reply);
}

Response sign_in(Identity& identity, const ZoneOf& zone_of, const Request& request) {
  const Result<NamePassword> body = name_password(request, "");
  if (!body.ok()) return net::problem(body.error(), request);
  const Result<security::SignedIn> done =
      identity.sign_in(body->name, body->password, request.peer);
  if (!done.ok()) return refused(identity, request, body->name, done.error());
  Value reply;
  reply["signed_in"] = true;
  reply["user"] = placed_value(*done->principal, zone_of);
  reply["csrf"] = done->session.csrf;
  reply["expires"] = to_rfc3339(done->session.expires);
  Response response = json(reply);
  set_session(response, *done);
  return response;
}

Response sign_out(Identity& identity, const Request& request) {
  identity.sign_out(session_cookie(request));
  Value reply;
  reply["signed_in"] = false;
  Response response = json(reply);
  clear_session(response);
  return response;
}

Response set_up(Identity& identity, const Request& request) {
  const Result<NamePassword> body = name_password(request, "secret");
  if (!body.ok()) return net::problem(body.error(), request);
  const Result<security::User> made =
      identity.set_up(body->secret, body->name, body->password, request.peer);
  if (!made.ok()) return refused(identity, request, "(setup)", made.error());
  return json(to_value(*made));
}

Response redirect(const std::string& where) {
  Response response = Response::text("", 302);
  response.headers.emplace_back("Location", where);
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  return response;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"') {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      out += c;
    }
  }
  return out;
}

// The browser of a person stands here: a page, where it takes one, with the same status.
Response login_refused(const Error& error, const Request& request) {
  Response response = net::problem(error, request);
  const std::string_view accepts = net::find_header(request.headers, "Accept");
  if (accepts.find("text/html") == std::string_view::npos) return response;
  response.content_type = "text/html; charset=utf-8";
  response.body =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Not signed in - Falaj"
      "</title><h1>You are not signed in</h1><p>" +
      html_text(error.message) + " (" + to_string(error.id) +
      ").</p><p>If you should have access, tell an administrator of this Falaj server the request "
      "id " +
      html_text(request.request_id) + ".</p><p><a href=\"/\">Back to the sign-in</a></p></html>";
  return response;
}

Response begin_login(Identity& identity, const Request& request) {
  const Result<security::LoginStart> start =
      identity.begin_provider_login(request.query_param("return_to").value_or("/"));
  if (!start.ok()) return login_refused(start.error(), request);
  Response response = redirect(start->url);
  set_cookie(response, kLoginCookie, start->browser, "SameSite=Lax; Max-Age=600");
  return response;
}

Response finish_login(Identity& identity, const Request& request) {
  if (const auto error = request.query_param("error")) {
    const bool plain = error->size() < 64 &&
                       error->find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    return login_refused(
        Error{ErrorId::kCredentialRefused, "the identity provider refused the sign-in" +
                                               (plain ? ": " + *error : std::string())},
        request);
  }
  security::LoginAnswer answer;
  answer.code = request.query_param("code").value_or("");
  answer.state = request.query_param("state").value_or("");
  answer.issuer = request.query_param("iss").value_or("");
  answer.browser = security::find_cookie(net::find_header(request.headers, "Cookie"), kLoginCookie);
  const Result<security::SignedIn> done = identity.finish_provider_login(answer);
  if (!done.ok()) return login_refused(done.error(), request);
  Response response = redirect(done->return_to);
  set_session(response, *done);
  set_cookie(response, kLoginCookie, "", "SameSite=Lax; Max-Age=0");
  return response;
}

}  // namespace

Value principal_value(const security::Principal& principal) {
  Value value;
  value["id"] = principal.id;
  value["name"] = principal.name;
  value["kind"] = kind_name(principal.kind);
  value["groups"] = Value::array();
  for (const std::string& group : principal.groups) value["groups"].push(group);
  value["credential"] = principal.credential.substr(0, principal.credential.find(':'));
  value["zone"] = principal.zone.name();
  if (principal.expires != Timestamp::max()) value["expires"] = to_rfc3339(principal.expires);
  if (principal.scopes) {
    value["scopes"] = Value::array();
    for (const security::Scope& scope : *principal.scopes) value["scopes"].push(to_string(scope));
  }
  return value;
}

std::vector<net::Route> sign_in_routes(Identity& identity, const ZoneOf& zone_of) {
  std::vector<net::Route> routes;
  const auto anyone = [&](Method method, std::string_view path, std::string_view summary,
                          auto act) {
    routes.emplace_back(method, path, net::Permission::anyone(), Target::nothing(), summary,
                        [&identity, zone_of, act](const Request& request) {
                          if constexpr (std::is_same_v<decltype(act), Placing>) {
                            return act(identity, zone_of, request);
                          } else {
                            return act(identity, request);
                          }
                        });
    routes.back().body_bytes_max = 16 << 10;
  };
  anyone(Method::kGet, "/api/v1/session",
         "Whether the caller is signed in, with the CSRF token; how to sign in otherwise.",
         show_session);
  anyone(
      Method::kPost, "/api/v1/session",
      "Signs in {name, password}: sets the session's cookie. 429 with Retry-After after failures.",
      sign_in);
  anyone(Method::kPost, "/api/v1/setup",
         "Makes the first administrator {secret, name, password}, by the one-time setup link.",
         set_up);
  anyone(Method::kGet, "/auth/login", "Goes to the identity provider (?return_to=/path).",
         begin_login);
  anyone(Method::kGet, "/auth/callback", "Where the identity provider sends the browser back.",
         finish_login);
  routes.emplace_back(Method::kDelete, "/api/v1/session", net::Permission("account.use"),
                      Target::platform("User"), "Signs out.",
                      [&identity](const Request& request) { return sign_out(identity, request); });
  return routes;
}

}  // namespace falaj::api
