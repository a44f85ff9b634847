// scheduler/verify.h — checks decisions against the rules without knowing how they were found.
// It shares only types and their bytes with decide() and counts all again. This page and verify.cc
// are what one reads to trust that no rule is broken and that preemption ends. See also conform.h.
#pragma once

#include <map>

#include "scheduler/decisions.h"
#include "scheduler/encode.h"

namespace falaj::scheduler {
using Holding = std::map<Index, const Placement*>;  // Who holds which place at one moment.
struct Violation {
  std::string_view rule;  // As need() in verify.cc names it.
  std::uint64_t job = 0;  // Its id.
};

// Empty when every rule holds. `snapshot` is well formed. Cost: jobs × queues for every claim.
std::vector<Violation> verify(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                              const Decisions& decisions);

// A set of running jobs as rows of marks: who is entitled at queues of each height, at last who
// runs; each in the order of the certificate. Of two sets the greater text is the better one.
std::string marks(const Snapshot& s, const Certificate& by, const Holding& running);

}  // namespace falaj::scheduler
