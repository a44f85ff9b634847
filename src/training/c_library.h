// training/c_library.h — an engine's shared library, opened at run time and called by its C ABI.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace falaj::training {

class CLibrary {
 public:
  // `engine` names it to people: "LightGBM 4". FJ-4007 with the path and the loader's words when it
  // cannot be opened. It stays loaded for the life of the process: its threads outlive any handle.
  static Result<CLibrary> open(const std::string& path, const std::string& engine);

  // FJ-4007 when the library has no such function.
  template <class Function>
  Status bind(const char* name, Function& function) const {
    void* const symbol = FALAJ_TRY(find(name));
    function = reinterpret_cast<Function>(symbol);
    return {};
  }

 private:
  CLibrary(void* handle, std::string path, std::string engine)
      : handle_(handle), path_(std::move(path)), engine_(std::move(engine)) {}
  Result<void*> find(const char* name) const;

  void* handle_;
  std::string path_;
  std::string engine_;
};

}  // namespace falaj::training
