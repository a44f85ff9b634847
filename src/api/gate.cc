#include "api/gate.h"

#include <algorithm>
#include <array>

#include "api/caller.h"
#include "api/request_id.h"
#include "base/json.h"
#include "base/log.h"
#include "security/audit/request_ids.h"

namespace falaj::api {

namespace access = security::access;
using access::AccessRequest;
using access::Because;
using access::Decision;
using access::ObjectRef;
using net::Target;

namespace {

constexpr std::size_t kReasonBytesMax = 500;
constexpr std::size_t kUnwrittenMax = 1000;  // Of denials, while the log cannot be written.
constexpr std::size_t kMadeUpBytesMax = 256;
constexpr std::string_view kNobodysProject = "(none)";
constexpr std::int64_t kProjectShare = 10;  // Of principals' rates that one project may use.

const telemetry::MetricInfo kDenied{"falaj_access_denied_total",
                                    "Requests that were denied to their caller.",
                                    telemetry::MetricKind::kCounter,
                                    {}};
const telemetry::MetricInfo kLimited{"falaj_access_rate_limited_total",
                                     "Requests refused because their caller or project asked too "
                                     "often.",
                                     telemetry::MetricKind::kCounter,
                                     {}};
const telemetry::MetricInfo kBrokenGlass{"falaj_access_break_glass_total",
                                         "Requests allowed by a break-glass grant. Alert on any.",
                                         telemetry::MetricKind::kCounter,
                                         {}};

// One line of text that a log can hold.
Result<std::string> reason_of(const net::Request& request) {
  const std::string_view text = net::find_header(request.headers, kReasonHeader);
  if (text.size() > kReasonBytesMax) {
    return Error{ErrorId::kOutOfRange, std::string(kReasonHeader) + ": longer than " +
                                           std::to_string(kReasonBytesMax) + " bytes"};
  }
  return std::string(text);
}

const std::string& parameter(const net::Request& request, const std::string& name) {
  static const std::string kNone;
  const auto found = request.params.find(name);
  return found == request.params.end() ? kNone : found->second;
}

// Where the caller is may be said by its groups.
security::PrincipalPtr placed(security::PrincipalPtr principal, const access::Policies& policies) {
  Zone zone = policies.zone_of(*principal);
  if (zone == principal->zone) return principal;
  security::Principal there = *principal;
  there.zone = std::move(zone);
  return std::make_shared<const security::Principal>(std::move(there));
}

// A text of the caller's that the log may commit to. What could be no name is not kept at all.
bool fits_commitment(std::string_view text) {
  return text.size() <= kMadeUpBytesMax && is_valid_utf8(text);
}

// What routes are about besides declared objects.
bool is_noun(std::string_view kind) {
  static constexpr std::array<std::string_view, 16> kNouns{
      "Account", "AuditEntry", "Certificate", "Emergency", "Evidence", "Job",
      "Key",     "Ledger",     "Log",         "Metric",    "Object",   "Rollout",
      "Run",     "Server",     "Session",     "User"};
  return std::find(kNouns.begin(), kNouns.end(), kind) != kNouns.end();
}

// The object without what the audit log must not hold as it is; that becomes a commitment of the
// event. Named is what was declared, and records by the ids that the server gave them. Never
// people, nor what there is not: whoever asks may have made it up. May block.
ObjectRef named_in(const GateParts& parts, const ObjectRef& object, security::AuditEvent& event) {
  const std::string kind(object.kind);
  const std::string project(object.project);
  const std::string name(object.name);
  const bool declared = parts.project_of_record(kind, "").ok();
  const std::string& id = declared ? project + "/" + name : name;
  const auto word = [&](const char* member, std::string_view text, bool clear) {
    if (text.empty() || clear) return text;
    if (fits_commitment(text)) {
      event.personal.push_back({member, std::string(text)});
    } else {
      event.detail[member] = "(not a name)";
    }
    return std::string_view();
  };
  return {word("project", object.project, parts.project_of_record("Project", "/" + project).ok()),
          word("kind", object.kind, declared || is_noun(kind)),
          word("name", object.name, parts.project_of_record(kind, id).ok()), nullptr};
}

security::AuditRecord record_of(const GateParts& parts, const access::DenialSummary& summary) {
  const access::Denial& first = summary.first;
  security::AuditEvent event{"access.denied", first.action, {}};
  event.detail["action"] = first.action;
  event.detail["because"] = access::because_name(first.because);
  event.detail["count"] = summary.count;
  event.detail["grant"] = first.rule;
  event.detail["kind"] = "";
  event.detail["name"] = "";
  const ObjectRef named = named_in(parts, {first.project, first.kind, first.name, nullptr}, event);
  if (!named.kind.empty()) event.detail["kind"] = named.kind;
  if (!named.name.empty()) event.detail["name"] = named.name;
  security::RequestContext context;
  context.principal.id = first.principal.empty() ? "nobody" : first.principal;
  context.project = ProjectName(std::string(named.project));
  context.request_id = first.request_id;
  return {std::move(context), std::move(event)};
}

}  // namespace

struct Gate::Asked {
  AccessRequest request;
  std::shared_ptr<const access::Policies> policies;
  CallerParts caller;
  std::string reason;
  std::string project;     // What request.object.project looks at, when nothing else holds it.
  std::string holder;      // The same for request.object.name.
  std::string request_id;  // As the log takes it.
  Decision decision;       // The one that let it through.
};

Gate::Gate(GateParts parts)
    : parts_(std::move(parts)),
      denied_(parts_.metrics.counter(kDenied)),
      limited_(parts_.metrics.counter(kLimited)),
      broken_glass_(parts_.metrics.counter(kBrokenGlass)) {}

bool Gate::blocks(const net::Request& request) {
  return !net::find_header(request.headers, kReasonHeader).empty();
}

Status Gate::pass(const net::Route& route, net::Request& request, Asking asking) {
  if (route.target.scope() == Target::Scope::kNothing) return {};
  security::PrincipalPtr principal = FALAJ_TRY(parts_.authenticate(request, asking));
  FALAJ_TRY(parts_.access.current());
  const auto policies = parts_.access.policies();
  principal = placed(std::move(principal), *policies);
  request.principal = principal->id;
  // A stream that goes on is no new request: nothing is counted or written down again.
  const bool anew = asking == Asking::kRequest;
  const std::int64_t rate = anew ? parts_.requests_per_second : 0;
  if (rate > 0 && !principal->id.empty()) FALAJ_TRY(limit_all(principal->id, rate, request));
  std::string reason = FALAJ_TRY(reason_of(request));
  Asked asked{.request = {.principal = *principal,
                          .action = route.permission.action(),
                          .object = {},
                          .now = parts_.access.now(),
                          .reason = {}},
              .policies = policies,
              .caller = {},
              .reason = std::move(reason),
              .project = {},
              .holder = {},
              .request_id = carried_id(request),
              .decision = {}};
  asked.request.reason = asked.reason;
  FALAJ_TRY(decide(route, request, asked));
  const std::string_view project = asked.request.object.project;
  // Only now: who may not use a project must not be able to use up its rate either.
  if (rate > 0 && !project.empty()) {
    FALAJ_TRY(limit_all("project:" + std::string(project), rate * kProjectShare, request));
  }
  if (anew && asked.request.action == "serving.predict") {
    FALAJ_TRY(limit_predictions(std::string(project), request));
  }
  // A reason that was not needed here, and so not written down, opens nothing in the handler.
  if (asked.decision.because != Because::kBrokeGlass) asked.reason.clear();
  asked.request.reason = asked.reason;
  if (anew && !asked.reason.empty()) FALAJ_TRY(record_broken_glass(asked));
  FALAJ_TRY(ask_residency(route, request, asked, principal, asking));
  if (parts_.passed && anew) parts_.passed(asked.request);
  asked.caller.principal = principal;
  asked.caller.policies = asked.policies;
  asked.caller.now = asked.request.now;
  asked.caller.reason = asked.reason;
  asked.caller.again = [this, &route](net::Request& kept) {
    return pass(route, kept, Asking::kStillThere);
  };
  asked.caller.denials = this;
  request.caller = make_caller(std::move(asked.caller));
  return {};
}

Result<std::function<void(std::size_t)>> Gate::admit(const net::Route& route,
                                                     const net::Request& request,
                                                     const AccessRequest& asked) {
  auto admitted = parts_.admit(route, request, asked.object, asked.principal);
  if (!admitted.ok()) {
    // The residency's own entry is in the log or on its way.
    parts_.denials.keep(access::denial_of(asked, {false, Because::kOtherZone, nullptr},
                                          admitted.error(), carried_id(request),
                                          admitted.error().message));
  }
  return admitted;
}

// Where the caller is: asked here about the one project of the request; handlers ask about others.
Status Gate::ask_residency(const net::Route& route, const net::Request& request, Asked& asked,
                           const security::PrincipalPtr& principal, Asking asking) {
  const bool anew = asking == Asking::kRequest;
  const std::string_view project = asked.request.object.project;
  if (anew && parts_.admit) {
    asked.caller.on_sent = FALAJ_TRY(admit(route, request, asked.request));
  }
  if (!project.empty() && anew) return {};
  if (parts_.admit) {
    asked.caller.admit = [this, &route, principal, now = asked.request.now](
                             const net::Request& about, const ObjectRef& object) -> Status {
      FALAJ_TRY(admit(route, about,
                      {.principal = *principal,
                       .action = route.permission.action(),
                       .object = object,
                       .now = now,
                       .reason = {}}));
      return {};
    };
  }
  if (!parts_.out_of_reach) return {};
  asked.caller.out_of_reach = parts_.out_of_reach(request, principal);
  if (!project.empty() && !asked.caller.out_of_reach(std::string(project), "").empty()) {
    return Error{ErrorId::kZoneRefused, "what this project holds may no longer go where you are"};
  }
  return {};
}

Status Gate::decide(const net::Route& route, net::Request& request, Asked& asked) {
  const Target& target = route.target;
  const std::string& kind = target.kind();
  using Scope = Target::Scope;
  switch (target.scope()) {
    case Scope::kNothing:
      return {};
    case Scope::kPlatform:
      return decide_object(asked, {"", kind, parameter(request, target.parameter()), nullptr});
    case Scope::kEither:
      asked.project = request.query_param("project").value_or("");
      return decide_object(asked, {asked.project, kind, "", nullptr});
    case Scope::kAcross:
      return decide_some(asked, {"", "", "", nullptr});
    case Scope::kListed:
      asked.project = project_of(request).str();
      return decide_some(asked, {asked.project, kind, "", nullptr});
    case Scope::kProject:
      asked.project = project_of(request).str();
      return decide_object(asked, {asked.project, kind, "", nullptr});
    case Scope::kObject:
      if (!target.kind_parameter().empty()) return decide_declared(route, request, asked);
      asked.project = project_of(request).str();
      asked.caller.project = asked.project;
      return decide_object(asked,
                           {asked.project, kind, parameter(request, target.parameter()), nullptr});
    case Scope::kHolder:
      return decide_holder(route, request, asked);
    case Scope::kQualified:
      return decide_qualified(route, request, asked);
    case Scope::kRecord:
      return decide_record(route, request, asked);
    case Scope::kBody:
      return decide_body(asked);
  }
  return Error{Code::kPermissionDenied, "the route's target is unknown"};
}

Status Gate::decide_object(Asked& asked, ObjectRef object) {
  object.labels = asked.policies->labels(object.kind, object.project, object.name);
  asked.request.object = object;
  asked.decision = asked.policies->decide(asked.request);
  if (asked.decision.allowed) return {};
  return deny(asked, asked.decision,
              access::refusal(*asked.policies, asked.request, asked.decision));
}

// Which rows or objects a stated reason opens, the handler finds out; here it counts as used.
void Gate::mark_broken_glass(Asked& asked) {
  if (asked.reason.empty() || !asked.policies->may_break_glass(asked.request)) return;
  asked.decision = {true, Because::kBrokeGlass, nullptr};
}

// A list: its rows are decided one by one by the handler.
Status Gate::decide_some(Asked& asked, ObjectRef object) {
  asked.request.object = object;
  asked.decision = asked.policies->decide(asked.request);
  if (asked.decision.allowed || asked.policies->may_some(asked.request)) {
    mark_broken_glass(asked);
    return {};
  }
  return deny(asked, asked.decision,
              access::refusal(*asked.policies, asked.request, asked.decision));
}

// /objects/{kind}/{name}: kinds above projects have none, whatever the query says.
Status Gate::decide_declared(const net::Route& route, net::Request& request, Asked& asked) {
  const std::string& kind = parameter(request, route.target.kind_parameter());
  const std::string& name = parameter(request, route.target.parameter());
  const bool reads = asked.request.action == "objects.read";
  if (kind == "Grant" || kind == "Group") {
    // What they cover is in their spec: the handler decides on that.
    asked.request.action = reads ? "access.read" : "access.write";
    return decide_some(asked, {"", "", "", nullptr});
  }
  if (kind == "Project" && reads) return decide_object(asked, {name, kind, name, nullptr});
  if (parts_.platform_kinds.contains(kind)) return decide_object(asked, {"", kind, name, nullptr});
  asked.project = project_of(request).str();
  return decide_object(asked, {asked.project, kind, name, nullptr});
}

Status Gate::decide_record(const net::Route& route, const net::Request& request, Asked& asked) {
  const std::string& kind = route.target.kind();
  const std::string& id = parameter(request, route.target.parameter());
  const Result<std::string> project = parts_.project_of_record(kind, id);
  if (!project.ok() && project.error().code != Code::kNotFound) return project.error();
  asked.project = project.value_or("");
  asked.request.object = {asked.project, kind, id, nullptr};
  asked.decision = asked.policies->decide(asked.request);
  if (asked.decision.allowed) {
    if (project.ok()) asked.caller.project = asked.project;
    return {};  // An id that there is not: who may see all of them gets the handler's own answer.
  }
  // One answer for "not there" and "not yours", and the same work for it: what is not there is
  // asked about as if it were of a project that nobody can declare.
  AccessRequest asked_about = asked.request;
  if (!project.ok()) asked_about.object.project = kNobodysProject;
  Error answer = access::refusal(*asked.policies, asked_about, asked.decision);
  const bool hidden = answer.code == Code::kNotFound || !project.ok() ||
                      (asked.project.empty() && asked.decision.because == Because::kNoPermit);
  if (hidden && answer.code != Code::kUnauthenticated) {
    answer = Error{Code::kNotFound, kind + " '" + id + "' was not found"};
  }
  return deny(asked, asked.decision, std::move(answer));
}

// By something that the object holds. One answer for an id that there is not, and for one of an
// object that the caller may not use: neither tells which objects there are.
Status Gate::decide_holder(const net::Route& route, net::Request& request, Asked& asked) {
  const std::string& kind = route.target.kind();
  const std::string& id = parameter(request, route.target.parameter());
  asked.project = project_of(request).str();
  const Result<std::string> holder = parts_.holder_of(kind, asked.project, id);
  if (!holder.ok() && holder.error().code != Code::kNotFound) return holder.error();
  asked.holder = holder.value_or("");
  asked.request.object = {asked.project, kind, asked.holder,
                          asked.policies->labels(kind, asked.project, asked.holder)};
  asked.decision = asked.policies->decide(asked.request);
  asked.caller.project = asked.project;
  if (asked.decision.allowed && holder.ok()) return {};
  AccessRequest any = asked.request;
  any.object = {asked.project, kind, "", nullptr};
  const Decision whole = asked.policies->decide(any);
  Error answer = whole.allowed ? Error{Code::kNotFound, "nothing of project '" + asked.project +
                                                            "' has the id '" + id + "'"}
                               : access::refusal(*asked.policies, any, whole);
  return asked.decision.allowed ? answer : deny(asked, asked.decision, std::move(answer));
}

// "payments.fraud", or "fraud" where that is one of the caller's own.
Status Gate::decide_qualified(const net::Route& route, net::Request& request, Asked& asked) {
  const std::string& name = parameter(request, route.target.parameter());
  const std::string& kind = route.target.kind();
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos) {
    asked.project = name.substr(0, dot);
    FALAJ_TRY(decide_object(
        asked, {asked.project, kind, std::string_view(name).substr(dot + 1), nullptr}));
    asked.caller.project = asked.project;
    return {};
  }
  std::vector<std::string> allowed;
  std::optional<Decision> refused;  // The first that a project made.
  std::vector<std::string> serving = parts_.projects_serving(name);
  // What nobody serves costs what a stranger's costs.
  const bool nobodys = serving.empty();
  if (nobodys) serving.emplace_back(kNobodysProject);
  for (std::string& project : serving) {
    AccessRequest one = asked.request;
    one.object = {project, kind, name, asked.policies->labels(kind, project, name)};
    const Decision decision = asked.policies->decide(one);
    if (!decision.allowed && !nobodys && !refused) refused = decision;
    if (!decision.allowed || nobodys) continue;
    asked.decision = decision;
    allowed.push_back(std::move(project));
  }
  if (allowed.empty()) {
    // One answer for "nobody has it" and "not yours". Who may use the platform's is not thereby let
    // into a project: that a project refuses counts, whatever the platform would say.
    asked.request.object = {"", kind, name, nullptr};
    asked.decision = asked.policies->decide(asked.request);
    Error answer{ErrorId::kModelNotFound, "Request for unknown model: '" + name + "' is not found"};
    if (asked.decision.allowed && !refused) return answer;
    if (asked.decision.allowed) asked.decision = *refused;
    if (asked.decision.because == Because::kNobody || asked.decision.because == Because::kExpired) {
      answer = access::refusal(*asked.policies, asked.request, asked.decision);
    }
    return deny(asked, asked.decision, std::move(answer));
  }
  if (allowed.size() > 1) {
    std::string list;
    for (const std::string& project : allowed) {
      list += (list.empty() ? "" : ", ") + project + "." + name;
    }
    return Error{ErrorId::kModelNotFound, "Request for unknown model: '" + name +
                                              "' is not found: several projects have it, use one "
                                              "of " +
                                              list};
  }
  asked.project = std::move(allowed.front());
  asked.request.object = {asked.project, kind, name, nullptr};
  asked.caller.project = asked.project;
  return {};
}

