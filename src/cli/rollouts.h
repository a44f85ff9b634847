// cli/rollouts.h — rollouts, as people see them in a terminal.
#pragma once

#include <string>

#include "cli/commands.h"

namespace falaj::cli {

// A rollout as the server tells it, in a few lines: its steps, the two arms, and for each guard
// where the harm may lie against its margin.
std::string rollout_chart(const Value& rollout);

// One as a chart, or all as a table ("").
Status show_rollouts(const Session& session, const std::string& name);
// The chart, redrawn until the rollout has ended; an error unless it was promoted. Where nobody
// looks, a line whenever the reason changes.
Status follow_rollout(const Session& session, const std::string& name);
// `verb`: start, hold, resume, approve, promote, abort. kWait follows it to its end.
Status order_rollout(const Session& session, const std::string& name, const std::string& verb,
                     Wait wait);

}  // namespace falaj::cli
