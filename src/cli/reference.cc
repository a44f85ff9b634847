#include "cli/reference.h"

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "config/settings.h"

namespace falaj::cli {
namespace {

void add_command(std::string& page, const CLI::App& command, const std::string& path) {
  if (command.get_group().empty()) return;
  page += "\n## " + path + "\n\n" + command.get_description() + ".\n";
  std::string rows;
  for (const CLI::Option* option : command.get_options()) {
    const bool help = option->check_lname("help");
    if (help) continue;
    const std::string fallback = option->get_default_str();
    rows += "| `" + option->get_name(true, true) + "` | " + option->get_description() +
            (fallback.empty() ? "" : " (default `" + fallback + "`)") +
            (option->get_required() ? " **required**" : "") + " |\n";
  }
  if (!rows.empty()) page += "\n| option | meaning |\n|---|---|\n" + rows;
  for (const CLI::App* sub : command.get_subcommands({})) {
    add_command(page, *sub, path + " " + sub->get_name());
  }
}

}  // namespace

std::string command_pages(const CLI::App& root) {
  std::string page =
      "# Commands\n\nGenerated from the declarations in `src/cli/cli.cc`. Exit codes: 0 ok, 1 "
      "failed, 2 usage,\n3 not found, 4 denied, 5 conflict, 6 timeout.\n";
  for (const CLI::App* command : root.get_subcommands({})) {
    add_command(page, *command, "falaj " + command->get_name());
  }
  return page;
}

std::string settings_page() {
  std::string page =
      "# Settings\n\nGenerated from `src/config/declarations.cc`. A flag (`--set KEY=VALUE`) beats "
      "the environment, which beats\nthe file (`--config`), which beats the default.\n\n"
      "| setting | default | type | environment | meaning |\n|---|---|---|---|---|\n";
  for (const config::Setting& setting : config::declared()) {
    page += "| `" + std::string(setting.key) + "` | `" + std::string(setting.fallback) + "` | " +
            config::describe_type(setting) + " | `" + config::environment_name(setting.key) +
            "` | " + std::string(setting.help) + " |\n";
  }
  return page;
}

std::string errors_page() {
  std::string page =
      "# Error codes\n\nGenerated from `src/base/error_ids.cc`. A code never changes its meaning; "
      "`falaj explain CODE` prints its row.\n\n| code | class | what | what to do "
      "|\n|---|---|---|---|\n";
  for (const ErrorInfo& info : all_errors()) {
    page += "| `" + to_string(info.id) + "` | " + std::string(code_name(info.code)) + " | " +
            std::string(info.title) + " | " + std::string(info.next_step) + " |\n";
  }
  return page;
}

}  // namespace falaj::cli
