#include "base/result.h"

#include <cstdio>

namespace falaj {

Error Error::within(std::string_view context) const {
  Error outer = *this;
  outer.message = std::string(context) + ": " + message;
  return outer;
}

std::string to_string(ErrorId id) {
  char text[16];
  std::snprintf(text, sizeof text, "FJ-%04u", static_cast<unsigned>(id));
  return text;
}

}  // namespace falaj
