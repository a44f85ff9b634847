// Requests while a rollout shares a deployment's traffic.
#include <array>
#include <charconv>
#include <cmath>

#include "serving/internal/deployments_impl.h"
#include "serving/internal/logged_rows.h"
#include "serving/rollout/sharing.h"

namespace falaj::serving {
namespace {

using rollout::ArmName;
using rollout::Tried;

// Whether the request fits what is deployed: if not, it is the caller's mistake, whichever version
// it meets. What is asked rightly and fails is the version's own failure.
bool is_asked_rightly(const LiveModel& live, std::span<const EntityKeys> entities) {
  if (live.plan == nullptr) return false;
  thread_local std::vector<features::KeyPart> ordered;
  for (const EntityKeys& keys : entities) {
    ordered.clear();
    if (!features::append_keys(*live.plan, keys, ordered).ok()) return false;
  }
  return !entities.empty();
}

// The same of tensors, which are only shared when both versions take the same: either says so.
Tried::How how_it_went(const Status& status) {
  if (status.ok()) return Tried::How::kAnswered;
  const ErrorId id = status.error().id;
  const bool asked_wrongly = id == ErrorId::kTensorMismatch || id == ErrorId::kWrongType;
  return asked_wrongly ? Tried::How::kNotAsked : Tried::How::kFailed;
}

// The unit of a request: the value of the sticky key, or the request itself.
std::uint64_t unit_of(const rollout::Split& split, const EntityKeys* keys,
                      const std::string& request_id) {
  for (std::size_t i = 0; !split.sticky.empty() && keys != nullptr && i < keys->size(); ++i) {
    if ((*keys)[i].first != split.sticky) continue;
    const features::KeyPart& part = (*keys)[i].second;
    if (const auto* text = std::get_if<std::string>(&part)) {
      return rollout::unit_of(*text, split.salt);
    }
    std::array<char, 24> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), std::get<std::int64_t>(part));
    return rollout::unit_of({digits.data(), end.ptr}, split.salt);
  }
  return rollout::unit_of(request_id, split.salt);
}

rollout::Answered answered(std::uint64_t unit, std::int64_t nanos,
                           std::span<const EntityPrediction> predictions) {
  rollout::Answered request{unit, nanos, static_cast<std::int64_t>(predictions.size()), 0, 0};
  for (const EntityPrediction& each : predictions)
    request.nans += std::isfinite(each.score) ? 0 : 1;
  if (!predictions.empty()) request.score = predictions.front().score;
  return request;
}

rollout::Answered answered(std::uint64_t unit, std::int64_t nanos, std::span<const Tensor> inputs,
                           const std::vector<Tensor>& outputs) {
  const LoggedRows logged = logged_rows(inputs, outputs);
  rollout::Answered request{unit, nanos, static_cast<std::int64_t>(logged.rows), 0, 0};
  for (std::size_t row = 0; row < logged.rows; ++row) {
    request.nans += std::isfinite(score_at(logged, row)) ? 0 : 1;
  }
  if (logged.rows > 0) request.score = score_at(logged, 0);
  return request;
}

// Counted on neither side.
bool leave_out(const rollout::Split& split) {
  split.not_mirrored.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool mirror(const rollout::Split& split, rollout::Mirrored request) {
  return split.mirror.try_push(std::move(request)) || leave_out(split);
}

}  // namespace

// A candidate that cannot answer costs its time, not the answer: the champion gives it.
Status Deployments::Impl::answer_shared(const LiveModel& live, std::span<const EntityKeys> entities,
                                        const std::string& request_id,
                                        std::vector<EntityPrediction>& predictions,
                                        PhaseTimes& times) const {
  const rollout::Split& split = *live.split;
  if (split.stopped.load(std::memory_order_relaxed) || !is_asked_rightly(live, entities)) {
    Timed timed = answer_all(live, entities, request_id, predictions, Trace::kCounted);
    times = timed.times;
    return std::move(timed.status);
  }
  const std::uint64_t unit = unit_of(split, &entities.front(), request_id);
  Status status;
  const auto ask = [&](const LiveModel& model) -> Tried {
    Timed timed = answer_all(model, entities, request_id, predictions, Trace::kCounted);
    status = std::move(timed.status);
    times = timed.times;
    if (!status.ok()) return {Tried::How::kFailed, {}};
    return {Tried::How::kAnswered, answered(unit, timed.nanos, predictions)};
  };
  const auto mirrored = [&] {
    return entities.size() <= rollout::kMirroredEntitiesMax
               ? mirror(split, {unit, std::vector(entities.begin(), entities.end())})
               : leave_out(split);
  };
  rollout::share_request(
      split.share, *split.counters, unit, [&] { return ask(live); },
      [&] { return ask(*split.candidate); }, mirrored);
  return status;
}