// Whoever may change nothing anywhere need not send a body.
Status Gate::decide_body(Asked& asked) {
  asked.request.object = {};
  AccessRequest grants = asked.request;
  grants.action = "access.write";
  if (!asked.policies->may_some(grants)) return decide_some(asked, {});
  mark_broken_glass(asked);
  return {};
}

std::optional<Duration> Gate::limit(const std::string& key, std::int64_t per_second,
                                    net::Request& request) {
  const auto wait = limiter_.take(key, per_second, parts_.access.now());
  if (!wait) return wait;
  limited_.add();
  request.retry_after = access::retry_after_seconds(*wait);
  return wait;
}

Status Gate::limit_all(const std::string& key, std::int64_t per_second, net::Request& request) {
  if (!limit(key, per_second, request)) return {};
  return Error{ErrorId::kRateLimited,
               (key.starts_with("project:") ? std::string("this project") : std::string("you")) +
                   " asked more than " + std::to_string(per_second) + " times a second: wait " +
                   std::to_string(request.retry_after) + " s"};
}

Status Gate::limit_predictions(const std::string& project, net::Request& request) {
  if (parts_.quotas == nullptr) return {};
  const std::optional<std::int64_t> quota = parts_.quotas->of(project).predictions_per_second;
  if (!quota) return {};
  if (*quota == 0) {
    return security::quota_reached(project, "may not ask for predictions: its quota is 0 a second",
                                   security::Shortage::kLasting);
  }
  if (!limit("predictions:" + project, *quota, request)) return {};
  return security::quota_reached(project,
                                 "asked for more predictions than its quota of " +
                                     std::to_string(*quota) + " a second: wait " +
                                     std::to_string(request.retry_after) + " s",
                                 security::Shortage::kPassing);
}

