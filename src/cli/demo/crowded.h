// cli/demo/crowded.h — a machine that too many want, over the public API: forty jobs wait, each for
// a reason of its own, and each is told which and what would help.
#pragma once

#include <cstdint>

#include "cli/commands.h"

namespace falaj::cli::demo {

// Whether every job that waits was told what binds it and the smallest change that would admit it,
// and whether at least five different things bind: else something else runs there, and who asked is
// told to wait or to cancel it. `jobs` is a list of {name, code, constraint, change}; the error
// names the first that was not.
Status judge_crowd(const Value& jobs);

// Declares queues in a project of its own (the first free of demo, demo-2 …), fills them, asks
// about each job that waits, prints the answers, cancels all of them unless they are to be kept,
// and fails when judge_crowd() does.
enum class Afterwards : std::uint8_t { kCancel, kKeep };
Status run_crowded(const Session& session, Afterwards after);

}  // namespace falaj::cli::demo
