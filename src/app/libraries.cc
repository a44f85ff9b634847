#include "app/libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <tuple>

#include "serving/runtime.h"
#include "table/io.h"

namespace falaj::app {
namespace {

constexpr const char* kOnnxRuntime = "libonnxruntime.so.1";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string open_and_find(const std::string& path, const char* symbol) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  return dlsym(library, symbol) == nullptr ? std::string("has no ") + symbol : std::string();
}

}  // namespace

std::string program_path() {
  // Read once: when another file takes its place, the link leads to nowhere.
  static const std::string path = [] {
    char buffer[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", buffer, sizeof buffer);
    return length > 0 ? std::string(buffer, static_cast<std::size_t>(length)) : std::string();
  }();
  return path;
}

std::string library_folder() {
  const std::string bin = folder_of(program_path());
  std::vector<std::string> candidates;
  if (const char* set = std::getenv("FALAJ_LIBRARY_DIR")) candidates.emplace_back(set);
  candidates.push_back(bin + "/../lib/falaj");
  candidates.push_back(bin + "/../deps/lib");
  for (const std::string& folder : candidates) {
    char resolved[PATH_MAX];
    if (access((folder + "/" + kOnnxRuntime).c_str(), R_OK) != 0) continue;
    if (realpath(folder.c_str(), resolved) != nullptr) return resolved;
  }
  return "";
}

std::vector<LibraryCheck> check_libraries() {
  const std::string folder = library_folder();
  std::vector<LibraryCheck> checks;
  const auto runtime = serving::open_onnx_runtime({.library = folder + "/" + kOnnxRuntime});
  checks.push_back(
      {"onnxruntime", folder + "/" + kOnnxRuntime, runtime.ok() ? "" : runtime.error().message});
  for (const auto& [name, file, symbol] :
       {std::tuple("lightgbm", "lib_lightgbm.so", "LGBM_BoosterCreate"),
        std::tuple("xgboost", "libxgboost.so", "XGBoosterCreate")}) {
    const std::string path = folder + "/" + file;
    checks.push_back({name, path, open_and_find(path, symbol)});
  }
  // Arrow is linked; reading a file that is not there walks into it.
  const auto schema = table::read_schema("/nonexistent.parquet", table::Format::kParquet);
  checks.push_back({"arrow", "", schema.ok() ? "read a file that does not exist" : ""});
  return checks;
}

}  // namespace falaj::app
