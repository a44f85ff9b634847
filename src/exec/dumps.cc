#include "exec/dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

namespace falaj::exec {

void forbid_memory_dumps() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__)  // Whose leak check attaches to its own process.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

}  // namespace falaj::exec
