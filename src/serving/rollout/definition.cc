// How a Rollout is declared.
#include <algorithm>

#include "base/decode.h"
#include "base/units.h"
#include "features/definitions.h"
#include "serving/rollout/internal/sticky.h"
#include "serving/rollout/rollouts.h"

namespace falaj::serving::rollout {
namespace {

constexpr std::size_t kStepsMax = 20;

Result<std::vector<double>> decode_steps(const std::vector<std::string>& texts,
                                         const std::string& where) {
  std::vector<double> steps;
  for (const std::string& text : texts) {
    if (text == "shadow") {
      if (!steps.empty()) {
        return Error(ErrorId::kInvalidArgument, where + ": 'shadow' can only be the first step");
      }
      steps.push_back(0);
      continue;
    }
    const double share = FALAJ_TRY(parse_share(text));
    if (share <= 0 || share >= 1 || (!steps.empty() && share <= steps.back())) {
      return Error(ErrorId::kOutOfRange,
                   where + ": step '" + text + "' must be above the one before it and below 100 %");
    }
    steps.push_back(share);
  }
  if (steps.size() > kStepsMax) {
    return Error(ErrorId::kOutOfRange, where + ": at most " + std::to_string(kStepsMax) + " steps");
  }
  return steps;
}

// "+20%"
Result<double> decode_increase(Fields& guard, double fallback) {
  const std::string text = FALAJ_TRY(guard.text("p99"));
  if (text.empty()) return fallback;
  if (!text.starts_with('+')) {
    return Error(ErrorId::kInvalidArgument,
                 guard.where() + ": p99 is how much slower the candidate may be, such as '+20%'");
  }
  return parse_share(std::string_view(text).substr(1));
}

Result<Margins> decode_guard(const Value& value, const std::string& where) {
  Fields guard(value, where);
  Margins margins;
  margins.errors = FALAJ_TRY(guard.share("errors", margins.errors));
  margins.nans = FALAJ_TRY(guard.share("nans", margins.nans));
  margins.latency = FALAJ_TRY(decode_increase(guard, margins.latency));
  margins.latency_floor = FALAJ_TRY(guard.duration("floor", margins.latency_floor));
  margins.shift = FALAJ_TRY(guard.share("shift", margins.shift));
  FALAJ_TRY(guard.finish());
  return margins;
}

Status decode_step(const Value& value, const std::string& where, RolloutPolicy& policy) {
  Fields step(value, where);
  policy.step_min = FALAJ_TRY(step.duration("min", policy.step_min));
  policy.step_max = FALAJ_TRY(step.duration("max", policy.step_max));
  policy.requests_min = FALAJ_TRY(step.integer("requests", policy.requests_min, 1, 1'000'000'000));
  FALAJ_TRY(step.finish());
  if (policy.step_max < policy.step_min) {
    return Error(ErrorId::kOutOfRange, where + ": 'max' must not be below 'min'");
  }
  return {};
}

Result<ReplayTerms> decode_replay(const Value& value, const std::string& where) {
  Fields replay(value, where);
  ReplayTerms terms;
  terms.requests = FALAJ_TRY(replay.integer("requests", 0, 1, kRecordedMax));
  terms.difference_max = FALAJ_TRY(replay.number("difference_max", -1));
  FALAJ_TRY(replay.finish());
  if (terms.requests == 0 || !value.has("difference_max")) {
    return Error(ErrorId::kMissingField, where + ": give 'requests' and 'difference_max'");
  }
  if (!(terms.difference_max >= 0)) {
    return Error(ErrorId::kOutOfRange, where + ": 'difference_max' must not be below 0");
  }
  return terms;
}

// Whether so many requests can have been recorded.
Status check_recorded(const Rollout& rollout, const Deployment& deployment) {
  const std::int64_t wanted = rollout.policy.replay.requests;
  const std::int64_t kept = deployment.record.share > 0 ? deployment.record.requests : 0;
  if (wanted <= kept) return {};
  return Error(ErrorId::kReferenceMissing,
               "Rollout " + rollout.name + ": replays " + std::to_string(wanted) +
                   " requests, but deployment '" + deployment.name + "' records " +
                   (kept == 0 ? "none; give it 'record'" : std::to_string(kept)));
}

Status decode_policy(Fields& fields, RolloutPolicy& policy) {
  const std::vector<std::string> steps = FALAJ_TRY(fields.texts("steps"));
  if (!steps.empty()) policy.steps = FALAJ_TRY(decode_steps(steps, fields.where()));
  const Value guard = FALAJ_TRY(fields.object("guard"));
  policy.margins = FALAJ_TRY(decode_guard(guard, fields.where() + " guard"));
  const Value step = FALAJ_TRY(fields.object("step"));
  FALAJ_TRY(decode_step(step, fields.where() + " step", policy));
  const Value replay = FALAJ_TRY(fields.object("replay"));
  if (replay.is_object() && !replay.as_object().empty()) {
    policy.replay = FALAJ_TRY(decode_replay(replay, fields.where() + " replay"));
  }
  policy.alpha = FALAJ_TRY(fields.share("alpha", policy.alpha));
  if (policy.alpha <= 0 || policy.alpha > 0.5) {
    return Error(ErrorId::kOutOfRange, fields.where() + ": alpha must be above 0 and at most 50 %");
  }
  const bool approve = FALAJ_TRY(fields.boolean("approve", false));
  policy.approval = approve ? Approval::kNeeded : Approval::kNotNeeded;
  return {};
}

// The keys of what the deployment serves features of; empty when that is not declared with it.
Result<std::vector<table::Field>> declared_keys(const std::string& project,
                                                const Deployment& deployment,
                                                const storage::FindObject& find) {
  std::vector<table::Field> keys;
  const storage::Object* found = find({"FeatureService", project, deployment.feature_service});
  if (found == nullptr) return keys;
  const auto service = FALAJ_TRY(features::decode_feature_service(*found));
  for (const features::ServiceView& each : service.views) {
    const storage::Object* view = find({"FeatureView", project, each.view});
    if (view == nullptr) return std::vector<table::Field>{};
    const auto decoded = FALAJ_TRY(features::decode_feature_view(*view));
    const storage::Object* object = find({"Entity", project, decoded.entity});
    if (object == nullptr) return std::vector<table::Field>{};
    const auto entity = FALAJ_TRY(features::decode_entity(*object));
    keys.insert(keys.end(), entity.keys.begin(), entity.keys.end());
  }
  return keys;
}

}  // namespace

Status check_key(const std::string& sticky, const std::vector<table::Field>& keys,
                 const std::string& owner, ErrorId id) {
  std::vector<std::string> names;
  for (const table::Field& key : keys) names.push_back(key.name);
  if (std::find(names.begin(), names.end(), sticky) != names.end()) return {};
  const std::string near = nearest_name(sticky, names);
  return Error(id, "sticky '" + sticky + "' is no key of " + owner +
                       (near.empty() ? std::string() : "; did you mean '" + near + "'?"));
}

Result<Rollout> decode_rollout(const storage::Object& object) {
  Fields fields(object.spec, "Rollout " + object.name + " spec");
  Rollout rollout;
  rollout.name = object.name;
  rollout.deployment = FALAJ_TRY(fields.required_text("deployment"));
  FALAJ_TRY(check_name("deployment", rollout.deployment));
  const Value candidate = FALAJ_TRY(fields.object("candidate"));
  Fields version(candidate, fields.where() + " candidate");
  rollout.version = FALAJ_TRY(version.integer("version", 0, 1, 1'000'000'000));
  FALAJ_TRY(version.finish());
  if (rollout.version == 0) {
    return Error(ErrorId::kMissingField, fields.where() + ": name the candidate's version");
  }
  rollout.sticky = FALAJ_TRY(fields.text("sticky"));
  FALAJ_TRY(decode_policy(fields, rollout.policy));
  FALAJ_TRY(fields.finish());
  return rollout;
}

storage::KindInfo kind() {
  storage::KindInfo info;
  info.kind = "Rollout";
  info.summary = "How a new version takes over a deployment: shadow, growing shares, guards.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const Rollout rollout = FALAJ_TRY(decode_rollout(object));
    return std::vector<storage::Reference>{{"Deployment", object.project, rollout.deployment}};
  };
  info.check_beside = [](const storage::Object& object, const storage::FindObject& find) -> Status {
    const Rollout rollout = FALAJ_TRY(decode_rollout(object));
    const storage::Object* found = find({"Deployment", object.project, rollout.deployment});
    if (found == nullptr) return {};
    const Deployment deployment = FALAJ_TRY(decode_deployment(*found));
    if (!deployment.version.has_value()) {
      FALAJ_TRY(check_recorded(rollout, deployment));
      // A deployment that takes the model version's features says nothing here: start() asks again.
      const auto keys = FALAJ_TRY(declared_keys(object.project, deployment, find));
      if (keys.empty() || rollout.sticky.empty()) return {};
      return check_key(rollout.sticky, keys, "deployment '" + deployment.name + "'",
                       ErrorId::kReferenceMissing);
    }
    return Error(ErrorId::kReferenceMissing,
                 "Rollout " + object.name + ": deployment '" + deployment.name + "' pins version " +
                     std::to_string(*deployment.version) +
                     "; a rollout moves the alias that a deployment follows");
  };
  return info;
}

}  // namespace falaj::serving::rollout
