#include "cli/own_machine.h"

#include <sched.h>
#include <unistd.h>

#include <string_view>

namespace falaj::cli {

launch::Environment own_environment() {
  launch::Environment env;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    env.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace falaj::cli
