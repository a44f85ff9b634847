#include "app/onnx_runner.h"

#include "app/libraries.h"

namespace falaj::app {

std::unique_ptr<serving::Runtime> small_runtime() {
  return serving::lazy_runtime(
      serving::open_onnx_runtime,
      {.library = library_folder() + "/libonnxruntime.so.1", .threads = 1});
}

training::OnnxRunner runner_of(serving::Runtime& runtime) {
  struct Loaded {
    std::string model;
    std::unique_ptr<serving::Session> session;
  };
  return [&runtime, loaded = std::make_shared<Loaded>()](
             std::string_view model, std::span<const float> matrix,
             std::size_t columns) -> Result<std::vector<float>> {
    if (model != loaded->model) loaded->session = FALAJ_TRY(runtime.load_bytes(model));
    loaded->model = model;
    std::vector<float> scores;
    FALAJ_TRY(loaded->session->score(matrix, columns, scores));
    return scores;
  };
}

}  // namespace falaj::app
