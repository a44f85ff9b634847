#include "jobs/constraints.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.h"
#include "scheduler/mig.h"

namespace falaj::jobs {
namespace {

using scheduler::Level;
using scheduler::MigProfile;

constexpr std::size_t kLabelsMax = 32;
constexpr std::size_t kTextMax = 63;
constexpr std::size_t kDataMax = 16;
constexpr std::size_t kZonesMax = 16;
constexpr std::size_t kModelsMax = 8;
constexpr std::size_t kTagsMax = 8;
constexpr std::int64_t kGpuMemoryMost = std::int64_t{1} << 50;
constexpr Duration kEveryMost = Duration::days(30);
constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

constexpr std::array<std::pair<Level, std::string_view>, 6> kLevels = {
    {{Level::kCluster, "anywhere"},
     {Level::kHost, "host"},
     {Level::kNvlink, "nvlink"},
     {Level::kRack, "rack"},
     {Level::kBlock, "block"},
     {Level::kZone, "zone"}}};

constexpr std::array kProfiles = {MigProfile::k1g, MigProfile::k1gDouble, MigProfile::k2g,
                                  MigProfile::k3g, MigProfile::k4g,       MigProfile::k7g};

Error wrong(const std::string& where, const std::string& what) {
  return Error(ErrorId::kOutOfRange, where + ": " + what);
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= kTextMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '/' || c == '-';
         });
}

// A list of names: sorted unless their order says something, each once.
enum class Order : std::uint8_t { kSorted, kKept };
Result<std::vector<std::string>> names(Fields& fields, std::string_view key, std::size_t most,
                                       Order order = Order::kSorted) {
  std::vector<std::string> out = FALAJ_TRY(fields.texts(key));
  for (const std::string& each : out) {
    if (is_word(each)) continue;
    return wrong(fields.where(), "'" + std::string(key) +
                                     "' are names of 1 to 63 letters, digits and ._/-, not '" +
                                     each.substr(0, kTextMax) + "'");
  }
  if (order == Order::kSorted) std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (out.size() <= most) return out;
  return wrong(fields.where(), "'" + std::string(key) + "' names at most " + std::to_string(most));
}

Result<Level> level(Fields& fields, std::string_view key) {
  std::vector<std::string> choices;
  for (const auto& [each, name] : kLevels) choices.emplace_back(name);
  const std::string said = FALAJ_TRY(fields.choice(key, choices));
  for (const auto& [each, name] : kLevels) {
    if (name == said) return each;
  }
  return Level::kCluster;
}

std::string_view level_name(Level level) {
  for (const auto& [each, name] : kLevels) {
    if (each == level) return name;
  }
  return kLevels.front().second;
}

Result<std::vector<DataReference>> decode_data(Fields& fields) {
  std::vector<DataReference> out;
  const Value::Array list = FALAJ_TRY(fields.list("data"));
  if (list.size() > kDataMax) return wrong(fields.where(), "'data' names at most 16");
  for (const Value& value : list) {
    Fields each(value, fields.where() + " data");
    DataReference reference;
    reference.name = FALAJ_TRY(each.required_text("name"));
    if (!is_word(reference.name)) {
      return wrong(each.where(), "'name' has 1 to 63 letters, digits and ._/-");
    }
    reference.zones = FALAJ_TRY(names(each, "zones", kZonesMax));
    if (reference.zones.empty()) {
      return Error(ErrorId::kMissingField,
                   each.where() + " " + reference.name + ": 'zones' is needed: where it may be");
    }
    FALAJ_TRY(each.finish());
    out.push_back(std::move(reference));
  }
  return out;
}

Status check_gpu(const GpuChoice& gpu, const std::string& where, std::int64_t gpus) {
  if (gpu != GpuChoice{} && gpus == 0) {
    return wrong(where, "it says which GPU will do and the job asks for none: set 'gpus'");
  }
  if (gpu.is_part() && gpus != 1) {
    return wrong(where, "'fraction' and 'mig' are a part of one GPU: 'gpus' is 1");
  }
  if (gpu.fraction_milli < 1000 && gpu.mig != MigProfile::kWhole) {
    return wrong(where, "'fraction' and 'mig' are two ways to share a GPU: say one");
  }
  return {};
}

