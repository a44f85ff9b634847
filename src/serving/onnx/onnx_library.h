// serving/onnx/onnx_library.h — ONNX Runtime's C ABI, opened by hand, and owners for its handles.
//
// Opened with dlopen so that the program starts without it, runs beside newer versions, and none of
// the library's own symbols bind to ours. Private to this folder.
#pragma once

#include <onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "base/result.h"

namespace falaj::serving {

// The library and its one environment. Shared by every session; the last one closes it.
class OnnxLibrary {
 public:
  // FJ-5005 with the path when the library is missing, too old or refuses to start. `threads` run
  // an operator of whatever session: one pool for all, which the caller of a run is one of. The
  // environment, and so the pool, is the process's: while it is open its first number counts.
  static Result<std::shared_ptr<const OnnxLibrary>> open(const std::string& path, unsigned threads);
  ~OnnxLibrary();
  OnnxLibrary(const OnnxLibrary&) = delete;
  OnnxLibrary& operator=(const OnnxLibrary&) = delete;

  const OrtApi& api() const { return *api_; }
  OrtEnv* env() const { return env_; }
  const std::string& version() const { return version_; }

  // Takes over `status`: ok for null, else its text under `id`.
  Status check(OrtStatus* status, ErrorId id) const;

 private:
  OnnxLibrary() = default;
  Status start(unsigned threads);

  void* handle_ = nullptr;  // Never closed: the library's threads and statics do not survive that.
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  std::string version_;
};

// unique_ptr for a handle of the C API.
template <class Handle>
struct OnnxDelete {
  void (*release)(Handle*) = nullptr;
  void operator()(Handle* handle) const {
    if (release != nullptr) release(handle);
  }
};
template <class Handle>
using OnnxPtr = std::unique_ptr<Handle, OnnxDelete<Handle>>;

template <class Handle>
OnnxPtr<Handle> onnx_own(Handle* handle, void (*release)(Handle*)) {
  return OnnxPtr<Handle>(handle, OnnxDelete<Handle>{release});
}

}  // namespace falaj::serving
