// security/access/submitter.h — what is left of a scope to who handed it to a job.
#pragma once

#include "security/access/policies.h"

namespace falaj::security::access {

// Whether `submitter`, with all that he is granted now, may do what the scope ("action@project/
// Kind/name") names. No reason is stated, so no glass is broken. False for a scope that names no
// object. Pure.
bool may_still(const Policies& policies, const Principal& submitter, const Scope& scope,
               Timestamp now);

}  // namespace falaj::security::access
