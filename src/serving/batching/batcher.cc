#include "serving/batching/batcher.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "serving/datatypes.h"
#include "serving/tensor_rows.h"

namespace falaj::serving::batching {
namespace {

std::size_t rows_of(const Tensor& tensor) {
  return tensor.shape.empty() || tensor.shape[0] < 0 ? 0
                                                     : static_cast<std::size_t>(tensor.shape[0]);
}

bool has_open_rows(const std::vector<registry::TensorSpec>& specs) {
  return !specs.empty() && std::all_of(specs.begin(), specs.end(), [](const auto& spec) {
    return !spec.shape.empty() && spec.shape[0] < 0 && spec.datatype != "BYTES";
  });
}

// What must be alike in requests that run together. 0: it runs alone.
std::uint64_t shape_of(const std::vector<Tensor>& inputs) {
  if (inputs.empty()) return 0;
  const std::size_t rows = rows_of(inputs[0]);
  std::uint64_t hash = 14'695'981'039'346'656'037u;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1'099'511'628'211u; };
  for (const Tensor& tensor : inputs) {
    if (tensor.shape.empty() || rows == 0 || rows_of(tensor) != rows) return 0;
    for (const char c : tensor.name) mix(static_cast<std::uint8_t>(c));
    mix(tensor.shape.size());
    for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
      mix(static_cast<std::uint64_t>(tensor.shape[i]));
    }
  }
  return hash | 1;
}

// The inputs of all jobs, one after the other.
std::vector<Tensor> joined(const std::vector<std::unique_ptr<Job>>& jobs) {
  std::vector<Tensor> together;
  for (std::size_t i = 0; i < jobs[0]->inputs.size(); ++i) {
    const Tensor& first = jobs[0]->inputs[i];
    Tensor tensor{first.name, first.datatype, first.shape, {}};
    std::size_t bytes = 0;
    tensor.shape[0] = 0;
    for (const auto& job : jobs) {
      bytes += job->inputs[i].bytes.size();
      tensor.shape[0] += job->inputs[i].shape[0];
    }
    tensor.bytes.reserve(bytes);
    for (const auto& job : jobs) tensor.bytes += job->inputs[i].bytes;
    together.push_back(std::move(tensor));
  }
  return together;
}

Result<std::vector<Tensor>> part_of(const std::vector<Tensor>& outputs, std::size_t first,
                                    std::size_t rows) {
  std::vector<Tensor> part;
  for (const Tensor& output : outputs) part.push_back(FALAJ_TRY(take_rows(output, first, rows)));
  return part;
}

bool are_rows_of(const std::vector<Tensor>& outputs, std::size_t rows) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](const Tensor& output) { return rows_of(output) == rows; });
}

Error refused(const Admission& admission) {
  const std::string wait = std::to_string(admission.wait.nanos / 1'000'000) + " ms";
  return Error(ErrorId::kOverloaded,
               admission.verdict == Admission::Verdict::kFull
                   ? std::string("Exceeds maximum queue size: too many requests wait")
                   : "Request timeout expired: it would wait about " + wait);
}

}  // namespace

Batcher::Batcher(std::shared_ptr<const Session> session, BatcherOptions options)
    : session_(std::move(session)), options_(std::move(options)) {}

std::size_t Batcher::waiting() const {
  MutexLock lock(mutex_);
  return waiting_.size();
}

void Batcher::submit(Job submitted) {
  auto job = std::make_unique<Job>(std::move(submitted));
  job->order.rows = job->inputs.empty() ? 1 : std::max<std::size_t>(rows_of(job->inputs[0]), 1);
  job->order.shape = options_.rows_max > 1 ? shape_of(job->inputs) : 0;
  Admission admission;
  {
    MutexLock lock(mutex_);
    const std::int64_t now = options_.now();
    job->order.arrived = now;
    if (running_ >= options_.runners) {
      admission = admit(job->order, {line_, options_.runners, free_at_}, times_, now);
      if (admission.verdict == Admission::Verdict::kWait) {
        line_.push_back(job->order);
        waiting_.push_back(std::move(job));
        return;
      }
    } else {
      ++running_;
      free_at_ = now + times_.expect(job->order.rows).nanos;
    }
  }
  if (admission.verdict != Admission::Verdict::kWait) {
    return job->done({refused(admission), 0}, job->inputs);
  }
  run_until_idle(std::move(job));
}

