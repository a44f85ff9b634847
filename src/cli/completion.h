// cli/completion.h — completion scripts for bash, zsh and fish, from the command tree.
#pragma once

#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace falaj::cli {

// Prints the script for `shell`; FJ-1016 names the shells there are.
Status print_completion(const CLI::App& root, const std::string& shell);

}  // namespace falaj::cli
