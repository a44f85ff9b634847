#include "api/inference/model_documents.h"

#include <algorithm>

#include "api/inference/infer_codec.h"

namespace falaj::api {
namespace {

constexpr const char* kPlatform = "onnxruntime_onnx";
constexpr const char* kBackend = "onnxruntime";

Value tensors(const std::vector<registry::TensorSpec>& specs) {
  Value list = Value::array();
  for (const registry::TensorSpec& spec : specs) {
    Value tensor;
    tensor["name"] = spec.name;
    tensor["datatype"] = spec.datatype;
    tensor["shape"] = Value::array();
    for (const std::int64_t dim : spec.shape) tensor["shape"].push(dim);
    list.push(std::move(tensor));
  }
  return list;
}

// With a batch, the configuration leaves the first dimension out.
Value config_tensors(const std::vector<registry::TensorSpec>& specs, bool batched) {
  Value list = Value::array();
  for (const registry::TensorSpec& spec : specs) {
    Value tensor;
    tensor["name"] = spec.name;
    // The configuration has another name for texts.
    tensor["data_type"] = "TYPE_" + (spec.datatype == "BYTES" ? "STRING" : spec.datatype);
    tensor["dims"] = Value::array();
    for (std::size_t i = batched ? 1 : 0; i < spec.shape.size(); ++i) {
      tensor["dims"].push(spec.shape[i]);
    }
    list.push(std::move(tensor));
  }
  return list;
}

Value duration(std::uint64_t count, double seconds) {
  Value value;
  value["count"] = count;
  value["ns"] = static_cast<std::int64_t>(seconds * 1e9);
  return value;
}

}  // namespace

bool has_batch(const registry::Signature& signature) {
  const auto open = [](const registry::TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape[0] < 0;
  };
  return std::all_of(signature.inputs.begin(), signature.inputs.end(), open) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), open);
}

Value metadata_document(std::string_view name, const registry::ModelVersion& version,
                        const registry::Signature& signature) {
  Value value;
  value["name"] = name;
  value["versions"] = Value::array();
  value["versions"].push(std::to_string(version.version));
  value["platform"] = kPlatform;
  value["inputs"] = tensors(signature.inputs);
  value["outputs"] = tensors(signature.outputs);
  return value;
}

Value config_document(std::string_view name, const serving::LiveModel& live) {
  const registry::Signature& signature = live.session->signature();
  const bool batched = has_batch(signature);
  Value value;
  value["name"] = name;
  value["platform"] = kPlatform;
  value["backend"] = kBackend;
  // 0 stands for "no batch dimension".
  value["max_batch_size"] = batched ? kBatchMax : 0;
  value["input"] = config_tensors(signature.inputs, batched);
  value["output"] = config_tensors(signature.outputs, batched);
  // Present means that requests may run together; nothing of it is to be set.
  if (live.rows_together > 1) value["dynamic_batching"] = Value::object();
  value["model_transaction_policy"]["decoupled"] = false;
  if (live.cached != nullptr) value["response_cache"]["enable"] = true;
  return value;
}

Value statistics_document(const std::vector<serving::DeploymentStatus>& statuses) {
  Value value;
  value["model_stats"] = Value::array();
  for (const serving::DeploymentStatus& status : statuses) {
    if (status.version == 0) continue;
    const std::uint64_t succeeded = status.requests - std::min(status.errors, status.requests);
    Value model;
    model["name"] = status.name;
    model["version"] = std::to_string(status.version);
    model["last_inference"] = status.last_request.nanos / 1'000'000;
    model["inference_count"] = status.rows;
    // Requests that ran along with another had no run of their own, nor had those of the cache.
    const std::uint64_t computed = succeeded - std::min(status.cache_hits, succeeded);
    model["execution_count"] = computed - std::min(status.joined, computed);
    // One figure is measured for the whole of a request; the phases are not told apart.
    model["inference_stats"]["success"] = duration(succeeded, status.seconds_total);
    model["inference_stats"]["fail"] = duration(status.errors, 0);
    for (const char* phase : {"queue", "compute_input", "compute_output"}) {
      model["inference_stats"][phase] = duration(0, 0);
    }
    const double hit = status.cache_hit_seconds;
    model["inference_stats"]["compute_infer"] =
        duration(computed, std::max(status.seconds_total - hit, 0.0));
    model["inference_stats"]["cache_hit"] = duration(status.cache_hits, hit);
    model["inference_stats"]["cache_miss"] =
        duration(status.cache_misses, status.cache_miss_seconds);
    model["response_stats"] = Value::object();
    model["batch_stats"] = Value::array();
    model["memory_usage"] = Value::array();
    value["model_stats"].push(std::move(model));
  }
  return value;
}

Value index_document(const std::vector<serving::DeploymentStatus>& statuses, Listed listed) {
  Value list = Value::array();
  for (const serving::DeploymentStatus& status : statuses) {
    if (listed == Listed::kReady && status.version == 0) continue;
    Value model;
    model["name"] = status.name;
    if (status.version > 0) {
      model["version"] = std::to_string(status.version);
      model["state"] = "READY";
    } else {
      model["state"] = status.state == "loading" ? "LOADING" : "UNAVAILABLE";
      model["reason"] = status.error;
    }
    list.push(std::move(model));
  }
  return list;
}

}  // namespace falaj::api