// Those that are too late are told after the batch that was taken with them has run: telling may
// take as long as another model's answer (deployments_fallback.cc), and the batch is in time still.
void Batcher::run_until_idle(std::unique_ptr<Job> first) {
  Jobs jobs;
  Jobs late;
  jobs.push_back(std::move(first));
  while (!jobs.empty()) {
    run(jobs);
    drop(late);
    late.clear();
    MutexLock lock(mutex_);
    jobs = take_next(late);
    if (jobs.empty()) --running_;
  }
  drop(late);
}

void Batcher::take(std::size_t i, Jobs& into) { into.push_back(std::move(waiting_[i])); }

// Those that were taken leave no gap.
void Batcher::close_ranks() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i] == nullptr) continue;
    if (kept != i) {
      waiting_[kept] = std::move(waiting_[i]);
      line_[kept] = line_[i];
    }
    ++kept;
  }
  waiting_.resize(kept);
  line_.resize(kept);
}

// What runs next leaves the line; so does what is late, or whose caller has left.
Batcher::Jobs Batcher::take_next(Jobs& dropped) {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const auto& gone = waiting_[i]->gone;
    if (gone != nullptr && gone->load(std::memory_order_relaxed)) take(i, dropped);
  }
  if (!dropped.empty()) close_ranks();
  if (waiting_.empty()) return {};
  const std::int64_t now = options_.now();
  const Batch batch = next_batch(line_, times_, options_.rows_max, now);
  Jobs jobs;
  std::size_t rows = 0;
  for (const std::size_t i : batch.run) {
    rows += line_[i].rows;
    take(i, jobs);
  }
  for (const std::size_t i : batch.late) take(i, dropped);
  close_ranks();
  free_at_ = now + times_.expect(rows).nanos;
  return jobs;
}

void Batcher::drop(const Jobs& jobs) {
  for (const auto& job : jobs) {
    const bool left = job->gone != nullptr && job->gone->load(std::memory_order_relaxed);
    Error why = left ? Error(Code::kCancelled, "the caller has left")
                     : Error(ErrorId::kOverloaded, "Request timeout expired: it waited too long");
    job->done({std::move(why), 0}, job->inputs);
  }
}

Duration Batcher::run_alone(const Job& job) const {
  const std::int64_t begun = options_.now();
  Result<std::vector<Tensor>> outputs = session_->run(job.inputs);
  const Duration took{options_.now() - begun};
  PhaseTimes times;
  times[Phase::kQueue] = begun - job.order.arrived;
  times[Phase::kExecute] = took.nanos;
  job.done({std::move(outputs), 1, times}, job.inputs);
  return took;
}

void Batcher::run(const Jobs& jobs) {
  std::size_t rows = 0;
  for (const auto& job : jobs) rows += job->order.rows;
  if (jobs.size() == 1) {
    const Duration took = run_alone(*jobs[0]);
    MutexLock lock(mutex_);
    return times_.observe(rows, took);
  }
  run_together(jobs, rows);
}

void Batcher::run_together(const Jobs& jobs, std::size_t rows) {
  const std::int64_t begun = options_.now();
  const std::vector<Tensor> inputs = joined(jobs);
  const std::int64_t joined_at = options_.now();
  const Result<std::vector<Tensor>> outputs = session_->run(inputs);
  const std::int64_t ran = options_.now();
  const Duration took{ran - begun};
  if (!outputs.ok() || !are_rows_of(*outputs, rows)) {
    // One of them cannot be answered: each for itself, so that it is the only one.
    for (const auto& job : jobs) run_alone(*job);
    return;
  }
  {
    MutexLock lock(mutex_);
    times_.observe(rows, took);
  }
  std::size_t first = 0;
  for (const auto& job : jobs) {
    Result<std::vector<Tensor>> part = part_of(*outputs, first, job->order.rows);
    PhaseTimes times;
    times[Phase::kQueue] = begun - job->order.arrived;
    times[Phase::kExecute] = ran - joined_at;
    times[Phase::kBatch] = options_.now() - begun - times[Phase::kExecute];
    job->done({std::move(part), first == 0 ? 1U : 0U, times}, job->inputs);
    first += job->order.rows;
  }
}

// ---- Whether a model's rows are its own --------------------------------------------------------

