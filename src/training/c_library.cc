#include "training/c_library.h"

#include <dlfcn.h>

namespace falaj::training {

Result<CLibrary> CLibrary::open(const std::string& path, const std::string& engine) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return CLibrary(handle, path, engine);
  const char* reason = dlerror();
  return Error(ErrorId::kEngineUnavailable,
               "cannot open " + engine + " at '" + path +
                   "': " + (reason == nullptr ? "unknown reason" : reason) + "; run ./dev setup");
}

Result<void*> CLibrary::find(const char* name) const {
  void* symbol = dlsym(handle_, name);
  if (symbol != nullptr) return symbol;
  return Error(ErrorId::kEngineUnavailable,
               path_ + " has no function " + name + ": it is no " + engine_ + "; run ./dev setup");
}

}  // namespace falaj::training
