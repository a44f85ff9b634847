// api/gate.h — the one question before every handler: who asks, how often, and may they?
//
//   authenticate → the principal's rate → decide → the project's rate and quota → handler
//
// What the route's target cannot know before the handler runs (rows of a list, objects in a body)
// the handler decides itself, by the same snapshot (api/caller.h). Runs where the handler runs: on
// an event loop it never blocks, for everything it needs there is in memory; requests for which
// that is not so (blocks()) run on the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/caller.h"
#include "base/mutex.h"
#include "net/router.h"
#include "security/access/access.h"
#include "security/access/denials.h"
#include "security/access/emergencies.h"
#include "security/access/rate_limit.h"
#include "security/audit.h"
#include "security/identity/credentials.h"
#include "security/quota/quotas.h"
#include "telemetry/metrics.h"

namespace falaj::api {

struct GateParts {
  // Who shows which credential; nobody (PrincipalKind::kNobody) when none is shown. FJ-701x when
  // one is shown and refused.
  std::function<Result<security::PrincipalPtr>(net::Request&, security::Asking)> authenticate;
  security::access::Access& access;
  security::access::Denials& denials;
  security::access::Emergencies& emergencies;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  std::int64_t requests_per_second = 0;  // Of one principal, ten times that of a project; 0: any.
  std::set<std::string, std::less<>> platform_kinds;  // Declared kinds that stand above projects.
  // Whose a record is: its project, "" for the platform's. kNotFound when there is none. The same
  // of declared objects by PROJECT/NAME; of a kind that can be declared, "" is always there. What
  // it does not know is not named in the audit log. With as much work for what is not there.
  std::function<Result<std::string>(const std::string& kind, const std::string& id)>
      project_of_record;
  // The name of the object of that kind and project that holds what has this id (Target::holder).
  // kNotFound when there is none.
  std::function<Result<std::string>(const std::string& kind, const std::string& project,
                                    const std::string& id)>
      holder_of{};
  // Residency: whether what the object's project holds may go where the caller is (FJ-7031 and its
  // kin); gives what counts the reply's bytes. Never blocks. Empty: nobody asks.
  std::function<Result<std::function<void(std::size_t)>>(
      const net::Route& route, const net::Request& request,
      const security::access::ObjectRef& object, const security::Principal& principal)>
      admit{};
  // The same question for one row of a list that is of several projects: why not, "" when it may.
  // Counts nothing. Empty: nobody asks.
  std::function<std::function<std::string(const std::string& project, const std::string& object)>(
      const net::Request& request, const security::PrincipalPtr& principal)>
      out_of_reach{};
  // Told of every request that goes on to its handler, with the object that was decided upon. Never
  // blocks. Empty: nobody wants to know.
  std::function<void(const security::access::AccessRequest&)> passed{};
  // The projects that have a deployment of this name. Never blocks.
  std::function<std::vector<std::string>(const std::string& name)> projects_serving;
  const security::Quotas* quotas = nullptr;  // Null: no project has one.
};

// Thread-safe.
class Gate final : public DenialListener {
 public:
  explicit Gate(GateParts parts);

  using Asking = security::Asking;
  // Lets the request through with its caller set, or gives the error to answer with. A use of
  // break-glass is in the audit log when it returns. kStillThere: for a stream that was let
  // through, whether it would be now; counts and records nothing, but for a denial.
  Status pass(const net::Route& route, net::Request& request, Asking asking = Asking::kRequest);

  // Whether pass() may wait for the disk: for who states a reason, to write it down. Such requests
  // must not run on an event loop.
  static bool blocks(const net::Request& request);

  // What a handler denied counts as what the gate did.
  void denied(security::access::Denial denial) override;

  // Writes what was denied into the audit log; what cannot be written is kept for the next time.
  // Call about once a second and after the last request, on a thread that may block.
  Status tick();

 private:
  struct Asked;  // One request on its way through.
  Status decide(const net::Route& route, net::Request& request, Asked& asked);
  Status decide_object(Asked& asked, security::access::ObjectRef object);
  Status decide_some(Asked& asked, security::access::ObjectRef object);
  Status decide_declared(const net::Route& route, net::Request& request, Asked& asked);
  Status decide_record(const net::Route& route, const net::Request& request, Asked& asked);
  Status decide_holder(const net::Route& route, net::Request& request, Asked& asked);
  Status decide_qualified(const net::Route& route, net::Request& request, Asked& asked);
  Status decide_body(Asked& asked);
  void mark_broken_glass(Asked& asked);
  // How long until the key's next turn, also put into the request; nullopt: go on.
  std::optional<Duration> limit(const std::string& key, std::int64_t per_second,
                                net::Request& request);
  Status limit_all(const std::string& key, std::int64_t per_second, net::Request& request);
  Status limit_predictions(const std::string& project, net::Request& request);
  Result<std::function<void(std::size_t)>> admit(const net::Route& route,
                                                 const net::Request& request,
                                                 const security::access::AccessRequest& asked);
  Status ask_residency(const net::Route& route, const net::Request& request, Asked& asked,
                       const security::PrincipalPtr& principal, Asking asking);
  Error deny(const Asked& asked, const security::access::Decision& decision, Error answer);
  Status record_broken_glass(const Asked& asked);

  GateParts parts_;
  security::access::RateLimiter limiter_;
  telemetry::Counter& denied_;
  telemetry::Counter& limited_;
  telemetry::Counter& broken_glass_;
  Mutex ticking_;
  // Denials that are due and could not be written yet.
  std::vector<security::AuditRecord> unwritten_ FALAJ_GUARDED_BY(ticking_);
};

}  // namespace falaj::api
