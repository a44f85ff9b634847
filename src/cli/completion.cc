#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace falaj::cli {
namespace {

// The words that may follow a command: its subcommands and long options.
std::string words_after(const CLI::App& command) {
  std::string words;
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (!sub->get_group().empty()) words += sub->get_name() + " ";
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

std::string bash_script(const CLI::App& root) {
  std::string cases;
  for (const CLI::App* command : root.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    for (const CLI::App* sub : command->get_subcommands({})) {
      cases += "    '" + command->get_name() + " " + sub->get_name() + "'*) words='" +
               words_after(*sub) + "' ;;\n";
    }
    cases += "    '" + command->get_name() + "'*) words='" + words_after(*command) + "' ;;\n";
  }
  return "_falaj() {\n  local words before=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\"\n"
         "  case \"$before\" in\n" +
         cases + "    *) words='" + words_after(root) +
         "' ;;\n  esac\n"
         "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n"
         "    -o|--output) words='table json yaml' ;;\n"
         "    get|list|delete)\n"
         "      [ \"$before\" = 'audit list' ] ||\n"
         "        words=\"$(falaj kinds 2>/dev/null | awk 'NR > 1 { print $1 }') $words\" ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "
         "\"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -F _falaj falaj\n";
}

std::string quoted(std::string text) {
  for (std::size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at + 4)) {
    text.replace(at, 1, "'\\''");
  }
  return "'" + text + "'";
}

std::string fish_script(const CLI::App& root) {
  std::string script = "complete -c falaj -f\n";
  for (const CLI::App* command : root.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    script += "complete -c falaj -n __fish_use_subcommand -a " + command->get_name() + " -d " +
              quoted(command->get_description()) + "\n";
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        script += "complete -c falaj -n '__fish_seen_subcommand_from " + command->get_name() +
                  "' -l " + name + " -d " + quoted(option->get_description()) + "\n";
      }
    }
  }
  return script;
}

}  // namespace

Status print_completion(const CLI::App& root, const std::string& shell) {
  std::string script;
  if (shell == "bash") script = bash_script(root);
  if (shell == "zsh") script = "autoload -U +X bashcompinit && bashcompinit\n" + bash_script(root);
  if (shell == "fish") script = fish_script(root);
  if (script.empty()) {
    return Error{ErrorId::kUsage, "no completion for '" + shell + "': bash, zsh or fish"};
  }
  std::fwrite(script.data(), 1, script.size(), stdout);
  return {};
}

}  // namespace falaj::cli
