// scheduler/conform.h — whether choices are those of the policy: the order of jobs, what queues are
// entitled to, and who may push out whom.
//
// verify.h takes order and entitlements from the certificate; here they are computed again, from
// nothing but the types, and every victim is looked at: minimum run time, scope, margin, borrowing.
#pragma once

#include "scheduler/verify.h"

namespace falaj::scheduler {

// Empty when everything is as the policy says; rules "order", "entitled" and "right". For decisions
// that verify() found good. Cost as there.
std::vector<Violation> conform(const Snapshot& snapshot, const Policy& policy, Timestamp now,
                               const Decisions& decisions);

}  // namespace falaj::scheduler
