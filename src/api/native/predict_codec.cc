#include "api/native/predict_codec.h"

#include <algorithm>

#include "api/native/entity_json.h"
#include "base/json.h"

namespace falaj::api {
namespace {

namespace dom = simdjson::dom;

Error malformed(std::string_view what) {
  return Error{ErrorId::kMalformedJson,
               "predict body: " + std::string(what) +
                   "; expected {\"entity\": {\"customer_id\": 42}} or {\"entities\": [{…}]}"};
}

void append_explanation(std::string& out, const serving::EntityPrediction& prediction) {
  const auto& plan = *prediction.live->plan;
  out += ",\"features\":{";
  for (std::size_t i = 0; i < plan.columns.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, plan.columns[i].name);
    out += ':';
    append_json_number(out, prediction.row.numbers[i]);
  }
  out += "},\"statuses\":{";
  for (std::size_t i = 0; i < plan.columns.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, plan.columns[i].name);
    out += ":\"";
    out += features::status_name(prediction.row.statuses[i]);
    out += '"';
  }
  out += '}';
}

}  // namespace

Status parse_predict(std::string_view body, PredictRequest& into) {
  dom::object object;
  if (const char* fault = parse_object(body, object)) return malformed(fault);
  EntityList entities("predict body", into.entities);
  for (const dom::key_value_pair member : object) {
    if (member.key == "entity") {
      FALAJ_TRY(entities.add(member.value));
    } else if (member.key == "entities") {
      FALAJ_TRY(entities.add_all(member.value, PredictRequest::kEntitiesMax));
    } else {
      return Error{
          ErrorId::kUnknownField,
          "predict body: unknown member '" + std::string(member.key) + "'; use entity or entities"};
    }
  }
  if (entities.count() == 0) return malformed("no entity");
  return {};
}

std::pair<std::uint64_t, std::uint64_t> commits_of(
    std::span<const serving::EntityPrediction> predictions) {
  std::pair<std::uint64_t, std::uint64_t> commits{predictions.front().row.commit,
                                                  predictions.front().row.commit};
  for (const serving::EntityPrediction& each : predictions) {
    commits.first = std::min(commits.first, each.row.commit);
    commits.second = std::max(commits.second, each.row.commit);
  }
  return commits;
}

std::string write_predictions(std::string_view deployment, const PredictRequest& request,
                              std::span<const serving::EntityPrediction> predictions,
                              PredictAnswer answer) {
  std::string out;
  out.reserve(128 + predictions.size() * 96);
  out += "{\"deployment\":";
  append_json_string(out, deployment);
  out += ",\"model\":";
  append_json_string(out, predictions.front().live->version.model);
  out += ",\"version\":";
  out += std::to_string(predictions.front().version);
  if (answer.commits == Commits::kYes) {
    const auto [first, last] = commits_of(predictions);
    out += ",\"commits\":{\"first\":" + std::to_string(first) +
           ",\"last\":" + std::to_string(last) + "}";
  }
  out += ",\"predictions\":[";
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"entity\":";
    append_entity(out, request.entities[i]);
    out += ",\"score\":";
    append_json_number(out, static_cast<double>(predictions[i].score));
    if (answer.explain == Explain::kYes) append_explanation(out, predictions[i]);
    out += '}';
  }
  out += "]}";
  return out;
}

}  // namespace falaj::api
