// cli/demo/crowded.h — a machine that too many want, over the public API: forty jobs wait, each for
// a reason of its own, and each is told which and what would help.
#pragma once

#include "cli/commands.h"

namespace falaj::cli::demo {

// Whether every job that waits was told what binds it and the smallest change that would admit it,
// and whether at least five different things bind. `jobs` is a list of {name, code, constraint,
// change}; the error names the first that was not.
Status judge_crowd(const Value& jobs);

// Declares queues in a project of its own (the first free of demo, demo-2 …), fills them, asks
// about each job that waits, prints the answers, cancels all of them, and fails when judge_crowd()
// does.
Status run_crowded(const Session& session);

}  // namespace falaj::cli::demo
