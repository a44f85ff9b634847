// scheduler/explain.h — why a job waits, what would admit it, when it probably starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/cycle.h"

namespace falaj::scheduler {

// Why a gang found no place although quota would allow it: too little free in all, or too
// scattered, or only what is promised to others.
Reason capacity_reason(Cycle& cycle, Index job, const Placed& placed);

// One line for people: "waits for quota: queue risk lacks 2000 of gpu.a100; starts in 34m to 2h".
std::string to_text(const Snapshot& snapshot, const Reason& reason, Timestamp now);

// A wait as people say it, in its two largest units: "3s", "2m", "1m30s", "18h17m", "3d4h". What is
// smaller is left out, or counted as one more; nothing below zero is told.
enum class Round : std::uint8_t { kDown, kUp };
std::string span_text(Duration span, Round round);

}  // namespace falaj::scheduler
