// crypto/testing/fake_random.h — bytes that a test can repeat. Never for anything that is kept.
#pragma once

#include <cstdint>

#include "crypto/random.h"

namespace falaj::crypto::testing {

class FakeRandom final : public Random {
 public:
  explicit FakeRandom(std::uint64_t seed) : state_(seed) {}
  void fill(void* out, std::size_t size) override;

 private:
  std::uint64_t state_;
};

}  // namespace falaj::crypto::testing
