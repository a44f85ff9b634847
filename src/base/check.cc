#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace falaj {

void check_failed(const char* expression, const char* file, int line) {
  // Straight to stderr: the log sink may be what broke.
  std::fprintf(stderr, "falaj: broken invariant: %s at %s:%d\n", expression, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace falaj
