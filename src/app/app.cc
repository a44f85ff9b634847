#include "app/app.h"

#include "app/backup.h"
#include "app/doctor.h"
#include "app/engine.h"
#include "app/inspect.h"
#include "app/isolate.h"
#include "app/optimize.h"
#include "app/reference.h"
#include "app/serve.h"
#include "cli/cli.h"

namespace falaj::app {

int run(int argc, char** argv) {
  cli::Hooks hooks;
  hooks.serve = serve;
  hooks.check_start = check_start;
  hooks.start_local = start_local;
  hooks.train_engine = run_train_engine;
  hooks.inspect_engine = run_inspect_engine;
  hooks.model_engine = run_model_engine;
  hooks.sign_engine = run_sign_engine;
  hooks.warden_engine = run_warden_engine;
  hooks.unpack_engine = run_unpack_engine;
  hooks.image_engine = run_image_engine;
  hooks.cosign_drops = cosign_drops;
  hooks.doctor = doctor;
  hooks.doctor_libraries = doctor_libraries;
  hooks.verify_offline = verify_offline;
  hooks.back_up = [](const config::Settings& settings, const std::string& out,
                     const std::string& zone) -> Result<Value> {
    BackupOptions options;
    options.server = FALAJ_TRY(options_of(cli::ServerMode::kProduction, settings));
    options.out = out;
    options.zone = zone;
    return back_up(options, SystemClock());
  };
  hooks.optimize = optimize;
  hooks.reference = reference_page;
  hooks.version = version_text();
  hooks.build = build_text();
  return cli::run(argc, argv, hooks);
}

}  // namespace falaj::app