// As answer_shared(), of tensors. What an arm had kept is its answer all the same; how long the
// model takes is told by those requests only for which it ran.
Result<Inference> Deployments::Impl::run_shared(const LiveModel& live, const InferJob& job) const {
  const rollout::Split& split = *live.split;
  const std::vector<Tensor>& inputs = job.inputs;
  std::int64_t nanos = 0;
  if (split.stopped.load(std::memory_order_relaxed)) return run(live, job, nanos);
  const std::uint64_t unit = unit_of(split, nullptr, job.request_id);
  Result<Inference> reply = Inference{};
  const auto ask = [&](const LiveModel& model) -> Tried {
    reply = run(model, job, nanos);
    if (!reply.ok()) return {how_it_went(reply.error()), {}};
    return {Tried::How::kAnswered, answered(unit, nanos, inputs, reply->outputs)};
  };
  const auto mirrored = [&] {
    return rollout::is_small(inputs) ? mirror(split, {unit, inputs}) : leave_out(split);
  };
  rollout::share_request(
      split.share, *split.counters, unit, [&] { return ask(live); },
      [&] { return ask(*split.candidate); }, mirrored);
  return reply;
}

void Deployments::Impl::answer_unseen(const rollout::Split& split,
                                      const rollout::Mirrored& request) const {
  const LiveModel& candidate = *split.candidate;
  Tried tried;
  if (const auto* entities = std::get_if<std::vector<EntityKeys>>(&request.asked)) {
    std::vector<EntityPrediction> predictions;
    const Timed timed = answer_all(candidate, *entities, "", predictions, Trace::kNone);
    if (timed.status.ok()) {
      tried = {Tried::How::kAnswered, answered(request.unit, timed.nanos, predictions)};
    }
  } else {
    const auto& inputs = std::get<std::vector<Tensor>>(request.asked);
    const std::int64_t begun = monotonic_nanos();
    const Result<std::vector<Tensor>> outputs = candidate.session->run(inputs);
    const std::int64_t nanos = monotonic_nanos() - begun;
    if (outputs.ok()) {
      tried = {Tried::How::kAnswered, answered(request.unit, nanos, inputs, *outputs)};
    }
  }
  rollout::count(*split.counters, ArmName::kCandidate, request.unit, tried);
}

Result<std::vector<Tensor>> Deployments::ask_unseen(const LiveModel& live,
                                                    const rollout::Asked& asked) const {
  if (const auto* inputs = std::get_if<std::vector<Tensor>>(&asked)) {
    return live.session->run(*inputs);
  }
  const auto& entities = std::get<std::vector<EntityKeys>>(asked);
  std::vector<EntityPrediction> predictions;
  FALAJ_TRY(impl_->answer_all(live, entities, "", predictions, Trace::kNone).status);
  Tensor scores{"score", "FP32", {static_cast<std::int64_t>(predictions.size())}, ""};
  for (const EntityPrediction& each : predictions) {
    scores.bytes.append(reinterpret_cast<const char*>(&each.score), sizeof each.score);
  }
  return std::vector<Tensor>{std::move(scores)};
}

Left Deployments::answer_mirrored(const rollout::Split& split, Duration budget) const {
  const std::int64_t begun = monotonic_nanos();
  while (!split.stopped.load(std::memory_order_relaxed)) {
    const std::optional<rollout::Mirrored> request = split.mirror.try_pop();
    if (!request.has_value()) return Left::kNothing;
    impl_->answer_unseen(split, *request);
    if (monotonic_nanos() - begun >= budget.nanos) return Left::kSome;
  }
  return Left::kNothing;
}

}  // namespace falaj::serving
