// cli/kinds.h — the kinds and projects that a server knows.
#pragma once

#include <string>

#include "cli/connection.h"

namespace falaj::cli {

enum class KindScope : std::uint8_t { kProject, kPlatform };

struct Kind {
  std::string name;
  KindScope scope = KindScope::kProject;
};

// The kind as the server spells it, whatever case `word` has; FJ-1016 with the nearest otherwise.
Result<Kind> find_kind(Connection& connection, const std::string& word);

// FJ-2001 when the project of `connection` is not declared.
Status check_project(Connection& connection);

}  // namespace falaj::cli
