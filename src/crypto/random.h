// crypto/random.h — where unpredictable bytes come from.
#pragma once

#include <cstddef>
#include <string>

#include "crypto/secret.h"

namespace falaj::crypto {

// The port. Keys and nonces take it as an argument, so that a test can replay them
// (crypto/testing/fake_random.h).
class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(void* out, std::size_t size) = 0;

  std::string bytes(std::size_t size);  // For nonces and ids, which are not secret.
  SecretBytes secret(std::size_t size);
  SecretBytes key() { return secret(kKeyBytes); }
  // `size` random bytes in lower-case hex: an id that tells nothing.
  std::string hex_id(std::size_t size = 16);
};

// The kernel's generator, asked each time: it keeps no state in the process, so that neither fork()
// nor a restored snapshot of the process can repeat its output. Stops the process if the kernel has
// none to give, because nothing may be encrypted without. Thread-safe; about a microsecond a call.
Random& system_random();

}  // namespace falaj::crypto
