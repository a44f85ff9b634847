// base/check.h — a broken invariant stops the process at once, before it can write anything wrong.
// For what users, network, disk or a dependency can cause, return an Error instead.
#pragma once

namespace falaj {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}  // namespace falaj

#define FALAJ_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::falaj::check_failed(#expression, __FILE__, __LINE__))
