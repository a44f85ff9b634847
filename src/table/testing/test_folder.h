// table/testing/test_folder.h — a folder of its own for one test, and whole files in and out.
#pragma once

#include <ftw.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.h"

namespace falaj::table {

// Removed with everything in it at the end.
class TestFolder {
 public:
  TestFolder() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/falaj-test-XXXXXX";
    FALAJ_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TestFolder() {
    const auto remove_one = [](const char* path, const struct stat*, int, struct FTW*) {
      return ::remove(path);
    };
    ::nftw(path_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes `bytes` to a file of that name and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  std::string path_;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace falaj::table
