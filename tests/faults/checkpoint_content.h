// tests/faults/checkpoint_content.h — saves whose every byte can be foretold.
#pragma once

#include <map>
#include <string>

#include "base/hash.h"

namespace falaj::faults {

inline std::string save_name(int round, int index) {
  return "s-" + std::to_string(round) + "-" + std::to_string(index);
}

// Path to bytes: a few files of up to 300 KB, sizes by chance, the same for the same name.
inline std::map<std::string, std::string> save_content(const std::string& name) {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t seed = hash64(name, static_cast<std::uint64_t>(i));
    std::string bytes(seed % 300'000, '\0');
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] = static_cast<char>(seed >> (at % 57) ^ at);
    }
    files[i == 0 ? "step" : "weights/rank" + std::to_string(i)] = std::move(bytes);
  }
  return files;
}

}  // namespace falaj::faults
