#include "api/inference/nv_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace falaj::api {
namespace {

using serving::DeploymentStatus;
using serving::Phase;

std::uint64_t micros(double seconds) {
  return static_cast<std::uint64_t>(std::llround(seconds * 1e6));
}

std::uint64_t phase_micros(const DeploymentStatus& status, Phase phase) {
  return micros(status.of(phase).seconds);
}

struct Family {
  std::string_view name;
  std::string_view kind;
  std::string_view help;
  std::uint64_t (*of)(const DeploymentStatus& status);
  std::string_view label = {};  // A further one.
};

constexpr std::array kFamilies{
    Family{"nv_inference_request_success", "counter", "Requests that were answered",
           [](const DeploymentStatus& s) { return s.succeeded(); }},
    Family{"nv_inference_request_failure", "counter", "Requests that failed in the model",
           [](const DeploymentStatus& s) { return s.errors; }, ",reason=\"BACKEND\""},
    Family{"nv_inference_request_failure", "counter", "",
           [](const DeploymentStatus& s) { return s.refused; }, ",reason=\"REJECTED\""},
    Family{"nv_inference_count", "counter", "Rows that were predicted",
           [](const DeploymentStatus& s) { return s.rows; }},
    Family{"nv_inference_exec_count", "counter", "Runs of the model",
           [](const DeploymentStatus& s) { return s.runs(); }},
    Family{"nv_inference_request_duration_us", "counter", "Time of all requests",
           [](const DeploymentStatus& s) { return micros(s.seconds_total); }},
    Family{"nv_inference_queue_duration_us", "counter", "Time that requests waited",
           [](const DeploymentStatus& s) { return phase_micros(s, Phase::kQueue); }},
    Family{"nv_inference_compute_input_duration_us", "counter",
           "Time of reading features and putting requests together",
           [](const DeploymentStatus& s) {
             return phase_micros(s, Phase::kFeatures) + phase_micros(s, Phase::kBatch);
           }},
    Family{"nv_inference_compute_infer_duration_us", "counter", "Time of the model",
           [](const DeploymentStatus& s) { return phase_micros(s, Phase::kExecute); }},
    Family{"nv_inference_compute_output_duration_us", "counter", "Time of writing replies",
           [](const DeploymentStatus& s) { return phase_micros(s, Phase::kRender); }},
    Family{"nv_inference_pending_request_count", "gauge", "Requests that wait",
           [](const DeploymentStatus& s) -> std::uint64_t { return s.waiting; }},
    Family{"nv_cache_num_hits_per_model", "counter", "Answers that were kept",
           [](const DeploymentStatus& s) { return s.cache_hits; }},
    Family{"nv_cache_num_misses_per_model", "counter", "Questions without a kept answer",
           [](const DeploymentStatus& s) { return s.cache_misses; }},
    Family{"nv_cache_hit_duration_per_model", "counter", "Time of kept answers",
           [](const DeploymentStatus& s) { return micros(s.cache_hit_seconds); }},
    Family{"nv_cache_miss_duration_per_model", "counter", "Time of looking for and keeping answers",
           [](const DeploymentStatus& s) { return micros(s.cache_miss_seconds); }},
};

void append_family(std::string& out, const Family& family,
                   std::span<const DeploymentStatus> statuses) {
  if (!family.help.empty()) {
    out.append("# HELP ").append(family.name).append(" ").append(family.help).append("\n# TYPE ");
    out.append(family.name).append(" ").append(family.kind).append("\n");
  }
  for (const DeploymentStatus& status : statuses) {
    if (status.version == 0) continue;
    out.append(family.name).append("{model=\"").append(status.name).append("\",version=\"");
    out.append(std::to_string(status.version)).append("\",project=\"").append(status.project);
    out.append("\"").append(family.label).append("} ");
    out.append(std::to_string(family.of(status))).append("\n");
  }
}

}  // namespace

std::string nv_metrics(std::span<const DeploymentStatus> statuses) {
  const bool any = std::any_of(statuses.begin(), statuses.end(),
                               [](const DeploymentStatus& status) { return status.version != 0; });
  std::string out;
  if (!any) return out;
  for (const Family& family : kFamilies) append_family(out, family, statuses);
  return out;
}

}  // namespace falaj::api
