// features/internal/stages.h — tasks that several threads share, some of which must wait for
// others.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"

namespace falaj::features {

// Tasks that may run side by side.
struct Stage {
  std::size_t tasks = 0;
  // worker: which thread calls, below `threads`. task: below `tasks`.
  std::function<Status(std::size_t worker, std::size_t task)> work;
  // Earlier stages, all of whose tasks must be done before one of these begins.
  std::vector<std::size_t> after{};
};

// Runs all tasks, begun in the order of the stages, on the caller's thread and up to `threads` − 1
// others; no more than there are tasks. The first error ends it: tasks that were not begun are left
// out.
Status run_stages(const std::vector<Stage>& stages, std::size_t threads);

}  // namespace falaj::features
