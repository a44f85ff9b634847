// scheduler/mig.h — how an A100 or H100 is cut into instances (NVIDIA MIG): memory is eight slices,
// a profile takes some of them, and may begin only at certain ones. Any set of instances whose
// slices do not overlap also stays within the seven compute slices, so slices are all that is
// counted.
#pragma once

#include <cstdint>
#include <string_view>

#include "scheduler/snapshot.h"

namespace falaj::scheduler {

struct MigShape {
  std::uint32_t slices = 0;  // Of eight.
  std::uint16_t starts = 0;  // A bit per memory slice where it may begin.
};

// The same for A100 and H100. Slices 0 for kWhole.
MigShape mig_shape(MigProfile profile);

// The slices of an instance that begins at `start`, as bits: all when nobody knows where (0xff).
std::uint8_t mig_slices(MigProfile profile, std::uint32_t start);

// Where an instance may begin when `used` slices are taken: the last such place, which leaves room
// for the large profiles that begin at 0. 0xff: nowhere.
std::uint8_t mig_start(MigProfile profile, std::uint8_t used);

// What an instance is charged, in milli-GPUs: 125 a slice, so that a whole GPU's instances never
// sum to more than the GPU.
std::int64_t mig_charge(MigProfile profile);

// "1g", "1g.double" (one compute slice, two of memory), "2g", …; "whole".
std::string_view to_string(MigProfile profile);

}  // namespace falaj::scheduler
