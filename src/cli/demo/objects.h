// cli/demo/objects.h — the demo's declarations, as a user would type them.
#pragma once

#include <string>

#include "base/time.h"

namespace falaj::cli::demo {

// YAML documents with a project, its zone and `objects` below it; "@P@" in them is its name.
std::string in_project(const std::string& project, const std::string& objects);

// YAML documents for one project; the first training set covers [train_from, train_to).
std::string objects_yaml(const std::string& project, Timestamp train_from, Timestamp train_to);

}  // namespace falaj::cli::demo
