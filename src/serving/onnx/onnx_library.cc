#include "serving/onnx/onnx_library.h"

#include <dlfcn.h>

#include "base/log.h"

namespace falaj::serving {
namespace {

// The runtime's own log joins ours. It speaks of nodes and providers, never of values.
void ORT_API_CALL to_our_log(void*, OrtLoggingLevel severity, const char* category, const char*,
                             const char* where, const char* message) {
  if (severity < ORT_LOGGING_LEVEL_WARNING) return;
  log::warn("onnx runtime", {{"category", category}, {"where", where}, {"message", message}});
}

Error unavailable(const std::string& path, std::string_view reason) {
  return Error(ErrorId::kRuntimeUnavailable,
               "ONNX Runtime " + path + " cannot be opened: " + std::string(reason));
}

}  // namespace

Result<std::shared_ptr<const OnnxLibrary>> OnnxLibrary::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return unavailable(path, reason == nullptr ? "unknown reason" : reason);
  }
  using GetBase = const OrtApiBase* (*)();
  void* const symbol = dlsym(handle, "OrtGetApiBase");
  if (symbol == nullptr) return unavailable(path, "it has no OrtGetApiBase");

  const OrtApiBase* base = reinterpret_cast<GetBase>(symbol)();
  std::shared_ptr<OnnxLibrary> library(new OnnxLibrary);
  library->handle_ = handle;
  library->version_ = base->GetVersionString();
  library->api_ = base->GetApi(ORT_API_VERSION);
  if (library->api_ == nullptr) {
    return unavailable(path, "version " + library->version_ +
                                 " is too old, its interface must be " +
                                 std::to_string(ORT_API_VERSION) + " or newer");
  }
  const OrtApi& api = library->api();
  FALAJ_TRY(
      library->check(api.CreateEnvWithCustomLogger(to_our_log, nullptr, ORT_LOGGING_LEVEL_ERROR,
                                                   "falaj", &library->env_),
                     ErrorId::kRuntimeUnavailable));
  FALAJ_TRY(
      library->check(api.DisableTelemetryEvents(library->env_), ErrorId::kRuntimeUnavailable));
  return std::shared_ptr<const OnnxLibrary>(std::move(library));
}

OnnxLibrary::~OnnxLibrary() {
  if (env_ != nullptr) api_->ReleaseEnv(env_);
}

Status OnnxLibrary::check(OrtStatus* status, ErrorId id) const {
  if (status == nullptr) return {};
  Error error(id, std::string("ONNX Runtime: ") + api_->GetErrorMessage(status));
  api_->ReleaseStatus(status);
  return error;
}

}  // namespace falaj::serving
