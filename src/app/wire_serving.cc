#include "app/inspect.h"
#include "app/isolate.h"
#include "app/libraries.h"
#include "app/wiring.h"
#include "monitoring/openlineage.h"
#include "net/client.h"
#include "serving/budget/machine.h"
#include "serving/plugin/plugin_runtime.h"
#include "serving/trees/trees_runtime.h"

namespace falaj::app {
namespace {

// To addresses that a declaration names: https, public addresses, no redirects, short limits.
Result<int> post_outside(const std::string& url, const std::string& body) {
  const std::size_t path = url.find('/', std::string_view("https://").size());
  net::ClientOptions options;
  options.base_url = url.substr(0, path);
  options.request_timeout = Duration::seconds(10);
  options.reply_bytes_max = 64 << 10;
  options.reach = net::Reach::kPublicOnly;
  const std::unique_ptr<net::Client> client = FALAJ_TRY(net::Client::create(options));
  const std::string target = path == std::string::npos ? "/" : url.substr(path);
  const char* type =
      monitoring::is_run_event(body) ? "application/json" : "application/cloudevents+json";
  const net::ClientReply reply = FALAJ_TRY(client->send(net::Method::kPost, target, body, type));
  return reply.status;
}

}  // namespace

Result<Serving> wire_serving(const Options& options, Storage& storage, Features& features,
                             Training& training, telemetry::Metrics& metrics, const Clock& clock) {
  Serving parts;
  const serving::budget::Machine machine = serving::budget::this_machine();
  const unsigned threads =
      options.serving_threads == 0 ? machine.processors : options.serving_threads;
  auto onnx_runtime = serving::lazy_runtime(
      serving::open_onnx_runtime,
      {.library = library_folder() + "/libonnxruntime.so.1", .threads = threads});
  parts.runtime = serving::with_own_trees(std::move(onnx_runtime), threads, metrics);
  parts.sink = std::make_unique<serving::PredictionSink>(options.prediction_capacity);
  parts.recordings =
      std::make_unique<serving::rollout::Recordings>(*storage.sql, *storage.blobs, clock);
  parts.deployments = std::make_unique<serving::Deployments>(
      *storage.sql, *training.models, *features.online, *parts.runtime, *parts.sink, *storage.audit,
      metrics, clock);
  const std::int64_t memory =
      options.serving_memory == 0 ? machine.memory / 2 : options.serving_memory;
  parts.deployments->limit(
      {machine.processors, {memory, [] { return serving::budget::available_memory(); }, nullptr}});
  parts.deployments->record_into(*parts.recordings);
  for (const auto& [name, library] : options.runtimes) {
    parts.deployments->offer(name, serving::lazy_runtime(serving::open_plugin_runtime,
                                                         {.library = library, .threads = threads}));
  }
  offer_isolated(*parts.deployments, options, threads, metrics);
  parts.rollouts = std::make_unique<serving::rollout::Rollouts>(
      *storage.sql, *training.models, *parts.deployments, *parts.recordings, *storage.audit, clock);
  parts.model_import = std::make_unique<serving::ModelImport>(
      *training.models, *storage.blobs, inspect_model, version_text() + "+" + build_text());
  parts.monitors = std::make_unique<monitoring::Monitors>(
      *storage.sql, *storage.blobs, *training.models, *features.training_sets, *parts.sink,
      *storage.audit, metrics, clock);
  parts.webhooks = std::make_unique<monitoring::Webhooks>(
      *storage.sql,
      [monitors = parts.monitors.get()](const ProjectName& project) {
        return monitors->alarms(project);
      },
      *storage.exits, *storage.audit, clock, post_outside);
  parts.loop = std::make_unique<loop::Controller>(
      *storage.sql, *storage.blobs, *features.training_sets, *training.trainer, *training.runs,
      *training.models, *parts.deployments, *parts.runtime, *parts.monitors, *storage.audit, clock);
  return parts;
}

}  // namespace falaj::app
