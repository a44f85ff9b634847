// features/internal/plan_name.h — under which name an online plan is kept.
#pragma once

#include <string>
#include <vector>

#include "features/definitions.h"

namespace falaj::features {

// Names come from requests and may hold anything: two questions never have one name, whatever is
// in them. Of `wanted` the views and their features count.
std::string plan_name(const std::string& service);
std::string plan_name(const std::vector<ServiceView>& wanted, NameStyle names);

}  // namespace falaj::features
