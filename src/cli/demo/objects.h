// cli/demo/objects.h — the demo's declarations, as a user would type them.
#pragma once

#include <string>

#include "base/time.h"

namespace falaj::cli::demo {

// YAML documents for one project; the first training set covers [train_from, train_to).
std::string objects_yaml(const std::string& project, Timestamp train_from, Timestamp train_to);

}  // namespace falaj::cli::demo
