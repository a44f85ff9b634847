#include "app/inspect.h"

#include <fcntl.h>

#include "app/libraries.h"
#include "app/onnx_runner.h"
#include "app/report.h"
#include "base/byte_stream.h"
#include "base/json.h"
#include "base/log.h"
#include "exec/child.h"
#include "exec/memory_file.h"
#include "exec/sandbox.h"
#include "security/signing/model_format.h"
#include "serving/datatypes.h"
#include "serving/runtime.h"
#include "training/convert.h"

namespace falaj::app {
namespace {

constexpr int kModelDescriptor = 4;
constexpr int kTurnedDescriptor = 5;  // Where the process puts the ONNX that it made.
constexpr std::int64_t kMemoryMax = std::int64_t{2} << 30;
constexpr std::int64_t kProcessesMax = 16;

// A converted model is of the size of the original.
constexpr std::int64_t kTurnedBytesMax = 2 * serving::kImportBytesMax;

exec::ChildSpec inspection(std::shared_ptr<const Descriptor> model,
                           std::shared_ptr<const Descriptor> turned) {
  exec::ChildSpec spec;
  spec.argv = {program_path(), "engine", "inspect"};
  spec.env = {{"LC_ALL", "C.UTF-8"},
              {"PATH", "/usr/bin:/bin"},
              {"FALAJ_LIBRARY_DIR", library_folder()},
              {"GOMP_SPINCOUNT", "0"},
              {"OMP_NUM_THREADS", "1"}};
#if defined(__SANITIZE_ADDRESS__)
  // At its end the leak check traces its own process, which the sandbox refuses.
  spec.env.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
#endif
  spec.work_dir = "/";
  spec.inherited.push_back({kModelDescriptor, std::move(model)});
  spec.inherited.push_back({kTurnedDescriptor, std::move(turned)});
  spec.sandbox.enabled = true;
  spec.sandbox.read_only = {library_folder()};
  spec.sandbox.required = exec::parser_confinement();
  spec.limits.memory_bytes_max = kMemoryMax;
  spec.limits.processes_max = kProcessesMax;
  spec.limits.run_time_max = Duration::minutes(5);
  spec.limits.file_bytes_max = kTurnedBytesMax;  // Only of the memory file: there is no other.
  return spec;
}

// One row of zeros, or of empty texts, through the whole graph: what it allocates, it allocates
// here.
Status try_once(const serving::Session& session) {
  std::vector<serving::Tensor> inputs;
  for (const registry::TensorSpec& each : session.signature().inputs) {
    serving::Tensor tensor;
    tensor.name = each.name;
    tensor.datatype = each.datatype;
    for (const std::int64_t dim : each.shape) tensor.shape.push_back(dim < 0 ? 1 : dim);
    const auto type = FALAJ_TRY(serving::parse_datatype(each.datatype));
    const std::size_t count = FALAJ_TRY(serving::element_count(tensor.shape));
    // A text of length 0 is packed as its length.
    const std::size_t size =
        type == serving::Datatype::kBytes ? sizeof(std::uint32_t) : serving::element_bytes(type);
    tensor.bytes.assign(count * size, '\0');
    inputs.push_back(std::move(tensor));
  }
  FALAJ_TRY(session.run(inputs));
  return {};
}

// Our own words about the model are for who sent it; those of the libraries are for the log.
Error about_the_model(Error error) {
  const bool ours = error.code == Code::kUnimplemented || error.id == ErrorId::kModelCorrupt ||
                    error.id == ErrorId::kOnnxMismatch;
  return ours ? Error{ErrorId::kModelFormatRefused, error.message} : std::move(error);
}

Result<Value> inspected() {
  const auto reader = FALAJ_TRY(open_descriptor(Descriptor(kModelDescriptor)));
  std::string bytes = FALAJ_TRY(read_whole(*reader, serving::kImportBytesMax));
  const security::ModelFormat format = FALAJ_TRY(security::recognise_model(bytes));
  const auto runtime = small_runtime();
  Value answer;
  if (format != security::ModelFormat::kOnnx) {
    const auto saved = format == security::ModelFormat::kLightGbmText
                           ? training::Saved::kLightGbmText
                           : training::Saved::kXgboostJson;
    const training::OnnxRunner runner = runner_of(*runtime);
    Result<training::Converted> made =
        training::convert_saved({bytes, saved, library_folder(), runner});
    if (!made.ok()) return about_the_model(made.error());
    answer["proof"] = made->proof;
    bytes = std::move(made->onnx);
    FALAJ_TRY(exec::write_memory_file(kTurnedDescriptor, bytes));
  }
  const auto session = FALAJ_TRY(runtime->load_bytes(bytes));
  FALAJ_TRY(try_once(*session));
  answer["signature"] = registry::to_value(session->signature());
  return answer;
}

Result<std::string> read_turned(const std::shared_ptr<const Descriptor>& file) {
  Descriptor copy(::fcntl(file->get(), F_DUPFD_CLOEXEC, 3));
  const auto reader = FALAJ_TRY(open_descriptor(std::move(copy)));
  return read_whole(*reader, kTurnedBytesMax);
}

Error refused(const std::string& why) {
  return Error{ErrorId::kModelFormatRefused, "the model could not be opened safely: " + why};
}

}  // namespace

Result<serving::Inspected> inspect_model(std::string_view model) {
  Descriptor sent = FALAJ_TRY(exec::make_sealed_memory_file("model", model));
  Descriptor made = FALAJ_TRY(exec::make_memory_file("turned"));
  const auto turned = std::make_shared<const Descriptor>(std::move(made));
  exec::ChildSpec spec = inspection(std::make_shared<const Descriptor>(std::move(sent)), turned);
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
      return refused("it takes more than five minutes");
    case exec::ExitReason::kExited:
      break;
    case exec::ExitReason::kSignalled:
    case exec::ExitReason::kStopped:
    case exec::ExitReason::kOutOfDisk:
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
  serving::Inspected out;
  out.signature = FALAJ_TRY(registry::signature_from_value(said["signature"]));
  out.proof = said["proof"];
  out.onnx = FALAJ_TRY(read_turned(turned));
  return out;
}

int run_inspect_engine() {
  Result<Value> made = inspected();
  if (made.ok()) {
    report_to_server(*made);
    return 0;
  }
  Value failure;
  failure["error"] = made.error().message;
  failure["code"] = to_string(made.error().id);
  report_to_server(failure);
  return 1;
}

}  // namespace falaj::app
