#include "crypto/testing/fake_random.h"

namespace falaj::crypto::testing {

void FakeRandom::fill(void* out, std::size_t size) {
  auto* next = static_cast<unsigned char*>(out);
  for (std::size_t i = 0; i < size; ++i) {
    // SplitMix64, one step a byte: slow and even.
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    next[i] = static_cast<unsigned char>(z ^ (z >> 31));
  }
}

}  // namespace falaj::crypto::testing
