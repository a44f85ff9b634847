#include "app/engine.h"

#include <cstdio>

#include "app/libraries.h"
#include "app/report.h"
#include "app/stores.h"
#include "exec/dumps.h"
#include "security/audit/child_signer.h"
#include "serving/runtime.h"
#include "training/engine_process.h"

namespace falaj::app {
int run_sign_engine(const std::string& folder) {
  return security::run_signer(kServerChannel, folder);
}

int run_train_engine() {
  exec::forbid_memory_dumps();
  const auto runtime = serving::lazy_onnx_runtime(
      {.library = library_folder() + "/libonnxruntime.so.1", .threads = 1});
  // The proof asks for one model many times, a slice of rows each: it is loaded once.
  std::string loaded;
  std::unique_ptr<serving::Session> session;
  const training::OnnxRunner runner = [&](std::string_view model, std::span<const float> matrix,
                                          std::size_t columns) -> Result<std::vector<float>> {
    if (model != loaded) session = FALAJ_TRY(runtime->load_bytes(model));
    loaded = model;
    std::vector<float> scores;
    FALAJ_TRY(session->score(matrix, columns, scores));
    return scores;
  };
  const Status status = training::run_engine_process(open_grant, runner, report_to_server);
  if (status.ok()) return 0;
  Value failure;
  failure["error"] = status.error().message;
  failure["code"] = to_string(status.error().id);
  report_to_server(failure);
  std::fprintf(stderr, "falaj engine: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace falaj::app
