// launch/log_rules.h — what lines of a worker's output mean for the gang.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launch/membership.h"

namespace falaj::launch {

// "ACTION=PATTERN": stop, retry or exclude, and a POSIX extended regular expression that is looked
// for in each line. kInvalidArgument says what is wrong with it. Values, cheap to copy;
// thread-safe.
class LogRules {
 public:
  static constexpr std::size_t kRulesMax = 64;
  static constexpr std::size_t kPatternBytesMax = 1024;

  static Result<LogRules> parse(const std::vector<std::string>& texts);

  struct Hit {
    RuleAction action = RuleAction::kStop;
    std::string pattern;
  };
  // The first rule that the line matches. At most the first 4 KiB of a line are looked at.
  std::optional<Hit> match(std::string_view line) const;

 private:
  struct Rule;
  std::vector<std::shared_ptr<const Rule>> rules_;
};

}  // namespace falaj::launch
