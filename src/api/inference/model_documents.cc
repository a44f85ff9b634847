#include "api/inference/model_documents.h"

#include <algorithm>

#include "api/inference/infer_codec.h"
#include "base/json.h"

namespace falaj::api {
namespace {

using serving::Phase;

constexpr const char* kPlatform = "onnxruntime_onnx";
constexpr const char* kGraphPlatform = "ensemble";
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

// Of a runtime that the deployment names, only that name is known.
std::string platform_of(const serving::LiveModel& live) {
  if (live.graph != nullptr) return kGraphPlatform;
  return live.runtime.empty() ? kPlatform : live.runtime;
}

std::string sources_text(const std::vector<serving::GraphSource>& sources) {
  std::string text;
  for (const serving::GraphSource& source : sources) {
    text += (text.empty() ? "" : ",") + source.tensor;
    if (source.element) text += "[" + std::to_string(*source.element) + "]";
  }
  return text;
}

// As an ensemble's: which model reads and gives which tensors. A rule stands among the models under
// its own name, without a version.
Value steps_of(const serving::GraphSession& session) {
  Value list = Value::array();
  for (std::size_t i = 0; i < session.parts().size(); ++i) {
    const serving::GraphStep& step = session.graph().steps[i];
    Value each;
    each["model_name"] = step.model.empty() ? step.name : step.model;
    each["model_version"] = step.model.empty() ? -1 : session.parts()[i].version;
    each["input_map"] = Value::object();
    for (const auto& [name, sources] : step.inputs) each["input_map"][name] = sources_text(sources);
    each["output_map"] = Value::object();
    for (const auto& [name, tensor] : step.outputs) each["output_map"][name] = tensor;
    if (step.model.empty()) each["output_map"][step.name] = step.name;
    list.push(std::move(each));
  }
  return list;
}

// All that answer under the name, ascending.
std::vector<std::int64_t> versions_of(const serving::LiveModel& live) {
  std::vector<std::int64_t> versions{live.version.version};
  for (const auto& other : live.others) versions.push_back(other->version.version);
  std::sort(versions.begin(), versions.end());
  return versions;
}

Value duration(std::uint64_t count, double seconds) {
  Value value;
  value["count"] = count;
  value["ns"] = static_cast<std::int64_t>(seconds * 1e9);
  return value;
}

Value statistics_of(const serving::DeploymentStatus& status) {
  Value model;
  model["name"] = status.name;
  model["version"] = std::to_string(status.version);
  model["last_inference"] = status.last_request.nanos / 1'000'000;
  model["inference_count"] = status.rows;
  model["execution_count"] = status.runs();
  model["inference_stats"]["success"] = duration(status.succeeded(), status.seconds_total);
  model["inference_stats"]["fail"] = duration(status.errors, 0);
  // As nv_metrics() names the phases.
  const auto seconds = [&](Phase phase) { return status.of(phase).seconds; };
  model["inference_stats"]["queue"] = duration(status.computed(), seconds(Phase::kQueue));
  model["inference_stats"]["compute_input"] =
      duration(status.computed(), seconds(Phase::kFeatures) + seconds(Phase::kBatch));
  model["inference_stats"]["compute_infer"] = duration(status.computed(), seconds(Phase::kExecute));
  model["inference_stats"]["compute_output"] =
      duration(status.succeeded(), seconds(Phase::kRender));
  model["inference_stats"]["cache_hit"] = duration(status.cache_hits, status.cache_hit_seconds);
  model["inference_stats"]["cache_miss"] = duration(status.cache_misses, status.cache_miss_seconds);
  model["response_stats"] = Value::object();
  model["batch_stats"] = Value::array();
  model["memory_usage"] = Value::array();
  return model;
}

}  // namespace

bool has_batch(const registry::Signature& signature) {
  const auto open = [](const registry::TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape[0] < 0;
  };
  return std::all_of(signature.inputs.begin(), signature.inputs.end(), open) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), open);
}

Value metadata_document(std::string_view name, const serving::LiveModel& live) {
  const registry::Signature& signature = live.session->signature();
  Value value;
  value["name"] = name;
  value["versions"] = Value::array();
  for (const std::int64_t version : versions_of(live)) {
    value["versions"].push(std::to_string(version));
  }
  value["platform"] = platform_of(live);
  value["inputs"] = tensors(signature.inputs);
  value["outputs"] = tensors(signature.outputs);
  return value;
}

Value config_document(std::string_view name, const serving::LiveModel& live) {
  const registry::Signature& signature = live.session->signature();
  const bool batched = has_batch(signature);
  Value value;
  value["name"] = name;
  value["platform"] = platform_of(live);
  if (live.graph == nullptr) {
    value["backend"] = live.runtime.empty() ? kBackend : live.runtime;
  } else {
    value["ensemble_scheduling"]["step"] = steps_of(*live.graph);
    // Names the files of all steps and how they are put together.
    value["parameters"]["falaj_graph"]["string_value"] = live.graph->digest();
  }
  // 0 stands for "no batch dimension".
  value["max_batch_size"] = batched ? kBatchMax : 0;
  value["input"] = config_tensors(signature.inputs, batched);
  value["output"] = config_tensors(signature.outputs, batched);
  // Present means that requests may run together; nothing of it is to be set.
  if (live.rows_together > 1) {
    value["dynamic_batching"] = Value::object();
    // Up to so many rows of one request are answered with the bits that each has alone.
    value["parameters"]["falaj_rows_together"]["string_value"] = std::to_string(live.rows_together);
  }
  // What the columns of its one input are: of a graph, those of the model that reads it.
  const std::vector<std::string>& columns =
      live.graph == nullptr ? live.version.signature.features : signature.features;
  if (!columns.empty()) {
    Value names = Value::array();
    for (const std::string& each : columns) names.push(each);
    value["parameters"]["falaj_features"]["string_value"] = to_json(names);
  }
  value["model_transaction_policy"]["decoupled"] = false;
  if (live.cached != nullptr) value["response_cache"]["enable"] = true;
  // Who answers before a request is refused for want of time.
  if (live.fallback != nullptr) {
    const registry::ModelVersion& other = live.fallback->version;
    value["parameters"]["falaj_fallback"]["string_value"] =
        other.model + "/" + std::to_string(other.version);
  }
  return value;
}

Value statistics_document(const std::vector<serving::DeploymentStatus>& statuses,
                          std::string_view version) {
  Value value;
  value["model_stats"] = Value::array();
  const auto add = [&](const serving::DeploymentStatus& status) {
    const std::string number = std::to_string(status.version);
    // An alias names the version that the deployment follows.
    const bool wanted = version.empty() || version == number || version == status.alias;
    if (status.version != 0 && wanted) value["model_stats"].push(statistics_of(status));
  };
  for (const serving::DeploymentStatus& status : statuses) {
    add(status);
    for (serving::DeploymentStatus other : status.others) {
      other.alias.clear();
      add(other);
    }
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
      model["reason"] = "";  // MLServer's clients want one.
    } else {
      model["state"] = status.state == "loading" ? "LOADING" : "UNAVAILABLE";
      model["reason"] = status.error;
    }
    list.push(std::move(model));
    for (const serving::DeploymentStatus& other : status.others) {
      Value further;
      further["name"] = other.name;
      further["version"] = std::to_string(other.version);
      further["state"] = "READY";
      list.push(std::move(further));
    }
  }
  return list;
}

}  // namespace falaj::api
