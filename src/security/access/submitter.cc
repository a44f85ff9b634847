#include "security/access/submitter.h"

namespace falaj::security::access {

bool may_still(const Policies& policies, const Principal& submitter, const Scope& scope,
               Timestamp now) {
  const std::string_view object = scope.object;
  const std::size_t slash = object.find('/');
  if (slash == std::string_view::npos) return false;
  const ObjectRef named{scope.project, object.substr(0, slash), object.substr(slash + 1), nullptr};
  return policies.decide({submitter, scope.action, named, now, ""}).allowed;
}

}  // namespace falaj::security::access
