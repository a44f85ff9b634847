#include "cli/import/triton_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/import/pbtxt.h"

namespace falaj::cli {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array<Pair, 14> kTypes{{{"TYPE_BOOL", "BOOL"},
                                       {"TYPE_UINT8", "UINT8"},
                                       {"TYPE_UINT16", "UINT16"},
                                       {"TYPE_UINT32", "UINT32"},
                                       {"TYPE_UINT64", "UINT64"},
                                       {"TYPE_INT8", "INT8"},
                                       {"TYPE_INT16", "INT16"},
                                       {"TYPE_INT32", "INT32"},
                                       {"TYPE_INT64", "INT64"},
                                       {"TYPE_FP16", "FP16"},
                                       {"TYPE_FP32", "FP32"},
                                       {"TYPE_FP64", "FP64"},
                                       {"TYPE_BF16", "BF16"},
                                       {"TYPE_STRING", "BYTES"}}};

// They change how fast it answers, not what.
constexpr std::array<Pair, 8> kOfNoAnswer{
    {{"dynamic_batching", "requests run together when it helps, without settings"},
     {"instance_group", "the server's threads serve all models"},
     {"model_warmup", "every model is warmed before it serves"},
     {"optimization", "see falaj models optimize"},
     {"parameters", "they are the backend's own"},
     {"model_operations", "custom operators are not loaded"},
     {"cc_model_filenames", "for graphics cards"},
     {"metric_tags", "metrics have the project and the deployment"}}};

constexpr std::array<std::string_view, 9> kKnown{
    "name",    "platform",       "backend",
    "runtime", "max_batch_size", "input",
    "output",  "version_policy", "default_model_filename"};

const Value kNothing;

// The one value of a field; null when it is not there. Of several the last, as protobuf has it.
const Value& one(const Value& message, std::string_view field) {
  const Value& values = message[field];
  return values.is_array() && !values.as_array().empty() ? values.as_array().back() : kNothing;
}

std::string text_of(const Value& message, std::string_view field) {
  const Value& value = one(message, field);
  return value.is_string() ? value.as_string() : std::string();
}

// Everything in the config that cannot be done, to be told at once.
struct Refusals {
  std::vector<std::string> all;
  void add(std::string what) { all.push_back(std::move(what)); }
  Status told() const {
    if (all.empty()) return {};
    std::string text;
    for (const std::string& each : all) text += (text.empty() ? "" : "; ") + each;
    return Error(ErrorId::kInvalidArgument, "config.pbtxt: not supported: " + text);
  }
};

std::string datatype_of(const std::string& type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (theirs == type) return std::string(ours);
  }
  return "";
}

std::vector<std::int64_t> integers(const Value& values) {
  std::vector<std::int64_t> found;
  if (!values.is_array()) return found;
  for (const Value& value : values.as_array()) {
    if (value.is_int()) found.push_back(value.as_int());
  }
  return found;
}

TritonTensor read_tensor(const Value& message, bool rows, const std::string& what,
                         Refusals& refusals) {
  TritonTensor tensor;
  tensor.name = text_of(message, "name");
  const std::string here = what + " '" + tensor.name + "'";
  tensor.datatype = datatype_of(text_of(message, "data_type"));
  if (tensor.name.empty()) refusals.add(what + " without a name");
  if (tensor.datatype.empty()) {
    refusals.add(here + " data_type '" + text_of(message, "data_type") + "'");
  }
  if (rows) tensor.shape.push_back(-1);
  for (const std::int64_t size : integers(message["dims"])) tensor.shape.push_back(size);
  tensor.label_file = text_of(message, "label_filename");
  for (const auto& [field, values] : message.as_object()) {
    const bool known = field == "name" || field == "data_type" || field == "dims" ||
                       field == "label_filename" || field == "format";
    const bool harmless = one(message, field) == Value(false);
    if (!known && !harmless) refusals.add(here + " " + field);
  }
  return tensor;
}

std::vector<TritonTensor> read_tensors(const Value& config, std::string_view field, bool rows,
                                       Refusals& refusals) {
  std::vector<TritonTensor> tensors;
  const Value& values = config[field];
  if (!values.is_array()) return tensors;
  for (const Value& message : values.as_array()) {
    if (message.is_object()) {
      tensors.push_back(read_tensor(message, rows, std::string(field), refusals));
    } else {
      refusals.add(std::string(field) + " that is no message");
    }
  }
  return tensors;
}

