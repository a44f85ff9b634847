#include "app/inspect.h"

#include "app/libraries.h"
#include "app/report.h"
#include "base/byte_stream.h"
#include "base/json.h"
#include "base/log.h"
#include "exec/child.h"
#include "exec/memory_file.h"
#include "exec/sandbox.h"
#include "security/signing/model_format.h"
#include "serving/datatypes.h"
#include "serving/model_import.h"
#include "serving/runtime.h"

namespace falaj::app {
namespace {

constexpr int kModelDescriptor = 4;
constexpr std::int64_t kMemoryMax = std::int64_t{2} << 30;
constexpr std::int64_t kProcessesMax = 16;

exec::ChildSpec inspection(std::shared_ptr<const Descriptor> model) {
  exec::ChildSpec spec;
  spec.argv = {program_path(), "engine", "inspect"};
  spec.env = {
      {"LC_ALL", "C.UTF-8"}, {"PATH", "/usr/bin:/bin"}, {"FALAJ_LIBRARY_DIR", library_folder()}};
#if defined(__SANITIZE_ADDRESS__)
  // At its end the leak check traces its own process, which the sandbox refuses.
  spec.env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
#endif
  spec.work_dir = "/";
  spec.inherited.push_back({kModelDescriptor, std::move(model)});
  spec.sandbox.enabled = true;
  spec.sandbox.read_only = {library_folder()};
  spec.sandbox.required = exec::full_confinement();
  spec.limits.memory_bytes_max = kMemoryMax;
  spec.limits.processes_max = kProcessesMax;
  spec.limits.run_time_max = Duration::minutes(1);
  spec.limits.file_bytes_max = 1;
  return spec;
}

// One row of zeros through the whole graph: what it allocates, it allocates here.
Status try_once(const serving::Session& session) {
  std::vector<serving::Tensor> inputs;
  for (const registry::TensorSpec& each : session.signature().inputs) {
    serving::Tensor tensor;
    tensor.name = each.name;
    tensor.datatype = each.datatype;
    for (const std::int64_t dim : each.shape) tensor.shape.push_back(dim < 0 ? 1 : dim);
    const auto type = FALAJ_TRY(serving::parse_datatype(each.datatype));
    const std::size_t count = FALAJ_TRY(serving::element_count(tensor.shape));
    tensor.bytes.assign(count * serving::element_bytes(type), '\0');
    inputs.push_back(std::move(tensor));
  }
  FALAJ_TRY(session.run(inputs));
  return {};
}

Result<Value> inspected() {
  const auto reader = FALAJ_TRY(open_descriptor(Descriptor(kModelDescriptor)));
  const std::string bytes = FALAJ_TRY(read_whole(*reader, serving::kImportBytesMax));
  FALAJ_TRY(security::recognise_model(bytes));
  const auto runtime = serving::lazy_onnx_runtime(
      {.library = library_folder() + "/libonnxruntime.so.1", .threads = 1});
  const auto session = FALAJ_TRY(runtime->load_bytes(bytes));
  FALAJ_TRY(try_once(*session));
  return registry::to_value(session->signature());
}

Error refused(const std::string& why) {
  return Error{ErrorId::kModelFormatRefused, "the model could not be opened safely: " + why};
}

}  // namespace

Result<registry::Signature> inspect_model(std::string_view onnx) {
  Descriptor model = FALAJ_TRY(exec::make_sealed_memory_file("model", onnx));
  exec::ChildSpec spec = inspection(std::make_shared<const Descriptor>(std::move(model)));
  Value said;
  spec.on_line = [&](std::string_view line) {
    if (Result<Value> value = parse_json(line); value.ok()) said = *std::move(value);
  };
  auto child = exec::Child::start(std::move(spec));
  if (!child.ok()) {
    return Error{ErrorId::kSandboxUnavailable,
                 "the model cannot be looked at: " + child.error().message};
  }
  const exec::ChildExit end = (*child)->wait();
  switch (end.reason) {
    case exec::ExitReason::kOutOfMemory:
      return refused("it needs more than 2 GiB for one row");
    case exec::ExitReason::kTimedOut:
      return refused("it takes more than a minute for one row");
    case exec::ExitReason::kExited:
      break;
    case exec::ExitReason::kSignalled:
    case exec::ExitReason::kStopped:
      return refused("the process that opened it died of signal " + std::to_string(end.code));
  }
  if (end.code != 0 || !said["signature"].is_object()) {
    if (said.text("code") == to_string(ErrorId::kModelFormatRefused)) {
      return Error{ErrorId::kModelFormatRefused, said.text("error")};
    }
    // The runtime's own words are about its inside: for the log, not for who sent the file.
    log::warn("model refused by the runtime", {{"why", said.text("error")}});
    return refused("the runtime could not load it or run one row through it");
  }
  return registry::signature_from_value(said["signature"]);
}

int run_inspect_engine() {
  const Result<Value> signature = inspected();
  Value answer;
  if (signature.ok()) {
    answer["signature"] = *signature;
  } else {
    answer["error"] = signature.error().message;
    answer["code"] = to_string(signature.error().id);
  }
  report_to_server(answer);
  return signature.ok() ? 0 : 1;
}

}  // namespace falaj::app
