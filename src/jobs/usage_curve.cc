#include "jobs/usage_curve.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "jobs/internal/local_queue.h"

namespace falaj::jobs {
namespace {

// Of shorter ones there is hardly a sample: asking would cost more than it tells.
constexpr Duration kWorthAsking = Duration::seconds(1);

double thousandths(double value) { return std::round(value * 1000) / 1000; }

// Only where something is known: most jobs have no GPU, and not every driver tells.
void add_gpus(const UsageCurve& curve, Value& out) {
  Value gpus = Value::array();
  Value memory = Value::array();
  bool busy_known = false;
  bool memory_known = false;
  for (const exec::WardUsage& sample : curve) {
    const bool busy = sample.gpu_milli >= 0;
    const bool held = sample.gpu_memory_bytes >= 0;
    gpus.push(busy ? Value(static_cast<double>(sample.gpu_milli) / 1000) : Value());
    memory.push(held ? Value(sample.gpu_memory_bytes) : Value());
    busy_known = busy_known || busy;
    memory_known = memory_known || held;
  }
  if (busy_known) out["gpus"] = std::move(gpus);
  if (memory_known) out["gpu_memory_bytes"] = std::move(memory);
}

}  // namespace

Value to_value(const UsageCurve& curve) {
  Value out;
  for (const char* column : {"at_seconds", "cpus", "memory_bytes", "read_bytes", "written_bytes"}) {
    out[column] = Value::array();
  }
  exec::WardUsage before;
  for (const exec::WardUsage& sample : curve) {
    const double seconds = (sample.at - before.at).as_seconds();
    const double used = (sample.cpu_time - before.cpu_time).as_seconds();
    out["at_seconds"].push(thousandths(sample.at.as_seconds()));
    out["cpus"].push(seconds > 0 ? thousandths(std::max(0.0, used / seconds)) : 0.0);
    out["memory_bytes"].push(sample.memory_bytes);
    out["read_bytes"].push(sample.read_bytes);
    out["written_bytes"].push(sample.written_bytes);
    before = sample;
  }
  add_gpus(curve, out);
  return out;
}

namespace internal {

// For people: the job's end does not depend on it. Before the executor forgets the attempt.
void LocalQueue::keep_curve(const Job& job, const AttemptEnd& end) {
  if (end.run_time < kWorthAsking) return;
  const AttemptId id{job.id, job.epoch};
  const auto curve = executor_->curve(id);
  if (!curve.ok() || curve->empty()) return;
  note(store_.keep_curve(id, to_value(*curve)), job);
}

Result<Value> LocalQueue::curve(const JobId& id) const {
  const Job job = FALAJ_TRY(store_.get(id));
  const AttemptId attempt{id, job.epoch};
  Value out;
  if (job.status == JobStatus::kRunning && runs_command(job)) {
    const auto live = executor_->curve(attempt);
    if (live.ok()) out = to_value(*live);
  } else if (job.epoch > 0) {
    out = FALAJ_TRY(store_.curve(attempt));
  }
  if (out.is_null()) out = to_value(UsageCurve{});
  out["job"] = id.str();
  out["attempt"] = job.epoch;
  out["status"] = status_name(job.status);
  out["cpus_max"] = static_cast<double>(job.spec.request.resources.cpu_milli) / 1000;
  out["memory_max"] = job.spec.request.resources.memory_bytes;
  if (const std::int64_t gpus = job.spec.request.resources.gpus; gpus > 0) out["gpus_max"] = gpus;
  return out;
}

}  // namespace internal
}  // namespace falaj::jobs
