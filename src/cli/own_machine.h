// cli/own_machine.h — what commands that start programs here pass on to them.
#pragma once

#include "launch/contract.h"

namespace falaj::cli {

// The variables of this process.
launch::Environment own_environment();
// Processors that this process may use; at least 1.
int usable_cpus();

}  // namespace falaj::cli
