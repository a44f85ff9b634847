#include "app/isolate.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "app/libraries.h"
#include "app/report.h"
#include "exec/dumps.h"
#include "exec/sandbox.h"
#include "serving/isolated/isolated_runtime.h"
#include "serving/isolated/model_process.h"
#include "serving/plugin/plugin_runtime.h"
#include "serving/trees/trees_runtime.h"

namespace falaj::app {
namespace {

constexpr const char* kLibrary = "FALAJ_MODEL_LIBRARY";  // Of serving.runtimes; "": ONNX Runtime.
constexpr const char* kThreads = "FALAJ_MODEL_THREADS";
constexpr std::int64_t kProcessesMax = 256;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// What the process is started with, beside its lanes.
struct Start {
  std::string library;
  unsigned threads = 1;
  std::int64_t memory_bytes_max = 0;
};

exec::ChildSpec process_of(const Start& start, unsigned lanes) {
  exec::ChildSpec spec;
  spec.argv = {program_path(), "engine", "model", std::to_string(lanes)};
  spec.env = {{"LC_ALL", "C.UTF-8"},
              {"PATH", "/usr/bin:/bin"},
              {"FALAJ_LIBRARY_DIR", library_folder()},
              {"GOMP_SPINCOUNT", "0"},
              {kLibrary, start.library},
              {kThreads, std::to_string(start.threads)}};
#if defined(__SANITIZE_ADDRESS__)
  // At its end the leak check traces its own process, which the sandbox refuses.
  spec.env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
#endif
  spec.work_dir = "/";
  spec.sandbox.enabled = true;
  spec.sandbox.read_only = {library_folder()};
  if (!start.library.empty()) spec.sandbox.read_only.push_back(folder_of(start.library));
  spec.sandbox.required = exec::full_confinement();
  spec.limits.memory_bytes_max = start.memory_bytes_max;
  spec.limits.processes_max = kProcessesMax;
  return spec;
}

serving::IsolationOptions isolation_of(const Options& options, unsigned threads,
                                       const std::string& name, const std::string& library) {
  serving::IsolationOptions out;
  const Start start{library, threads, options.isolated_memory};
  out.process = [start](unsigned lanes) { return process_of(start, lanes); };
  out.version = name + " in processes of its own";
  out.answer_max = options.isolated_answer;
  out.lanes = std::max(2U, std::thread::hardware_concurrency());
  return out;
}

std::string from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : text;
}

}  // namespace

void offer_isolated(serving::Deployments& deployments, const Options& options, unsigned threads,
                    telemetry::Metrics& metrics) {
  deployments.offer("isolated", serving::isolated_runtime(
                                    isolation_of(options, threads, "ONNX Runtime", ""), metrics));
  for (const auto& [name, library] : options.runtimes) {
    deployments.offer(
        "isolated-" + name,
        serving::isolated_runtime(isolation_of(options, threads, name, library), metrics));
  }
}

int run_model_engine(const std::string& lanes) {
  exec::forbid_memory_dumps();
  const std::string library = from_environment(kLibrary);
  const auto threads =
      static_cast<unsigned>(std::strtoul(from_environment(kThreads).c_str(), nullptr, 10));
  telemetry::Metrics metrics;  // Nobody reads them; the server counts for itself.
  std::unique_ptr<serving::Runtime> runtime =
      library.empty()
          ? serving::with_own_trees(
                serving::lazy_runtime(
                    serving::open_onnx_runtime,
                    {.library = library_folder() + "/libonnxruntime.so.1", .threads = threads}),
                threads, metrics)
          : serving::lazy_runtime(serving::open_plugin_runtime,
                                  {.library = library, .threads = threads});
  const Status ran = serving::isolated::run_model_process(
      *runtime, static_cast<unsigned>(std::strtoul(lanes.c_str(), nullptr, 10)), report_to_server);
  if (ran.ok()) return 0;
  std::fprintf(stderr, "falaj engine: %s\n", ran.error().message.c_str());
  return 1;
}

}  // namespace falaj::app
