// jobs/warden_executor.h — processes of this machine that outlive this process (exec/wards.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/executor.h"

namespace falaj::jobs {

struct WardenExecutorOptions {
  std::string folder;               // The warden's own; absolute; made when it is needed.
  std::vector<std::string> warden;  // Its command line, without the folder.
};

// Attempts go on when this process dies; the next one's list() has them, and the ends that came
// meanwhile. They are lost only with the warden. The destructor leaves running ones alone and ends
// a warden that has none.
Result<std::unique_ptr<Executor>> make_warden_executor(WardenExecutorOptions options);

}  // namespace falaj::jobs
