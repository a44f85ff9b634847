// The key column that decides whose arm a request has.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "table/schema.h"

namespace falaj::serving::rollout {

// Whether `sticky` is one of the keys of `owner` ("deployment 'fraud'"); an error of `id` with the
// nearest name otherwise.
Status check_key(const std::string& sticky, const std::vector<table::Field>& keys,
                 const std::string& owner, ErrorId id);

}  // namespace falaj::serving::rollout