Result<GpuChoice> decode_gpu(Fields& placement, std::int64_t gpus) {
  const Value value = FALAJ_TRY(placement.object("gpu"));
  Fields fields(value, placement.where() + " gpu");
  GpuChoice out;
  out.models = FALAJ_TRY(names(fields, "models", kModelsMax, Order::kKept));
  out.memory_bytes = FALAJ_TRY(fields.bytes("memory", 0));
  if (out.memory_bytes < 0 || out.memory_bytes > kGpuMemoryMost) {
    return wrong(fields.where(), "'memory' is at most 1024Ti");
  }
  const double fraction = FALAJ_TRY(fields.number("fraction", 1));
  if (!(fraction >= 0.001 && fraction <= 1)) {
    return wrong(fields.where(), "'fraction' is within 0.001 and 1");
  }
  out.fraction_milli = std::llround(fraction * 1000);
  const std::string mig = FALAJ_TRY(fields.text("mig"));
  if (!mig.empty()) {
    auto name = parse_mig(mig);
    if (!name.ok()) return name.error().within(fields.where());
    out.mig = name->profile;
    out.memory_bytes = std::max(out.memory_bytes, name->memory_bytes);
  }
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_gpu(out, fields.where(), gpus));
  return out;
}

Value list_of(const std::vector<std::string>& texts) {
  Value out = Value::array();
  for (const std::string& each : texts) out.push(each);
  return out;
}

Value object_of(const Labels& labels) {
  Value out = Value::object();
  for (const auto& [key, value] : labels) out[key] = value;
  return out;
}

Value value_of(const GpuChoice& gpu) {
  Value out;
  if (!gpu.models.empty()) out["models"] = list_of(gpu.models);
  if (gpu.memory_bytes > 0) out["memory"] = gpu.memory_bytes;
  if (gpu.fraction_milli < 1000) out["fraction"] = static_cast<double>(gpu.fraction_milli) / 1000;
  if (gpu.mig != MigProfile::kWhole) out["mig"] = scheduler::to_string(gpu.mig);
  return out;
}

}  // namespace

Result<MigName> parse_mig(const std::string& text) {
  for (const MigProfile each : kProfiles) {
    if (text == scheduler::to_string(each)) return MigName{each, 0};
  }
  const std::size_t dot = text.find('.');
  const std::string size = dot == std::string::npos ? "" : text.substr(dot + 1);
  const bool sized =
      size.size() > 2 && size.size() <= 6 && size.ends_with("gb") &&
      std::all_of(size.begin(), size.end() - 2, [](char c) { return c >= '0' && c <= '9'; });
  for (const MigProfile each : kProfiles) {
    if (!sized || text.substr(0, dot) != scheduler::to_string(each)) continue;
    return MigName{each, std::stoll(size) * kGibibyte};
  }
  const std::string why = text.ends_with("+me") ? " (media engines are not told apart)" : "";
  return wrong("'mig'", "'" + text.substr(0, kTextMax) + "' is no profile" + why +
                            ": 1g, 1g.double, 2g, 3g, 4g, 7g, or as 3g.40gb");
}

Result<Labels> decode_labels(const Value& value, const std::string& where) {
  Labels out;
  if (value.is_null()) return out;
  if (!value.is_object()) {
    return Error(ErrorId::kWrongType,
                 where + " is a " + std::string(value.type_name()) + ", not an object of texts");
  }
  for (const auto& [key, text] : value.as_object()) {
    if (!text.is_string() || !is_word(key) || !is_word(text.as_string())) {
      return wrong(where, "'" + key.substr(0, kTextMax) +
                              "': names and texts have 1 to 63 letters, digits and ._/-");
    }
    out.emplace(key, text.as_string());
  }
  if (out.size() > kLabelsMax) return wrong(where, "there are at most 32");
  return out;
}

