// app/crash_dumps.h — the memory of a server that dies is its tenants' data.
#pragma once

#include "security/residency/exits.h"

namespace falaj::app {

// True when every declared project's data may lie in the folder that dumps go to. An undeclared
// folder (unlabelled) never may. Whoever gets false calls exec::forbid_memory_dumps().
bool dumps_allowed(security::residency::Exits& exits, const Zone& dump_folder);

}  // namespace falaj::app
