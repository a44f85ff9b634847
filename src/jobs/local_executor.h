// jobs/local_executor.h — processes of this machine, started by this process and ended with it.
#pragma once

#include <memory>

#include "base/time.h"
#include "jobs/executor.h"

namespace falaj::jobs {

// Children of this process (exec/child.h): when it dies they die too, and the next one's list() is
// empty. One thread per running attempt. The destructor kills what still runs.
std::unique_ptr<Executor> make_local_executor(const Clock& clock);

}  // namespace falaj::jobs