Result<Constraints> decode_constraints(const Value& placement, std::int64_t gpus) {
  Fields fields(placement, "job placement");
  Constraints out;
  out.labels = FALAJ_TRY(decode_labels(fields.any("labels"), fields.where() + " labels"));
  out.not_labels =
      FALAJ_TRY(decode_labels(fields.any("not_labels"), fields.where() + " not_labels"));
  out.data = FALAJ_TRY(decode_data(fields));
  out.gpu = FALAJ_TRY(decode_gpu(fields, gpus));
  out.numa = FALAJ_TRY(fields.boolean("numa", false));
  out.together = FALAJ_TRY(level(fields, "together"));
  out.prefer = FALAJ_TRY(level(fields, "prefer"));
  out.tags = FALAJ_TRY(names(fields, "tags", kTagsMax));
  out.avoid = FALAJ_TRY(names(fields, "avoid", kTagsMax));
  out.near = FALAJ_TRY(names(fields, "near", kTagsMax));
  FALAJ_TRY(fields.finish());
  return out;
}

Result<Saving> decode_saving(const Value& checkpoint) {
  Fields fields(checkpoint, "job checkpoint");
  Saving out;
  out.every = FALAJ_TRY(fields.duration("every", Duration{}));
  out.restart = FALAJ_TRY(fields.duration("restart", Duration{}));
  FALAJ_TRY(fields.finish());
  for (const Duration each : {out.every, out.restart}) {
    if (each.nanos < 0 || each > kEveryMost) {
      return wrong(fields.where(), "'every' and 'restart' are at most 30 days");
    }
  }
  return out;
}

Value to_value(const Constraints& constraints) {
  Value out;
  if (!constraints.labels.empty()) out["labels"] = object_of(constraints.labels);
  if (!constraints.not_labels.empty()) out["not_labels"] = object_of(constraints.not_labels);
  for (const DataReference& each : constraints.data) {
    Value reference;
    reference["name"] = each.name;
    reference["zones"] = list_of(each.zones);
    out["data"].push(std::move(reference));
  }
  if (constraints.gpu != GpuChoice{}) out["gpu"] = value_of(constraints.gpu);
  if (constraints.numa) out["numa"] = true;
  if (constraints.together != Level::kCluster) out["together"] = level_name(constraints.together);
  if (constraints.prefer != Level::kCluster) out["prefer"] = level_name(constraints.prefer);
  if (!constraints.tags.empty()) out["tags"] = list_of(constraints.tags);
  if (!constraints.avoid.empty()) out["avoid"] = list_of(constraints.avoid);
  if (!constraints.near.empty()) out["near"] = list_of(constraints.near);
  return out;
}

Value to_value(const Saving& saving) {
  Value out;
  if (saving.every.nanos > 0) out["every"] = to_string(saving.every);
  if (saving.restart.nanos > 0) out["restart"] = to_string(saving.restart);
  return out;
}

// It was checked before it was stored, perhaps by another version.
Constraints constraints_from_stored(const Value& value) {
  const std::int64_t gpus = value.is_object() && value["gpu"].is_object() ? 1 : 0;
  auto read = decode_constraints(value, gpus);
  if (read.ok()) return std::move(read).value();
  Constraints out;
  out.unreadable = read.error().message;
  return out;
}

Saving saving_from_stored(const Value& value) {
  return decode_saving(value.is_object() ? value : Value()).value_or(Saving{});
}

std::string to_text(const GpuChoice& choice) {
  std::string text;
  for (const std::string& model : choice.models) {
    text += (text.empty() ? "model " : " or ") + model;
  }
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (choice.memory_bytes > 0) add(format_bytes(choice.memory_bytes));
  if (choice.mig != MigProfile::kWhole) add("as " + std::string(scheduler::to_string(choice.mig)));
  return text;
}

std::string label_text(const std::string& key, const std::string& value) {
  return key + "=" + value;
}

}  // namespace falaj::jobs
