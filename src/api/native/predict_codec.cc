#include "api/native/predict_codec.h"

#include <simdjson.h>

#include "base/json.h"

namespace falaj::api {
namespace {

namespace dom = simdjson::dom;

Error malformed(std::string_view what) {
  return Error{ErrorId::kMalformedJson,
               "predict body: " + std::string(what) +
                   "; expected {\"entity\": {\"customer_id\": 42}} or {\"entities\": [{…}]}"};
}

// Fills a request's entities from the first, using again what stood there before.
class Entities {
 public:
  explicit Entities(std::vector<EntityKeys>& all) : all_(all) {}
  ~Entities() { all_.resize(count_); }
  Entities(const Entities&) = delete;
  Entities& operator=(const Entities&) = delete;

  std::size_t count() const { return count_; }
  EntityKeys& next() {
    if (count_ == all_.size()) all_.emplace_back();
    EntityKeys& keys = all_[count_++];
    keys.clear();
    return keys;
  }

 private:
  std::vector<EntityKeys>& all_;
  std::size_t count_ = 0;
};

Status parse_entity(dom::element element, EntityKeys& keys) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, "predict body: an entity is an object of key: id"};
  }
  keys.reserve(object.size());
  for (const dom::key_value_pair member : object) {
    std::int64_t number = 0;
    std::string_view text;
    if (member.value.get(number) == simdjson::SUCCESS) {
      keys.emplace_back(std::string(member.key), number);
    } else if (member.value.get(text) == simdjson::SUCCESS) {
      keys.emplace_back(std::string(member.key), std::string(text));
    } else {
      return Error{ErrorId::kWrongType, "predict body: key '" + std::string(member.key) +
                                            "' must be a whole number or a text"};
    }
  }
  return {};
}

Status parse_entities(dom::element element, Entities& entities) {
  dom::array list;
  if (element.get(list) != simdjson::SUCCESS) {
    return Error{ErrorId::kWrongType, "predict body: entities must be a list"};
  }
  for (const dom::element item : list) {
    if (entities.count() == PredictRequest::kEntitiesMax) {
      return Error{ErrorId::kOutOfRange, "predict body: over " +
                                             std::to_string(PredictRequest::kEntitiesMax) +
                                             " entities; split the request"};
    }
    FALAJ_TRY(parse_entity(item, entities.next()));
  }
  return {};
}

void append_entity(std::string& out, const EntityKeys& keys) {
  out += '{';
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, keys[i].first);
    out += ':';
    if (const auto* number = std::get_if<std::int64_t>(&keys[i].second)) {
      out += std::to_string(*number);
    } else {
      append_json_string(out, std::get<std::string>(keys[i].second));
    }
  }
  out += '}';
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
  if (body.empty()) return malformed("the body is empty");
  // One parser a thread: its buffers grow once and are reused for every request.
  thread_local dom::parser parser;
  dom::element root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) {
    return malformed("not valid JSON");
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return malformed("not an object");
  Entities entities(into.entities);
  for (const dom::key_value_pair member : object) {
    if (member.key == "entity") {
      FALAJ_TRY(parse_entity(member.value, entities.next()));
    } else if (member.key == "entities") {
      FALAJ_TRY(parse_entities(member.value, entities));
    } else {
      return Error{
          ErrorId::kUnknownField,
          "predict body: unknown member '" + std::string(member.key) + "'; use entity or entities"};
    }
  }
  if (entities.count() == 0) return malformed("no entity");
  return {};
}

std::string write_predictions(std::string_view deployment, const PredictRequest& request,
                              std::span<const serving::EntityPrediction> predictions,
                              Explain explain) {
  std::string out;
  out.reserve(128 + predictions.size() * 96);
  out += "{\"deployment\":";
  append_json_string(out, deployment);
  out += ",\"model\":";
  append_json_string(out, predictions.front().live->version.model);
  out += ",\"version\":";
  out += std::to_string(predictions.front().version);
  out += ",\"predictions\":[";
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"entity\":";
    append_entity(out, request.entities[i]);
    out += ",\"score\":";
    append_json_number(out, static_cast<double>(predictions[i].score));
    if (explain == Explain::kYes) append_explanation(out, predictions[i]);
    out += '}';
  }
  out += "]}";
  return out;
}

}  // namespace falaj::api
