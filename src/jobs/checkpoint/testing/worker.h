// jobs/checkpoint/testing/worker.h — saves as a training script would, and looks at what is there.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace falaj::jobs::checkpoint {

using Contents = std::vector<std::pair<std::string, std::string>>;  // Path and bytes.

inline void put(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Begins a save and does not complete it.
inline void begin_save(const std::string& saves, const std::string& name, const Contents& files) {
  std::filesystem::create_directories(saves + "/" + name + ".tmp");
  for (const auto& [path, bytes] : files) put(saves + "/" + name + ".tmp/" + path, bytes);
}

inline void save(const std::string& saves, const std::string& name, const Contents& files) {
  begin_save(saves, name, files);
  std::filesystem::rename(saves + "/" + name + ".tmp", saves + "/" + name);
}

inline void save_file(const std::string& saves, const std::string& name, const std::string& bytes) {
  put(saves + "/" + name + ".tmp", bytes);
  std::filesystem::rename(saves + "/" + name + ".tmp", saves + "/" + name);
}

}  // namespace falaj::jobs::checkpoint