Error Gate::deny(const Asked& asked, const Decision& decision, Error answer) {
  denied(access::denial_of(asked.request, decision, answer, asked.request_id));
  return answer;
}

void Gate::denied(access::Denial denial) {
  denied_.add();
  parts_.denials.add(std::move(denial));
}

// Before the handler runs: an emergency that cannot be written down does not happen.
Status Gate::record_broken_glass(const Asked& asked) {
  broken_glass_.add();
  const AccessRequest& request = asked.request;
  log::warn("break-glass", {{"principal", request.principal.id},
                            {"action", request.action},
                            {"request", security::request_ids_of(asked.request_id).told()}});
  security::AuditEvent event;
  event.action = "access.break_glass";
  event.detail["action"] = request.action;
  if (asked.decision.rule != nullptr) event.detail["grant"] = asked.decision.rule->name;
  event.personal.push_back({"reason", asked.reason});
  const ObjectRef named = named_in(parts_, request.object, event);
  event.object = access::to_string(named);
  security::RequestContext context;
  context.principal = request.principal;
  context.project = ProjectName(std::string(named.project));
  context.request_id = asked.request_id;
  return parts_.emergencies.record(context, event);
}

Status Gate::tick() {
  MutexLock lock(ticking_);
  for (const access::DenialSummary& summary : parts_.denials.due(parts_.access.now())) {
    if (unwritten_.size() < kUnwrittenMax) unwritten_.push_back(record_of(parts_, summary));
  }
  if (unwritten_.empty()) return {};
  FALAJ_TRY(parts_.audit.record_all(unwritten_));
  unwritten_.clear();
  return {};
}

}  // namespace falaj::api
