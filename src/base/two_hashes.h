// base/two_hashes.h — SHA-256 of two streams of bytes that are fed side by side: where something is
// hashed in two forms, the second costs a tenth of the first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace falaj {

// As Sha256Hasher, and can be fed together with another one.
class PairedHasher {
 public:
  PairedHasher();
  void update(std::string_view data);
  Sha256 finish();  // The hasher may not be used afterwards.

  // What update() of each would do; the processor works on both at once as far as they are equally
  // long.
  struct Fed {
    PairedHasher& hasher;
    std::string_view data;
  };
  static void update_both(Fed a, Fed b);

 private:
  void fill(std::string_view& data);
  void keep(std::string_view rest);
  void compress(std::string_view& data);

  std::array<std::uint32_t, 8> state_;
  std::array<std::uint8_t, 64> buffer_{};
  std::size_t buffered_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace falaj
