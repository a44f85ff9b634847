// How a Deployment is declared and how its status is shown.
#include <algorithm>

#include "base/decode.h"
#include "serving/deployments.h"
#include "serving/rollout/rollouts.h"

namespace falaj::serving {
namespace {

constexpr std::int64_t kCacheBytesMin = 64 << 10;
constexpr Duration kIdleMin = Duration::seconds(1);
constexpr Duration kIdleMax = Duration::hours(365 * 24);
constexpr std::size_t kLabelsMax = 100'000;
constexpr std::size_t kLabelBytesMax = 256;
constexpr std::int64_t kCacheBytesMax = std::int64_t{64} << 30;

Result<Deployment::Cache> decode_cache(const Value& value, const std::string& where) {
  Fields fields(value, where);
  Deployment::Cache cache;
  const std::int64_t bytes = FALAJ_TRY(fields.bytes("bytes", 0));
  const std::string shared = FALAJ_TRY(fields.choice("shared", {"caller", "project"}));
  FALAJ_TRY(fields.finish());
  if (bytes < kCacheBytesMin || bytes > kCacheBytesMax) {
    return Error(ErrorId::kOutOfRange,
                 where + ": 'bytes' must be a size such as 64Mi, from 64Ki to 64Gi");
  }
  cache.bytes = static_cast<std::size_t>(bytes);
  if (shared == "project") cache.shared = Deployment::Cache::Shared::kProject;
  return cache;
}

Result<rollout::RecordRule> decode_record(const Value& value, const std::string& where) {
  Fields fields(value, where);
  rollout::RecordRule rule;
  rule.share = FALAJ_TRY(fields.share("share", 0.01));
  rule.requests = FALAJ_TRY(fields.integer("requests", rule.requests, 1, rollout::kRecordedMax));
  rule.age = FALAJ_TRY(fields.duration("age", rule.age));
  FALAJ_TRY(fields.finish());
  if (rule.share <= 0 || rule.share > 1) {
    return Error(ErrorId::kOutOfRange, where + ": 'share' must be above 0 and at most 100 %");
  }
  if (rule.age < Duration::minutes(1) || rule.age > Duration::days(90)) {
    return Error(ErrorId::kOutOfRange, where + ": 'age' must be a time such as 7d, from 1m to 90d");
  }
  return rule;
}

Result<Labels> decode_labels(const Value& value, const std::string& where) {
  Fields fields(value, where);
  Labels labels;
  std::size_t many = 0;
  for (const auto& [output, unused] : value.as_object()) {
    std::vector<std::string> texts = FALAJ_TRY(fields.texts(output));
    many += texts.size();
    const bool long_one = std::any_of(texts.begin(), texts.end(), [](const std::string& text) {
      return text.size() > kLabelBytesMax;
    });
    if (many > kLabelsMax || long_one) {
      return Error(ErrorId::kOutOfRange,
                   where + ": 100,000 labels at most, of 256 bytes at most each");
    }
    labels.emplace(output, std::move(texts));
  }
  return labels;
}

Result<Deployment::Fallback> decode_fallback(const Value& value, const std::string& model,
                                             const std::string& where) {
  Fields fields(value, where);
  Deployment::Fallback fallback;
  fallback.model = FALAJ_TRY(fields.text("model", model));
  FALAJ_TRY(check_name("model", fallback.model));
  if (value.has("version") == value.has("alias")) {
    return Error(ErrorId::kInvalidArgument, where + ": give 'alias' or 'version'");
  }
  fallback.alias = FALAJ_TRY(fields.text("alias"));
  if (value.has("alias")) FALAJ_TRY(check_name("alias", fallback.alias));
  if (value.has("version")) {
    fallback.version = FALAJ_TRY(fields.integer("version", 1, 1, 1'000'000'000));
  }
  FALAJ_TRY(fields.finish());
  return fallback;
}

Result<Deployment::Versions> decode_versions(const Value& value, const std::string& where) {
  using Which = Deployment::Versions::Which;
  Deployment::Versions versions;
  const Error wrong(ErrorId::kOutOfRange,
                    where + ": 'versions' must be all, {latest: 2} or a list of numbers, at most " +
                        std::to_string(kVersionsMax));
  if (value.is_string() && value.as_string() == "all") {
    versions.which = Which::kAll;
  } else if (value.is_object()) {
    Fields fields(value, where + " versions");
    versions.which = Which::kLatest;
    versions.latest = FALAJ_TRY(fields.integer("latest", 0, 0, std::int64_t{kVersionsMax}));
    FALAJ_TRY(fields.finish());
    if (versions.latest == 0) return wrong;
  } else if (value.is_array() && value.as_array().size() <= kVersionsMax) {
    versions.which = Which::kListed;
    for (const Value& each : value.as_array()) {
      if (!each.is_int() || each.as_int() < 1) return wrong;
      versions.listed.push_back(each.as_int());
    }
  } else {
    return wrong;
  }
  return versions;
}

// When it may be unloaded until the next request.
Status decode_scale(const Value& value, const std::string& where, Deployment& deployment) {
  Fields fields(value, where);
  deployment.idle = FALAJ_TRY(fields.duration("idle", Duration{}));
  // Who says when it may be unloaded has clients that wait for it to be loaded.
  const std::string full = FALAJ_TRY(fields.choice("when_full", {"unload", "stay"}));
  if (full == "unload") deployment.when_full = Deployment::WhenFull::kUnload;
  FALAJ_TRY(fields.finish());
  const bool sound = deployment.idle >= kIdleMin && deployment.idle <= kIdleMax;
  if (value.has("idle") && !sound) {
    return Error(ErrorId::kOutOfRange,
                 where + ": 'idle' must be a time such as 10m, from 1s to 365d");
  }
  return {};
}

}  // namespace

Result<Deployment> decode_deployment(const storage::Object& object) {
  Fields fields(object.spec, "Deployment " + object.name + " spec");
  Deployment deployment;
  deployment.name = object.name;
  deployment.model = FALAJ_TRY(fields.required_text("model"));
  FALAJ_TRY(check_name("model", deployment.model));
  const bool pinned = object.spec.has("version");
  if (pinned && object.spec.has("alias")) {
    return Error(ErrorId::kInvalidArgument,
                 fields.where() + ": give 'alias' or 'version', not both");
  }
  if (pinned) {
    deployment.version = FALAJ_TRY(fields.integer("version", 1, 1, 1'000'000'000));
    deployment.alias.clear();
  }
  deployment.alias = FALAJ_TRY(fields.text("alias", deployment.alias));
  if (!pinned) FALAJ_TRY(check_name("alias", deployment.alias));
  deployment.feature_service = FALAJ_TRY(fields.text("features"));
  const Value slo = FALAJ_TRY(fields.object("slo"));
  Fields limits(slo, fields.where() + " slo");
  deployment.slo = FALAJ_TRY(limits.duration("p99", Duration{}));
  FALAJ_TRY(limits.finish());
  if (deployment.slo < Duration{} || deployment.slo > Duration::hours(1)) {
    return Error(ErrorId::kOutOfRange,
                 limits.where() + ": 'p99' must be a time such as 20ms, at most 1h");
  }
  const std::string batch = FALAJ_TRY(fields.choice("batch", {"auto", "never"}));
  if (batch == "never") deployment.batch = Deployment::Batch::kNever;
  deployment.runtime = FALAJ_TRY(fields.text("runtime"));
  if (!deployment.runtime.empty()) FALAJ_TRY(check_name("runtime", deployment.runtime));
  const Value cache = FALAJ_TRY(fields.object("cache"));
  if (object.spec.has("cache")) {
    deployment.cache = FALAJ_TRY(decode_cache(cache, fields.where() + " cache"));
  }
  const Value scale = FALAJ_TRY(fields.object("scale"));
  if (object.spec.has("scale")) {
    FALAJ_TRY(decode_scale(scale, fields.where() + " scale", deployment));
  }
  const Value record = FALAJ_TRY(fields.object("record"));
  if (object.spec.has("record")) {
    deployment.record = FALAJ_TRY(decode_record(record, fields.where() + " record"));
  }
  const Value labels = FALAJ_TRY(fields.object("labels"));
  if (object.spec.has("labels")) {
    deployment.labels = FALAJ_TRY(decode_labels(labels, fields.where() + " labels"));
  }
  const Value fallback = FALAJ_TRY(fields.object("fallback"));
  if (object.spec.has("fallback")) {
    deployment.fallback =
        FALAJ_TRY(decode_fallback(fallback, deployment.model, fields.where() + " fallback"));
  }
  const Value& versions = fields.any("versions");
  if (!versions.is_null()) {
    deployment.versions = FALAJ_TRY(decode_versions(versions, fields.where()));
  }
  const Value& graph = fields.any("graph");
  const Value& answers = fields.any("answers");
  if (!graph.is_null()) {
    deployment.graph = FALAJ_TRY(decode_graph(graph, answers, deployment.model, fields.where()));
  } else if (!answers.is_null()) {
    return Error(ErrorId::kInvalidArgument, fields.where() + ": 'answers' is for a 'graph'");
  }
  FALAJ_TRY(fields.finish());
  return deployment;
}

std::vector<storage::KindInfo> kinds() {
  storage::KindInfo info;
  info.kind = "Deployment";
  info.summary =
      "A name under which one version of a model answers, or several models and rules as one.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const Deployment deployment = FALAJ_TRY(decode_deployment(object));
    std::vector<storage::Reference> references{{"Model", object.project, deployment.model}};
    for (const GraphStep& step : deployment.graph.steps) {
      if (step.model.empty() || step.model == deployment.model) continue;
      references.push_back({"Model", object.project, step.model});
    }
    if (deployment.fallback.has_value() && deployment.fallback->model != deployment.model) {
      references.push_back({"Model", object.project, deployment.fallback->model});
    }
    if (!deployment.feature_service.empty()) {
      references.push_back({"FeatureService", object.project, deployment.feature_service});
    }
    return references;
  };
  return {info, rollout::kind()};
}

Value to_value(const DeploymentStatus& status) {
  Value value;
  value["project"] = status.project;
  value["name"] = status.name;
  value["model"] = status.model;
  value["version"] = status.version;
  value["state"] = status.state;
  value["error"] = status.error;
  value["requests"] = status.requests;
  value["errors"] = status.errors;
  value["rows"] = status.rows;
  value["p50_ms"] = status.p50_ms;
  value["p99_ms"] = status.p99_ms;
  value["memory_bytes"] = status.memory_bytes;
  value["since"] = status.since == Timestamp{} ? Value() : Value(to_rfc3339(status.since));
  return value;
}

}  // namespace falaj::serving
