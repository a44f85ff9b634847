// cli/explain.h — models explain: what each feature added to an answer, as bars.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace falaj::cli {

struct ExplainChoice {
  std::string deployment;
  std::vector<std::string> keys;     // Of the entity; empty: `file` says what.
  std::vector<std::string> against;  // Entities of the background, "customer_id=7,merchant_id=3".
  std::string file;                  // An inference request as JSON; "-" for standard input.
  std::string budget = "1s";
  std::int64_t samples = 256;
};

// One explanation of a reply as text: the largest contributions first, at most `most` of them and
// the sum of the others, left of the middle what took away, right of it what added. "±" gives the
// standard error of a sampled one. Pure.
std::string contribution_bars(const Value& explanation, std::size_t most);

Status explain_prediction(const Session& session, const ExplainChoice& choice);

}  // namespace falaj::cli
