// serving/budget/machine.h — how much of its machine this process may use: what the kernel's
// control groups, version 1 or 2, leave of it.
#pragma once

#include <cstdint>
#include <string>

namespace falaj::serving::budget {

struct Machine {
  // That it may run on (affinity and cpuset), and no more than the smallest quota of a control
  // group above it pays for, rounded up.
  unsigned processors = 1;
  // The machine's, or the smallest limit of a control group above it. 0: nobody says.
  std::int64_t memory = 0;
};

// Where to look. Tests bring a folder that has proc/ and sys/ in it.
struct Places {
  std::string root{};
  unsigned affine = 0;  // Processors by affinity and cpuset; 0: the kernel is asked.
};
Machine this_machine(const Places& places = {});

// Bytes that could be had now without swapping: what the machine has available, and what every
// control group above has left, where files that are cached count as left. The largest number when
// nobody says. Reads a few small files.
std::int64_t available_memory(const Places& places = {});

}  // namespace falaj::serving::budget
