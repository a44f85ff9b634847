#include "serving/onnx/onnx_library.h"

#include <dlfcn.h>

#include <algorithm>

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

Result<std::shared_ptr<const OnnxLibrary>> OnnxLibrary::open(const std::string& path,
                                                             unsigned threads) {
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
  FALAJ_TRY(library->start(threads));
  return std::shared_ptr<const OnnxLibrary>(std::move(library));
}

Status OnnxLibrary::start(unsigned threads) {
  const OrtApi& ort = api();
  const auto must = [this](OrtStatus* status) {
    return check(status, ErrorId::kRuntimeUnavailable);
  };
  OrtThreadingOptions* raw = nullptr;
  FALAJ_TRY(must(ort.CreateThreadingOptions(&raw)));
  const auto pool = onnx_own(raw, ort.ReleaseThreadingOptions);
  const int count = static_cast<int>(std::max(threads, 1U));
  FALAJ_TRY(must(ort.SetGlobalIntraOpNumThreads(pool.get(), count)));
  FALAJ_TRY(must(ort.SetGlobalInterOpNumThreads(pool.get(), 1)));
  // A spinning pool would burn the core that serves the next request.
  FALAJ_TRY(must(ort.SetGlobalSpinControl(pool.get(), 0)));
  FALAJ_TRY(must(ort.CreateEnvWithCustomLoggerAndGlobalThreadPools(
      to_our_log, nullptr, ORT_LOGGING_LEVEL_ERROR, "falaj", pool.get(), &env_)));
  return must(ort.DisableTelemetryEvents(env_));
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
