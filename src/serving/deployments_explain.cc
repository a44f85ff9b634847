// Explanations of what is deployed: how many at once, until when, and of which rows.
#include <algorithm>

#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

// One of the few that may run at once.
class Turn {
 public:
  Turn(std::atomic<unsigned>& running, unsigned processors)
      : running_(running), now_(running.fetch_add(1)), most_(std::max(1U, processors / 2)) {}
  ~Turn() { running_.fetch_sub(1); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool granted() const { return now_ < most_; }

 private:
  std::atomic<unsigned>& running_;
  unsigned now_;
  unsigned most_;
};

}  // namespace

Result<explain::Explanation> Deployments::explain(const LiveModel& live,
                                                  const ExplainJob& job) const {
  const Turn turn(impl_->explaining, impl_->processors);
  if (!turn.granted()) {
    return Error(ErrorId::kOverloaded, "as many explanations run already as may at once");
  }
  const Timestamp now = impl_->clock.now();
  if (job.deadline <= now) {
    return Error(ErrorId::kDeadlineExceeded, "its deadline was over before the explanation began");
  }
  // The clock may be set while this runs, so time is measured by the other one.
  Duration budget = std::min(job.question.budget, explain::kBudgetMax);
  if (job.deadline != Timestamp::max()) budget = std::min(budget, job.deadline - now);
  const std::int64_t end = monotonic_nanos() + budget.nanos;
  const auto late = [&] {
    return monotonic_nanos() > end || (job.gone != nullptr && job.gone->load());
  };
  const registry::Signature& names =
      live.version.signature.features.empty() || live.graph != nullptr ? live.session->signature()
                                                                       : live.version.signature;
  Result<explain::Explanation> made = explain::explain(*live.session, names, job.question, late);
  // It was asked: who only explains keeps the model from being unloaded too.
  if (made.ok() && live.series != nullptr) live.series->touch(impl_->clock.now());
  return made;
}

Result<explain::Explanation> Deployments::explain(const LiveModel& live,
                                                  std::span<const EntityKeys> entities,
                                                  ExplainJob job) const {
  features::OnlineRow read;
  std::vector<float> row;
  Tensor input{"", "FP32", {static_cast<std::int64_t>(entities.size()), 0}, {}};
  const Timestamp now = impl_->clock.now();
  for (const EntityKeys& keys : entities) {
    FALAJ_TRY(impl_->read_features(live, keys, now, read, row));
    input.bytes.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
  }
  input.name = live.session->signature().inputs.front().name;
  input.shape[1] = static_cast<std::int64_t>(live.columns.size());
  job.question.inputs = {std::move(input)};
  return explain(live, job);
}

}  // namespace falaj::serving
