// scheduler/reserve.h — a place and a time for a gang that cannot start now, so that it is not
// passed by for ever: others may start before it only where they do not delay it (conservative
// backfill).
#pragma once

#include <optional>

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// The earliest time at which the gang fits if every running job ends at its predicted upper run
// time and everybody with an earlier promise has taken its place; with that place. nullopt: not
// even then. Cost: a copy of the fleet and a dozen searches.
std::optional<Board::Promise> earliest_start(Cycle& cycle, Index job);

// Gives the promise, writes it into the decisions. False if there is none to give.
bool promise_to(Cycle& cycle, Index job);

}  // namespace falaj::scheduler
