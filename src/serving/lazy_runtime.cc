#include "base/mutex.h"
#include "serving/runtime.h"

namespace falaj::serving {
namespace {

class LazyRuntime final : public Runtime {
 public:
  LazyRuntime(OpenRuntime open, RuntimeOptions options)
      : open_(open), options_(std::move(options)) {}

  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    Runtime* const runtime = FALAJ_TRY(opened());
    return runtime->load_bytes(model);
  }
  std::string version() const override {
    MutexLock lock(mutex_);
    return runtime_ == nullptr ? "" : runtime_->version();
  }

 private:
  Result<Runtime*> opened() {
    MutexLock lock(mutex_);
    if (runtime_ == nullptr) runtime_ = FALAJ_TRY(open_(options_));
    return runtime_.get();
  }

  const OpenRuntime open_;
  const RuntimeOptions options_;
  mutable Mutex mutex_;
  std::unique_ptr<Runtime> runtime_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Runtime> lazy_runtime(OpenRuntime open, const RuntimeOptions& options) {
  return std::make_unique<LazyRuntime>(open, options);
}

}  // namespace falaj::serving
