// Who answers when a deployment's own model would be late: a cheaper one, before anybody is
// refused.
#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

Status check_alike(const LiveModel& live, const LiveModel& fallback) {
  const registry::Signature& own = live.session->signature();
  const registry::Signature& other = fallback.session->signature();
  if (own.inputs == other.inputs && own.outputs == other.outputs) return {};
  return Error(ErrorId::kTensorMismatch, "the fallback, model '" + fallback.version.model +
                                             "' version " +
                                             std::to_string(fallback.version.version) +
                                             ", takes or gives other tensors than the deployment");
}

bool is_same(const LiveModel& live, const registry::ModelVersion& version,
             const std::string& runtime) {
  return live.version.model == version.model && live.version.version == version.version &&
         live.runtime == runtime;
}

// The one that serves already, if it is what is wanted; null otherwise.
std::shared_ptr<const LiveModel> kept(const LiveModel* live, const registry::ModelVersion& version,
                                      const Deployment& declared) {
  if (live == nullptr || live->fallback == nullptr) return nullptr;
  const bool same = is_same(*live->fallback, version, declared.runtime) &&
                    live->fallback->batch == declared.batch;
  return same ? live->fallback : nullptr;
}

}  // namespace

Result<registry::ModelVersion> Deployments::Impl::fallback_version(const ProjectName& project,
                                                                   const Deployment& declared) {
  Deployment other;
  other.model = declared.fallback->model;
  other.alias = declared.fallback->alias;
  other.version = declared.fallback->version;
  return models.get(project, other.model, FALAJ_TRY(desired_version(project, other)));
}

Status Deployments::Impl::add_fallback(const Deployment& declared, const LiveModel* before,
                                       LiveModel& live) {
  if (!declared.fallback.has_value()) {
    live.fallback = nullptr;
    return {};
  }
  const registry::ModelVersion version =
      FALAJ_TRY(fallback_version(ProjectName(live.project), declared));
  std::shared_ptr<const LiveModel> known = kept(&live, version, declared);
  if (known == nullptr) known = kept(before, version, declared);
  // An alias may stand where the deployment's does for a while: that helps nobody.
  const bool itself = live.graph == nullptr && is_same(live, version, declared.runtime);
  live.fallback = itself ? nullptr : known;
  if (itself) return {};
  if (known != nullptr) return check_alike(live, *known);
  auto fresh = std::make_shared<LiveModel>();
  fresh->project = live.project;
  fresh->deployment = live.deployment;
  fresh->version = version;
  fresh->session = FALAJ_TRY(open_session(version, declared.runtime));
  fresh->runtime = declared.runtime;
  if (version.model != declared.model) fresh->stands_in_for = declared.model;
  FALAJ_TRY(check_alike(live, *fresh));
  fresh->series = series(*fresh);
  add_batcher(declared, *fresh);
  live.fallback = std::move(fresh);
  return {};
}

bool Deployments::Impl::fall_back(const std::shared_ptr<const LiveModel>& live, batching::Job late,
                                  const std::string& request_id, std::int64_t begun,
                                  const InferDone& done) const {
  if (steady() >= late.order.deadline) return false;
  const std::shared_ptr<const LiveModel>& other = live->fallback;
  late.done = [this, live, other, begun, request_id, done](batching::Outcome outcome,
                                                           const std::vector<Tensor>& inputs) {
    const bool given_up =
        !outcome.outputs.ok() && (outcome.outputs.error().id == ErrorId::kOverloaded ||
                                  outcome.outputs.error().code == Code::kCancelled);
    if (given_up) {
      live->series->refused.add();
      return done(outcome.outputs.error());
    }
    if (outcome.runs == 0) other->series->joined.add();
    live->series->touch(clock.now());
    Result<Inference> answer =
        finished(*other, std::move(outcome.outputs), inputs, request_id, begun, outcome.times);
    if (answer.ok()) {
      live->series->fallbacks.add();
      answer->fallback = other;
    }
    done(std::move(answer));
  };
  other->batcher->submit(std::move(late));
  return true;
}

}  // namespace falaj::serving
