#include "app/wiring.h"

namespace falaj::app {

std::string version_text() { return FALAJ_VERSION; }
std::string build_text() { return FALAJ_BUILD; }

}  // namespace falaj::app
