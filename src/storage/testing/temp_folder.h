// storage/testing/temp_folder.h — a fresh folder for one test, gone when dropped.
#pragma once

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

namespace falaj::storage {

class TempFolder {
 public:
  TempFolder() {
    const char* base = ::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/falaj-test-XXXXXX";
    FALAJ_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TempFolder() {
    ::nftw(
        path_.c_str(),
        [](const char* path, const struct stat*, int, struct FTW*) { return ::remove(path); }, 16,
        FTW_DEPTH | FTW_PHYS);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace falaj::storage
