#include <limits>
#include <utility>

#include "base/decode.h"
#include "features/training_sets.h"

namespace falaj::features {
namespace {

Value list_of(const std::vector<std::string>& texts) {
  Value out = Value::array();
  for (const std::string& text : texts) out.push(text);
  return out;
}

// An unlimited side of the period is left out.
void put_time(Value& out, std::string_view key, Timestamp time) {
  if (time != Timestamp::min() && time != Timestamp::max()) out[key] = to_rfc3339(time);
}

Result<Timestamp> take_time(Fields& fields, std::string_view key, Timestamp fallback) {
  const std::string text = FALAJ_TRY(fields.text(key));
  if (text.empty()) return fallback;
  return parse_timestamp(text);
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

Value to_value(const Manifest& manifest) {
  Value out = Value::object();
  out["name"] = manifest.name;
  out["project"] = manifest.project;
  out["zone"] = manifest.zone;
  out["id"] = manifest.id;
  out["data"] = manifest.data.str();
  out["data_sha256"] = manifest.data_sha256;
  out["rows"] = manifest.rows;
  out["rows_valid"] = manifest.rows_valid;
  out["features"] = list_of(manifest.features);
  out["keys"] = list_of(manifest.keys);
  out["time_column"] = manifest.time_column;
  out["label"] = manifest.label;
  out["service"] = manifest.service;
  out["service_generation"] = manifest.service_generation;
  out["views"] = list_of(manifest.views);
  out["segments"] = list_of(manifest.segments);
  out["spine_hash"] = manifest.spine_hash;
  out["known_at"] = manifest.known_at;
  Value leakage = Value::array();
  for (const Leakage& of_view : manifest.leakage) leakage.push(to_value(of_view));
  out["leakage"] = std::move(leakage);
  put_time(out, "from", manifest.from);
  put_time(out, "to", manifest.to);
  out["frozen_at"] = to_rfc3339(manifest.frozen_at);
  return out;
}

storage::Owner owner_of(const Manifest& manifest) {
  return {ProjectName(manifest.project), Zone(manifest.zone), "TrainingSet/" + manifest.name};
}

Result<Manifest> manifest_from_value(const Value& value) {
  Fields fields(value, "training set manifest");
  Manifest out;
  out.name = FALAJ_TRY(fields.required_text("name"));
  out.project = FALAJ_TRY(fields.required_text("project"));
  out.zone = FALAJ_TRY(fields.required_text("zone"));
  out.id = FALAJ_TRY(fields.required_text("id"));
  out.data = BlobId(FALAJ_TRY(fields.required_text("data")));
  out.data_sha256 = FALAJ_TRY(fields.required_text("data_sha256"));
  out.rows = static_cast<std::uint64_t>(FALAJ_TRY(fields.integer("rows", 0, 0, kMost)));
  out.rows_valid = static_cast<std::uint64_t>(FALAJ_TRY(fields.integer("rows_valid", 0, 0, kMost)));
  out.features = FALAJ_TRY(fields.texts("features"));
  out.keys = FALAJ_TRY(fields.texts("keys"));
  out.time_column = FALAJ_TRY(fields.required_text("time_column"));
  out.label = FALAJ_TRY(fields.required_text("label"));
  out.service = FALAJ_TRY(fields.required_text("service"));
  out.service_generation = FALAJ_TRY(fields.integer("service_generation", 0, 0, kMost));
  out.views = FALAJ_TRY(fields.texts("views"));
  out.segments = FALAJ_TRY(fields.texts("segments"));
  out.spine_hash = FALAJ_TRY(fields.required_text("spine_hash"));
  out.known_at = static_cast<std::uint64_t>(FALAJ_TRY(fields.integer("known_at", 0, 0, kMost)));
  for (const Value& of_view : FALAJ_TRY(fields.list("leakage"))) {
    out.leakage.push_back(FALAJ_TRY(leakage_from_value(of_view)));
  }
  out.from = FALAJ_TRY(take_time(fields, "from", Timestamp::min()));
  out.to = FALAJ_TRY(take_time(fields, "to", Timestamp::max()));
  out.frozen_at = FALAJ_TRY(take_time(fields, "frozen_at", Timestamp{}));
  FALAJ_TRY(fields.finish());
  return out;
}

}  // namespace falaj::features
