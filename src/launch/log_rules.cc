#include "launch/log_rules.h"

#include <regex.h>

namespace falaj::launch {
namespace {

constexpr std::size_t kLookedAt = 4096;

std::optional<RuleAction> action_named(std::string_view name) {
  if (name == "stop") return RuleAction::kStop;
  if (name == "retry") return RuleAction::kRetry;
  if (name == "exclude") return RuleAction::kExcludeNode;
  return std::nullopt;
}

Error refused(const std::string& text, const std::string& why) {
  return Error(Code::kInvalidArgument, "rule '" + text + "': " + why);
}

}  // namespace

struct LogRules::Rule {
  RuleAction action = RuleAction::kStop;
  std::string pattern;
  regex_t compiled{};

  Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  ~Rule() { ::regfree(&compiled); }
};

Result<LogRules> LogRules::parse(const std::vector<std::string>& texts) {
  LogRules rules;
  if (texts.size() > kRulesMax) {
    return Error(Code::kInvalidArgument, "at most 64 log rules can be kept");
  }
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const auto action = action_named(std::string_view(text).substr(0, equals));
    if (equals == std::string::npos || !action) {
      return refused(text, "it must be stop=PATTERN, retry=PATTERN or exclude=PATTERN");
    }
    const std::string pattern = text.substr(equals + 1);
    if (pattern.empty() || pattern.size() > kPatternBytesMax) {
      return refused(text, "its pattern must have 1 to 1024 bytes");
    }
    auto rule = std::make_shared<Rule>();
    const int failed = ::regcomp(&rule->compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
    if (failed != 0) {
      char reason[128];
      ::regerror(failed, &rule->compiled, reason, sizeof reason);
      return refused(text, std::string("no regular expression: ") + reason);
    }
    rule->action = *action;
    rule->pattern = pattern;
    rules.rules_.push_back(std::move(rule));
  }
  return rules;
}

std::optional<LogRules::Hit> LogRules::match(std::string_view line) const {
  if (rules_.empty()) return std::nullopt;
  const std::string looked_at(line.substr(0, kLookedAt));
  for (const auto& rule : rules_) {
    if (::regexec(&rule->compiled, looked_at.c_str(), 0, nullptr, 0) == 0) {
      return Hit{rule->action, rule->pattern};
    }
  }
  return std::nullopt;
}

}  // namespace falaj::launch
