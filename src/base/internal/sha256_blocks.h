// base/internal/sha256_blocks.h — the compression function, portable and by instruction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace falaj::internal {

using Sha256State = std::array<std::uint32_t, 8>;

// Each folds `count` blocks of 64 bytes into the state; both give the same state.
void sha256_blocks_portable(Sha256State& state, const std::uint8_t* blocks, std::size_t count);
// Call only when sha256_has_instructions().
void sha256_blocks_native(Sha256State& state, const std::uint8_t* blocks, std::size_t count);
// Both states at once, `count` blocks each: little more than one of them costs, for the processor
// waits for each round of one and can do the other's meanwhile.
struct Sha256Work {
  Sha256State& state;
  const std::uint8_t* blocks;
};
void sha256_blocks_native(Sha256Work a, Sha256Work b, std::size_t count);
bool sha256_has_instructions();

}  // namespace falaj::internal
