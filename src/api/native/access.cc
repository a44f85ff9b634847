// Who may do what: the caller's own rights, a question about anybody's, and why something was
// denied.
#include "security/access/access.h"

#include "api/native/exchange.h"
#include "api/native/services.h"
#include "api/place.h"
#include "base/decode.h"
#include "security/audit/request_ids.h"

namespace falaj::api {
namespace {

namespace access = security::access;

Value names_value(access::ActionSet set) {
  Value list = Value::array();
  for (const std::string_view name : set.names()) list.push(name);
  return list;
}

// What a console shows and hides: the actions on the platform, and per visible project on the
// project as a whole and on anything in it.
Result<Value> mine(Services& services, const net::Request& request) {
  const access::Policies& policies = policies_of(request);
  Value reply;
  reply["principal"] = principal_of(request).id;
  reply["platform"] = names_value(policies.allowed_actions(asking(request, "")));
  reply["projects"] = Value::object();
  for (const auto& project : FALAJ_TRY(services.catalog.list("Project", ""))) {
    const access::ObjectRef whole{project.name, "", "", nullptr};
    access::ActionSet some;
    for (unsigned i = 0; i < access::actions().size(); ++i) {
      const std::string_view action = access::actions()[i].action;
      if (policies.may_some(asking(request, action, whole))) some |= access::ActionSet::one(i);
    }
    some = some.without(access::public_actions() | access::own_actions());
    if (some.empty()) continue;
    Value& row = reply["projects"][project.name];
    row["all"] = names_value(policies.allowed_actions(asking(request, "", whole)));
    row["some"] = names_value(some);
  }
  return reply;
}

struct Question {
  std::string action;
  std::string project;
  std::string kind;
  std::string name;
  std::string principal;  // "": the caller.
  std::vector<std::string> groups;
  std::string reason;
  access::ObjectRef object() const { return {project, kind, name, nullptr}; }
};

Result<Question> question_of(const net::Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "decide");
  Question question;
  question.action = FALAJ_TRY(fields.required_text("action"));
  question.project = FALAJ_TRY(fields.text("project"));
  question.kind = FALAJ_TRY(fields.text("kind"));
  question.name = FALAJ_TRY(fields.text("name"));
  question.principal = FALAJ_TRY(fields.text("principal"));
  question.groups = FALAJ_TRY(fields.texts("groups"));
  question.reason = FALAJ_TRY(fields.text("reason"));
  FALAJ_TRY(fields.finish());
  return question;
}

Value decision_value(const access::AccessRequest& asked, const access::Decision& decision) {
  Value reply;
  reply["allowed"] = decision.allowed;
  reply["because"] = access::because_name(decision.because);
  reply["reason"] = access::explain(asked, decision);
  reply["grant"] = decision.rule == nullptr ? "" : decision.rule->name;
  return reply;
}

// Where the caller is decides too. `out_of_reach`: why an answer about it may not go there;
// `as_file`: whether a file may all the same (exits serve and export).
void add_residency(const Services& services, const net::Request& request, const Question& question,
                   Value& reply) {
  security::residency::Flow flow;
  flow.project = question.project;
  flow.data = services.exits.zone_of(question.project);
  if (!flow.data.labelled()) return;
  flow.destination =
      services.exits.caller_zone(flow.data, principal_of(request).zone, place_of(request.peer));
  flow.object = question.kind + (question.name.empty() ? "" : "/" + question.name);
  flow.exit = security::residency::Exit::kServe;
  const auto answered = services.exits.would_pass(flow);
  if (answered.allowed) return;
  flow.exit = security::residency::Exit::kExport;
  reply["out_of_reach"] = answered.rule;
  reply["as_file"] = services.exits.would_pass(flow).allowed;
}

Value own_decision(const Services& services, const net::Request& request,
                   const Question& question) {
  access::AccessRequest asked = asking(request, question.action, question.object());
  asked.reason = question.reason;
  const access::Decision decision = policies_of(request).decide(asked);
  Value reply = decision_value(asked, decision);
  if (!decision.allowed && !may(request, "access.read", question.object())) {
    // As the request itself would be answered: which rule it was, or whether the object exists, is
    // not told.
    reply["reason"] = access::refusal(policies_of(request), asked, decision).message;
    reply["grant"] = "";
    reply["because"] = "denied";
  }
  if (decision.allowed) add_residency(services, request, question, reply);
  return reply;
}

// The caller's own rights, or with access.read there anybody's.
Result<Value> decide(const Services& services, const net::Request& request) {
  Question question = FALAJ_TRY(question_of(request));
  if (question.principal.empty() || question.principal == principal_of(request).id) {
    return own_decision(services, request, question);
  }
  FALAJ_TRY(check(request, "access.read", question.object()));
  if (services.resolve_subject) {
    const std::optional<std::string> id = services.resolve_subject(question.principal);
    if (!id) {
      return Error{Code::kNotFound, "there is no user or service '" + question.principal +
                                        "': 'falaj users list' shows them, write user:NAME or "
                                        "service:NAME"};
    }
    question.principal = *id;
  }
  security::Principal other;
  other.kind = question.principal.starts_with("service:") ? security::PrincipalKind::kService
                                                          : security::PrincipalKind::kUser;
  other.id = question.principal;
  other.groups = question.groups;
  const access::AccessRequest asked = asking(request, question.action, question.object());
  const access::AccessRequest theirs{.principal = other,
                                     .action = asked.action,
                                     .object = asked.object,
                                     .now = asked.now,
                                     .reason = question.reason};
  return decision_value(theirs, policies_of(request).decide(theirs));
}

Value denial_value(const access::Denial& denial) {
  Value reply;
  reply["request_id"] = security::request_ids_of(denial.request_id).told();
  reply["at"] = to_rfc3339(denial.at);
  reply["action"] = denial.action;
  reply["project"] = denial.project;
  reply["kind"] = denial.kind;
  reply["name"] = denial.name;
  return reply;
}

// Callers choose ids, and may choose the same: first the caller's own under that id, so that what
// others choose hides nobody's. The log's id is of one caller alone.
std::optional<access::Denial> denial_for(const Services& services, const net::Request& request,
                                         const std::string& id) {
  auto own = services.denials.find(security::carry_chosen_id(principal_of(request).id, id));
  return own ? std::move(own) : services.denials.find(id);
}

// To the one it happened to, in the words of the refusal; to who has access.read there, all of it.
Result<Value> denial(Services& services, const net::Request& request) {
  const std::string& id = request.params.find("request_id")->second;
  const std::optional<access::Denial> found = denial_for(services, request, id);
  const Error unknown{Code::kNotFound,
                      "no denial of request '" + id +
                          "' is known: the last few thousand are kept, until the server restarts"};
  if (!found) return unknown;
  const access::ObjectRef object{found->project, found->kind, found->name, nullptr};
  Value reply = denial_value(*found);
  if (may(request, "access.read", object)) {
    reply["principal"] = found->principal;
    reply["because"] = access::because_name(found->because);
    reply["reason"] = found->sentence;
    reply["grant"] = found->rule;
    return reply;
  }
  if (found->principal.empty() || found->principal != principal_of(request).id) return unknown;
  const bool decided_by_grants = found->because != access::Because::kNotTheirs &&
                                 found->because != access::Because::kOtherZone;
  const bool allowed_now = decided_by_grants && may(request, found->action, object);
  // What was not found may be another's or nobody's: whose it is would tell which.
  if (!allowed_now && found->told.code == Code::kNotFound) reply["project"] = "";
  reply["reason"] = allowed_now ? "it would be allowed now" : found->told.message;
  return reply;
}

}  // namespace

std::vector<net::Route> access_routes(Services& services) {
  using net::Method;
  const auto account = [] { return Demand{"account.use", net::Target::platform("Account")}; };
  std::vector<net::Route> routes;
  routes.push_back(value_route(
      Method::kGet, "/api/v1/access:mine", account(),
      "What the caller may do: on the platform, and in each project that is visible to them on "
      "'all' of it and on 'some' objects.",
      [&](const net::Request& request) { return mine(services, request); }));
  routes.push_back(value_route(
      Method::kPost, "/api/v1/access:decide", account(),
      "Whether the caller may do {action, project, kind, name}, and why; with access.read there, "
      "whether {principal, groups} may.",
      [&services](const net::Request& request) { return decide(services, request); }));
  routes.push_back(value_route(
      Method::kGet, "/api/v1/access/denials/{request_id}", account(),
      "Why a request was denied: to its caller, and in full to who has access.read there.",
      [&](const net::Request& request) { return denial(services, request); }));
  return routes;
}

}  // namespace falaj::api
