// net/feast_error.h — an error as Feast's servers write it.
#pragma once

#include <string>

#include "base/result.h"

namespace falaj::net {

// A JSON text that holds {"module", "class", "message"}, of which its clients make their own
// exceptions.
std::string feast_body(const Error& error);

}  // namespace falaj::net
