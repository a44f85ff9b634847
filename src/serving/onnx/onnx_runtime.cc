#include "serving/onnx/onnx_library.h"
#include "serving/onnx/onnx_session.h"
#include "serving/runtime.h"

namespace falaj::serving {
namespace {

class OnnxRuntime final : public Runtime {
 public:
  OnnxRuntime(std::shared_ptr<const OnnxLibrary> library, unsigned threads)
      : library_(std::move(library)), threads_(threads) {}

  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    return OnnxSession::load(library_, model, threads_);
  }
  std::string version() const override { return library_->version(); }

 private:
  std::shared_ptr<const OnnxLibrary> library_;
  unsigned threads_;
};

}  // namespace

Result<std::unique_ptr<Runtime>> open_onnx_runtime(const RuntimeOptions& options) {
  std::shared_ptr<const OnnxLibrary> library =
      FALAJ_TRY(OnnxLibrary::open(options.library, options.threads));
  return std::unique_ptr<Runtime>(
      std::make_unique<OnnxRuntime>(std::move(library), options.threads));
}

}  // namespace falaj::serving
