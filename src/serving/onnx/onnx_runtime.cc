#include "base/mutex.h"
#include "serving/onnx/onnx_library.h"
#include "serving/onnx/onnx_session.h"
#include "serving/runtime.h"

namespace falaj::serving {
namespace {

class OnnxRuntime final : public Runtime {
 public:
  OnnxRuntime(std::shared_ptr<const OnnxLibrary> library, unsigned threads)
      : library_(std::move(library)), threads_(threads) {}

  Result<std::unique_ptr<Session>> load(const std::string& path) override {
    return OnnxSession::load(library_, {path, {}}, threads_);
  }
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    return OnnxSession::load(library_, {"", model}, threads_);
  }
  std::string version() const override { return library_->version(); }

 private:
  std::shared_ptr<const OnnxLibrary> library_;
  unsigned threads_;
};

// Tries again at each load while the library cannot be opened: it may be installed meanwhile.
class LazyOnnxRuntime final : public Runtime {
 public:
  explicit LazyOnnxRuntime(RuntimeOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<Session>> load(const std::string& path) override {
    Runtime* const runtime = FALAJ_TRY(open());
    return runtime->load(path);
  }
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    Runtime* const runtime = FALAJ_TRY(open());
    return runtime->load_bytes(model);
  }
  std::string version() const override {
    MutexLock lock(mutex_);
    return runtime_ == nullptr ? "" : runtime_->version();
  }

 private:
  Result<Runtime*> open() {
    MutexLock lock(mutex_);
    if (runtime_ == nullptr) runtime_ = FALAJ_TRY(open_onnx_runtime(options_));
    return runtime_.get();
  }

  const RuntimeOptions options_;
  mutable Mutex mutex_;
  std::unique_ptr<Runtime> runtime_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Runtime>> open_onnx_runtime(const RuntimeOptions& options) {
  std::shared_ptr<const OnnxLibrary> library = FALAJ_TRY(OnnxLibrary::open(options.library));
  return std::unique_ptr<Runtime>(
      std::make_unique<OnnxRuntime>(std::move(library), options.threads));
}

std::unique_ptr<Runtime> lazy_onnx_runtime(const RuntimeOptions& options) {
  return std::make_unique<LazyOnnxRuntime>(options);
}

}  // namespace falaj::serving
