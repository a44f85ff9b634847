#include "app/engine.h"

#include <cstdio>

#include "app/onnx_runner.h"
#include "app/report.h"
#include "app/stores.h"
#include "exec/dumps.h"
#include "exec/warden.h"
#include "jobs/oci/bundle.h"
#include "jobs/oci/unpack.h"
#include "security/audit/child_signer.h"
#include "training/engine_process.h"

namespace falaj::app {
int run_sign_engine(const std::string& folder) {
  return security::run_signer(kServerChannel, folder);
}

int run_warden_engine(const std::string& folder) {
  exec::WardenOptions options;
  options.folder = folder;
  return exec::run_warden(options);
}

int run_unpack_engine(const std::string& layout, const std::string& digest,
                      const std::string& folder) {
  const auto unpack = [&]() -> Status {
    const jobs::oci::Image image = FALAJ_TRY(jobs::oci::read_image(layout, digest));
    FALAJ_TRY(jobs::oci::unpack_image(layout, image, folder));
    return {};
  };
  const Status status = unpack();
  if (status.ok()) return 0;
  std::fprintf(stderr, "falaj: %s\n", status.error().message.c_str());
  return 1;
}

int run_image_engine(const std::string& folder) { return jobs::oci::run_bundle(folder); }

int run_train_engine() {
  exec::forbid_memory_dumps();
  const auto runtime = small_runtime();
  const Status status =
      training::run_engine_process(open_grant, runner_of(*runtime), report_to_server);
  if (status.ok()) return 0;
  Value failure;
  failure["error"] = status.error().message;
  failure["code"] = to_string(status.error().id);
  report_to_server(failure);
  std::fprintf(stderr, "falaj engine: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace falaj::app
