// cli/reference.h — the reference pages that this module's declarations make.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace falaj::cli {

// Every command with its options, as Markdown.
std::string command_pages(const CLI::App& root);
// Every setting; every error code.
std::string settings_page();
std::string errors_page();

}  // namespace falaj::cli
