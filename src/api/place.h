// api/place.h — where a request comes from, as far as residency cares.
#pragma once

#include <string>

#include "security/residency/exits.h"

namespace falaj::api {

// Of a client's address: one that connects from this machine sits on it.
security::residency::Caller place_of(const std::string& peer);

}  // namespace falaj::api
