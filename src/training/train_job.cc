// The declaration: kind TrainJob.
#include <utility>

#include "base/decode.h"
#include "training/lightgbm/params.h"
#include "training/train_jobs.h"

namespace falaj::training {
namespace {

// What is registered is proven on this many rows, always.
constexpr std::int64_t kVerifyRowsLeast = 100'000;

Status decode_resources(Fields& fields, TrainJob& job) {
  const Value value = FALAJ_TRY(fields.object("resources"));
  Fields resources(value, fields.where() + " resources");
  job.threads = FALAJ_TRY(resources.integer("threads", job.threads, 1, 256));
  job.memory_bytes_max = FALAJ_TRY(resources.bytes("memory", job.memory_bytes_max));
  job.run_time_max = FALAJ_TRY(resources.duration("time_max", job.run_time_max));
  FALAJ_TRY(resources.finish());
  constexpr std::int64_t kLeast = std::int64_t{64} << 20;
  if (job.memory_bytes_max < kLeast) {
    return Error(ErrorId::kOutOfRange, resources.where() + ": memory is under 64Mi");
  }
  if (job.run_time_max.nanos <= 0) {
    return Error(ErrorId::kOutOfRange, resources.where() + ": time_max must be over 0s");
  }
  return {};
}

Status decode_register(Fields& fields, TrainJob& job) {
  const Value value = FALAJ_TRY(fields.object("register"));
  if (value.is_null() || (value.is_object() && value.as_object().empty())) return {};
  Fields target(value, fields.where() + " register");
  job.model = FALAJ_TRY(target.required_text("model"));
  FALAJ_TRY(check_name(target.where() + " model", job.model));
  job.verify_rows =
      FALAJ_TRY(target.integer("verify_rows", job.verify_rows, kVerifyRowsLeast, 10'000'000));
  return target.finish();
}

Result<std::vector<storage::Reference>> check_train_job(const storage::Object& object) {
  const TrainJob job = FALAJ_TRY(decode_train_job(object));
  if (job.workers) return std::vector<storage::Reference>{};
  return std::vector<storage::Reference>{{"TrainingSet", object.project, job.training_set}};
}

// A command has no training set, and what its workers may use stands in `workers`.
Status decode_command(Fields& fields, TrainJob& job) {
  const Value params = FALAJ_TRY(fields.object("params"));
  job.params = params.is_object() ? params : Value::object();
  const Value value = FALAJ_TRY(fields.object("resources"));
  Fields resources(value, fields.where() + " resources");
  const Duration time_max = FALAJ_TRY(resources.duration("time_max", Duration{}));
  FALAJ_TRY(resources.finish());
  if (time_max.nanos < 0) {
    return Error(ErrorId::kOutOfRange, resources.where() + ": time_max must not be negative");
  }
  job.workers = FALAJ_TRY(decode_worker_plan(fields, time_max));
  FALAJ_TRY(fields.text("purpose"));  // Compared with the project's by the catalog.
  return {};
}

}  // namespace

Result<TrainJob> decode_train_job(const storage::Object& object) {
  Fields fields(object.spec, "TrainJob " + object.name + " spec");
  TrainJob job;
  job.name = object.name;
  job.engine = FALAJ_TRY(fields.choice("engine", {"lightgbm", "command"}));
  if (job.engine == "command") {
    FALAJ_TRY(decode_command(fields, job));
    FALAJ_TRY(fields.finish());
    return job;
  }
  const Value data = FALAJ_TRY(fields.object("data"));
  Fields source(data, fields.where() + " data");
  job.training_set = FALAJ_TRY(source.required_text("training_set"));
  FALAJ_TRY(source.finish());
  job.params = FALAJ_TRY(fields.object("params"));
  FALAJ_TRY(lightgbm::params_from_value(job.params));
  FALAJ_TRY(decode_resources(fields, job));
  FALAJ_TRY(decode_register(fields, job));
  FALAJ_TRY(fields.text("purpose"));  // Compared with the project's by the catalog.
  FALAJ_TRY(fields.finish());
  return job;
}

std::vector<storage::KindInfo> kinds() {
  return {{"TrainJob", storage::Scope::kProject,
           "How a model is trained from a training set, and under which name it is registered.",
           check_train_job}};
}

}  // namespace falaj::training