void read_policy(const Value& policy, TritonConfig& config, Refusals& refusals) {
  if (policy.is_null()) return;
  if (const Value& latest = one(policy, "latest"); latest.is_object()) {
    const Value& many = one(latest, "num_versions");
    config.latest = many.is_int() ? std::max<std::int64_t>(many.as_int(), 1) : 1;
  } else if (one(policy, "all").is_object()) {
    config.policy = TritonConfig::Policy::kAll;
  } else if (const Value& specific = one(policy, "specific"); specific.is_object()) {
    config.policy = TritonConfig::Policy::kSpecific;
    config.versions = integers(specific["versions"]);
    if (config.versions.empty()) refusals.add("version_policy specific without versions");
  } else {
    refusals.add("version_policy");
  }
}

void check_backend(const Value& config, Refusals& refusals) {
  const std::string platform = text_of(config, "platform");
  const std::string backend = text_of(config, "backend");
  const bool onnx = (platform.empty() || platform == "onnxruntime_onnx") &&
                    (backend.empty() || backend == "onnxruntime");
  if (onnx) return;
  refusals.add(platform.empty() ? "backend '" + backend + "'" : "platform '" + platform + "'");
}

void note_others(const Value& message, TritonConfig& config, Refusals& refusals) {
  for (const auto& [field, values] : message.as_object()) {
    if (std::find(kKnown.begin(), kKnown.end(), field) != kKnown.end()) continue;
    if (field == "response_cache") {
      config.cached = one(one(message, field), "enable") == Value(true);
      continue;
    }
    const auto harmless = std::find_if(kOfNoAnswer.begin(), kOfNoAnswer.end(),
                                       [&](const Pair& each) { return each.first == field; });
    if (harmless != kOfNoAnswer.end()) {
      config.left_out.push_back(field + ": " + std::string(harmless->second));
    } else {
      refusals.add(field);
    }
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

// -1 is any size, on either side.
bool fits(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::int64_t x, std::int64_t y) { return x < 0 || y < 0 || x == y; });
}

Status check_tensor(const TritonTensor& wanted, const Value& tensors, const std::string& what) {
  const auto differs = [&](const std::string& how) {
    return Error(ErrorId::kTensorMismatch, "config.pbtxt says " + what + " '" + wanted.name + "' " +
                                               wanted.datatype + shape_text(wanted.shape) +
                                               ", but the model " + how);
  };
  if (tensors.is_array()) {
    for (const Value& tensor : tensors.as_array()) {
      if (tensor.text("name") != wanted.name) continue;
      const std::vector<std::int64_t> shape = integers(tensor["shape"]);
      if (tensor.text("datatype") == wanted.datatype && fits(shape, wanted.shape)) return {};
      return differs("has " + tensor.text("datatype") + shape_text(shape));
    }
  }
  return differs("has none of that name");
}

}  // namespace

Result<TritonConfig> read_triton_config(std::string_view text) {
  Result<Value> parsed = parse_pbtxt(text);
  if (!parsed.ok()) return parsed.error().within("config.pbtxt");
  const Value& message = *parsed;
  Refusals refusals;
  TritonConfig config;
  config.name = text_of(message, "name");
  const Value& most = one(message, "max_batch_size");
  const bool rows = most.is_int() && most.as_int() > 0;
  config.inputs = read_tensors(message, "input", rows, refusals);
  config.outputs = read_tensors(message, "output", rows, refusals);
  read_policy(one(message, "version_policy"), config, refusals);
  const std::string file = text_of(message, "default_model_filename");
  if (!file.empty()) config.file = file;
  check_backend(message, refusals);
  note_others(message, config, refusals);
  FALAJ_TRY(refusals.told());
  return config;
}

Status check_signature(const TritonConfig& config, const Value& signature) {
  for (const TritonTensor& tensor : config.inputs) {
    FALAJ_TRY(check_tensor(tensor, signature["inputs"], "input"));
  }
  for (const TritonTensor& tensor : config.outputs) {
    FALAJ_TRY(check_tensor(tensor, signature["outputs"], "output"));
  }
  return {};
}

Result<std::vector<std::string>> read_labels(std::string_view text) {
  constexpr std::size_t kLabelsMax = 100'000;
  constexpr std::size_t kLabelBytesMax = 256;
  std::vector<std::string> labels;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > kLabelBytesMax || labels.size() == kLabelsMax) {
      return Error(ErrorId::kOutOfRange, "labels: 100,000 at most, of 256 bytes at most each");
    }
    labels.emplace_back(line);
  }
  return labels;
}

}  // namespace falaj::cli
