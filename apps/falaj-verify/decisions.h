// Who may do what, decided again: the access matrix against the grants, groups and roles beside it.
#pragma once

#include "json.h"

namespace falaj_verify {
// "" when every cell follows from them, and whom, where and what they name has a row, a place and a
// column; otherwise what does not. That a name in a grant belongs to an id is the server's word.
std::string check_decisions(const Json& matrix);
}  // namespace falaj_verify
