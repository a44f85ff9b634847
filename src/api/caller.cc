#include "api/caller.h"

#include "api/request_id.h"

namespace falaj::api {
namespace {

using security::access::AccessRequest;
using security::access::ObjectRef;
using security::access::Policies;

class RequestCaller final : public net::Caller {
 public:
  explicit RequestCaller(CallerParts made) : parts(std::move(made)) {}
  const CallerParts parts;
  void sent(std::size_t bytes) const override {
    if (parts.on_sent) parts.on_sent(bytes);
  }
};

const CallerParts& parts_of(const net::Request& request) {
  static const CallerParts kNobody{
      std::make_shared<const security::Principal>(),
      std::make_shared<const Policies>(security::access::PolicyInput{})};
  const auto* caller = dynamic_cast<const RequestCaller*>(request.caller.get());
  return caller == nullptr ? kNobody : caller->parts;
}

void tell(const net::Request& request, security::access::Denial denial) {
  DenialListener* listener = parts_of(request).denials;
  if (listener != nullptr) listener->denied(std::move(denial));
}

}  // namespace

std::shared_ptr<const net::Caller> make_caller(CallerParts parts) {
  return std::make_shared<const RequestCaller>(std::move(parts));
}

const security::Principal& principal_of(const net::Request& request) {
  return *parts_of(request).principal;
}

const Policies& policies_of(const net::Request& request) { return *parts_of(request).policies; }

ProjectName project_of(const net::Request& request) {
  const std::optional<std::string>& found = parts_of(request).project;
  if (found) return ProjectName(*found);
  const auto named = request.params.find("project");
  if (named != request.params.end()) return ProjectName(named->second);
  return ProjectName(request.query_param("project").value_or("default"));
}

net::Request kept_of(const net::Request& request) {
  net::Request kept = request;
  kept.body.clear();
  kept.body_file.reset();
  return kept;
}

Status ask_again(net::Request& kept) {
  const auto again = parts_of(kept).again;  // A copy: the caller that holds it is replaced.
  if (!again) return Error{Code::kPermissionDenied, "nobody let this request through"};
  return again(kept);
}

std::optional<std::string> found_project(const net::Request& request) {
  return parts_of(request).project;
}

AccessRequest asking(const net::Request& request, std::string_view action, ObjectRef object) {
  const CallerParts& parts = parts_of(request);
  if (object.labels == nullptr) {
    object.labels = parts.policies->labels(object.kind, object.project, object.name);
  }
  return {.principal = *parts.principal,
          .action = action,
          .object = object,
          .now = parts.now,
          .reason = parts.reason};
}

bool reaches(const net::Request& request, const std::string& project, const std::string& object) {
  const CallerParts& parts = parts_of(request);
  return project.empty() || !parts.out_of_reach || parts.out_of_reach(project, object).empty();
}

Status admit(const net::Request& request, const ObjectRef& object) {
  const CallerParts& parts = parts_of(request);
  if (object.project.empty() || !parts.admit) return {};
  return parts.admit(request, object);
}

bool may(const net::Request& request, std::string_view action, ObjectRef object) {
  return policies_of(request).decide(asking(request, action, object)).allowed;
}

Status check(const net::Request& request, std::string_view action, ObjectRef object) {
  const AccessRequest asked = asking(request, action, object);
  const security::access::Decision decision = policies_of(request).decide(asked);
  if (decision.allowed) return {};
  Error told = security::access::refusal(policies_of(request), asked, decision);
  tell(request, security::access::denial_of(asked, decision, told, carried_id(request)));
  return told;
}

Status note_denied(const net::Request& request, std::string_view action, ObjectRef object,
                   Status outcome) {
  if (outcome.ok()) return outcome;
  const Code code = outcome.error().code;
  if (code != Code::kPermissionDenied && code != Code::kNotFound) return outcome;
  const AccessRequest asked = asking(request, action, object);
  security::access::Decision decision = policies_of(request).decide(asked);
  std::string sentence;
  if (decision.allowed) {
    decision = {false, security::access::Because::kNotTheirs, nullptr};
    sentence = outcome.error().message;
  }
  tell(request, security::access::denial_of(asked, decision, outcome.error(), carried_id(request),
                                            sentence));
  return outcome;
}

}  // namespace falaj::api
