// api/caller.h — who asks and what they may do, from the gate to the handlers.
//
// The gate puts a caller into the request once; handlers read it. `net` carries it unread. What a
// handler alone can know (objects in a body, rows of a list) it decides here, by the same snapshot
// that the gate used.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "net/http.h"
#include "security/access/access.h"
#include "security/access/denials.h"
#include "security/context.h"

namespace falaj::api {

// Hears of what handlers deny, so that it is found like what the gate denies. Thread-safe; never
// blocks.
class DenialListener {
 public:
  virtual void denied(security::access::Denial denial) = 0;

 protected:
  ~DenialListener() = default;
};

// States why: for break-glass grants, and to go past a guard-rail. The gate bounds it.
inline constexpr std::string_view kReasonHeader = "X-Falaj-Reason";

struct CallerParts {
  security::PrincipalPtr principal;                            // Not null.
  std::shared_ptr<const security::access::Policies> policies;  // Not null.
  Timestamp now{};                                             // Of the decision.
  std::string reason{};                                        // Stated for break-glass.
  // Of the object, record or qualified name that the route's target named; else the query says.
  std::optional<std::string> project{};
  // Why rows about an object ("FeatureView/x", "" for none in particular) of that project may not
  // go where the caller is; "" when they may. Empty: nobody asks.
  std::function<std::string(const std::string& project, const std::string& object)> out_of_reach{};
  // The gate's question about residency, for an object that the handler found; empty: nobody asks.
  std::function<Status(const net::Request& request, const security::access::ObjectRef& object)>
      admit{};
  // The gate's question once more, about a request that it has let through (ask_again).
  std::function<Status(net::Request& kept)> again{};
  // Told, on the event loop, of reply bytes that the socket took; may be empty.
  std::function<void(std::size_t)> on_sent{};
  DenialListener* denials = nullptr;  // Outlives the request; null: nobody listens.
};
// What the gate puts into net::Request::caller.
std::shared_ptr<const net::Caller> make_caller(CallerParts parts);

// Who asks; nobody when no gate ran. Valid as long as the request.
const security::Principal& principal_of(const net::Request& request);
// What the decision is made by; one that denies everything when no gate ran.
const security::access::Policies& policies_of(const net::Request& request);

// The project that the request is about: of its record, of the path's {project}, of ?project=, or
// "default".
ProjectName project_of(const net::Request& request);

// For a reply that goes on after its handler: the request as it came, without a body.
net::Request kept_of(const net::Request& request);
// Whether the gate would let it through now: same credential, same question. Sets the caller anew.
// FJ-0003 when no gate ran. May block.
Status ask_again(net::Request& kept);

// Only what the gate found: the project of the record or name that the route's target named.
std::optional<std::string> found_project(const net::Request& request);

// The question whether the caller may do `action` to `object` (declared labels are looked up).
security::access::AccessRequest asking(const net::Request& request, std::string_view action,
                                       security::access::ObjectRef object = {});
// Whether rows about what this project holds may go where the caller is: for lists that are of
// several projects, where the gate could not ask. True for the platform (""). `object` is
// "FeatureView/x", or "" for none in particular.
bool reaches(const net::Request& request, const std::string& project,
             const std::string& object = "");
// What the gate asks of requests about one project, for an object that a body or a filter names:
// FJ-7031 and its kin when what its project holds may not go where the caller is, counted, audited
// and told to `falaj why-denied`. Ok for the platform and for projects that are not declared.
Status admit(const net::Request& request, const security::access::ObjectRef& object);
bool may(const net::Request& request, std::string_view action, security::access::ObjectRef object);
// The error to answer with: what the caller cannot see is answered as if it did not exist. Told to
// the listener.
Status check(const net::Request& request, std::string_view action,
             security::access::ObjectRef object);

// Tells the listener of a refusal that was decided otherwise than by check(): of `outcome` when it
// is one (denied, or answered as if it did not exist). Gives it back.
Status note_denied(const net::Request& request, std::string_view action,
                   security::access::ObjectRef object, Status outcome);

}  // namespace falaj::api
