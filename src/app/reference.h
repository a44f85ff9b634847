// app/reference.h — docs/reference, made from the declarations of a program that really started.
#pragma once

#include <string>

#include "base/result.h"

namespace falaj::app {

// settings, errors, routes, metrics, permissions, kinds. A test compares them with the files.
Result<std::string> reference_page(const std::string& page);

}  // namespace falaj::app