namespace {

constexpr std::array<std::size_t, 12> kTriedSizes{2, 3, 4, 5, 7, 8, 13, 16, 32, 64, 128, 256};
constexpr std::uint32_t kSeed = 20'261;
constexpr std::size_t kTrialBytesMax = 32 << 20;  // Of all rows that are tried, in; and out.

// A row that a model may get: small numbers of both signs; integers are 0 or 1.
Result<Tensor> seeded_rows(const registry::TensorSpec& spec, std::size_t rows,
                           std::mt19937& random) {
  Tensor tensor{spec.name, spec.datatype, spec.shape, {}};
  for (std::int64_t& dim : tensor.shape) dim = dim < 0 ? 1 : dim;
  tensor.shape[0] = static_cast<std::int64_t>(rows);
  const Datatype type = FALAJ_TRY(parse_datatype(spec.datatype));
  const std::size_t count = FALAJ_TRY(element_count(tensor.shape));
  const auto put = [&](auto value) {
    tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::normal_distribution<double> normal(0, 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (type == Datatype::kFp32) {
      put(static_cast<float>(normal(random)));
    } else if (type == Datatype::kFp64) {
      put(normal(random));
    } else {
      // Zero or one in any width; half precision: a small number.
      tensor.bytes.append(1, static_cast<char>(random() & 1));
      tensor.bytes.append(element_bytes(type) - 1, '\0');
    }
  }
  return tensor;
}

Result<bool> agree(const Session& session, const std::vector<Tensor>& all, std::size_t rows,
                   const std::vector<std::vector<Tensor>>& alone) {
  const std::vector<Tensor> inputs = FALAJ_TRY(part_of(all, 0, rows));
  const std::vector<Tensor> together = FALAJ_TRY(session.run(inputs));
  if (!are_rows_of(together, rows)) return false;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::vector<Tensor> one = FALAJ_TRY(part_of(together, row, 1));
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (one[i].shape != alone[row][i].shape || one[i].bytes != alone[row][i].bytes) return false;
    }
  }
  return true;
}

std::size_t bytes_of(const std::vector<Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

// How many rows of these inputs may be tried. Nothing is allocated to find out.
Result<std::size_t> rows_to_try(const std::vector<registry::TensorSpec>& specs) {
  std::size_t row_bytes = 1;  // Never 0: a row may have no elements.
  for (const registry::TensorSpec& spec : specs) {
    std::vector<std::int64_t> shape = spec.shape;
    for (std::int64_t& dim : shape) dim = dim < 0 ? 1 : dim;
    const Datatype type = FALAJ_TRY(parse_datatype(spec.datatype));
    row_bytes += FALAJ_TRY(element_count(shape)) * element_bytes(type);
  }
  return std::min(kTriedSizes.back(), kTrialBytesMax / row_bytes);
}

Result<std::size_t> try_sizes(const Session& session, Duration limit) {
  const registry::Signature& signature = session.signature();
  if (!has_open_rows(signature.inputs) || !has_open_rows(signature.outputs)) return std::size_t{1};
  const std::int64_t end = monotonic_nanos() + limit.nanos;
  const std::size_t most = FALAJ_TRY(rows_to_try(signature.inputs));
  if (most < kTriedSizes.front()) return std::size_t{1};
  std::mt19937 random(kSeed);
  std::vector<Tensor> all;
  for (const registry::TensorSpec& spec : signature.inputs) {
    all.push_back(FALAJ_TRY(seeded_rows(spec, most, random)));
  }
  std::vector<std::vector<Tensor>> alone;
  std::size_t answered_bytes = 0;
  std::size_t agreed = 1;
  for (const std::size_t rows : kTriedSizes) {
    if (rows > most) break;
    while (alone.size() < rows) {
      if (monotonic_nanos() > end || answered_bytes > kTrialBytesMax) return agreed;
      const std::vector<Tensor> one = FALAJ_TRY(part_of(all, alone.size(), 1));
      alone.push_back(FALAJ_TRY(session.run(one)));
      if (!are_rows_of(alone.back(), 1)) return std::size_t{1};
      answered_bytes += bytes_of(alone.back());
    }
    if (!FALAJ_TRY(agree(session, all, rows, alone))) return std::size_t{1};
    agreed = rows;
  }
  return agreed;
}

}  // namespace

std::size_t rows_that_agree(const Session& session, Duration limit) {
  return try_sizes(session, limit).value_or(1);
}

}  // namespace falaj::serving::batching
