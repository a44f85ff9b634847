#include "app/engine.h"

#include <unistd.h>

#include <cstdio>

#include "app/libraries.h"
#include "app/stores.h"
#include "base/json.h"
#include "exec/dumps.h"
#include "serving/runtime.h"
#include "training/engine_process.h"

namespace falaj::app {
namespace {

constexpr int kReportDescriptor = 3;

void report(const Value& value) {
  const std::string line = to_json(value) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = write(kReportDescriptor, line.data() + sent, line.size() - sent);
    if (n <= 0) return;  // The server has gone; it kills this process next.
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace

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
  const Status status = training::run_engine_process(open_grant, runner, report);
  if (status.ok()) return 0;
  Value failure;
  failure["error"] = status.error().message;
  failure["code"] = to_string(status.error().id);
  report(failure);
  std::fprintf(stderr, "falaj engine: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace falaj::app
