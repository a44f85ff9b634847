// models and predict.
#include <charconv>

#include "cli/commands.h"

namespace falaj::cli {
namespace {

std::string aliases_of(const Value& model, std::int64_t version) {
  std::string names;
  if (!model["aliases"].is_object()) return names;
  for (const auto& [alias, at] : model["aliases"].as_object()) {
    if (at == Value(version)) names += (names.empty() ? "" : ",") + alias;
  }
  return names;
}

void add_versions(Table& table, const Value& model) {
  for (const Value& version : items(model["versions"])) {
    table.add({model.text("name"), cell(version["version"]),
               aliases_of(model, version.integer("version")), cell(version["metrics"]["auc"]),
               cell(version["proof"]["rows"]), cell(version["created_at"]),
               version.has("retrain_due") ? "due: " + version["retrain_due"].text("cause") : "-"});
  }
}

}  // namespace

// customer_id=42 → a whole number; anything else stays text.
Result<Value> entity_of(const std::vector<std::string>& keys) {
  Value entity = Value::object();
  for (const std::string& pair : keys) {
    const std::size_t at = pair.find('=');
    if (at == std::string::npos || at == 0) {
      return Error{ErrorId::kUsage, "'" + pair + "' is not name=value"};
    }
    if (entity.has(pair.substr(0, at))) {
      return Error{ErrorId::kUsage, "the key '" + pair.substr(0, at) + "' is given twice"};
    }
    const std::string text = pair.substr(at + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    entity[pair.substr(0, at)] = whole ? Value(number) : Value(text);
  }
  return entity;
}

Status alias_taken(const Value& reply, std::int64_t version) {
  std::string refused;
  for (const Value& each : items(reply["deployments"])) {
    const std::string error = each.text("error");
    if (each.integer("version") == version && error.empty()) continue;
    refused += (refused.empty() ? "" : "; ") + std::string("deployment '") + each.text("name") +
               "' serves version " + cell(each["version"]) + " (" + each.text("state") + ")" +
               (error.empty() ? "" : ": " + error);
  }
  if (refused.empty()) return {};
  return Error{ErrorId::kModelNotReady,
               "the alias is set, but was not taken by every deployment: " + refused};
}

Status show_models(const Session& session, const std::string& model) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Table table({"MODEL", "VERSION", "ALIAS", "AUC", "ONNX PROOF ROWS", "CREATED", "RETRAIN"});
  const std::string path = model.empty() ? "" : "/" + url_encode(model);
  const Value reply = FALAJ_TRY(connection->get("/api/v1/models" + path));
  if (model.empty()) {
    for (const Value& each : items(reply["models"])) add_versions(table, each);
  } else {
    if (items(reply["versions"]).empty()) {
      return Error{ErrorId::kModelNotFound,
                   "there is no model '" + model + "' in project '" + session.target.project + "'"};
    }
    add_versions(table, reply);
  }
  print(session.format, reply,
        table.empty() ? "no model is registered in project '" + session.target.project + "'\n"
                      : table.str());
  return {};
}

Status set_alias(const Session& session, const std::string& model, const std::string& alias,
                 std::int64_t version, const std::string& reason) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["version"] = version;
  body["reason"] = reason;
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kPut, "/api/v1/models/" + url_encode(model) + "/aliases/" + url_encode(alias),
      body));
  print(session.format, reply,
        model + ": " + alias + " now points at version " + std::to_string(version) + "\n");
  return alias_taken(reply, version);
}

Status predict(const Session& session, const std::string& deployment,
               const std::vector<std::string>& keys) {
  Value body;
  body["entity"] = FALAJ_TRY(entity_of(keys));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kPost, "/api/v1/deployments/" + url_encode(deployment) + ":predict?explain=true",
      body));
  const Value::Array& predictions = items(reply["predictions"]);
  if (predictions.empty() || !predictions.front()["features"].is_object()) {
    return Error{Code::kInternal, "the server answered without a prediction"};
  }
  const Value& prediction = predictions.front();
  Table table({"FEATURE", "VALUE", "STATUS"});
  for (const auto& [name, value] : prediction["features"].as_object()) {
    table.add({name, cell(value), prediction["statuses"].text(name)});
  }
  print(session.format, reply,
        table.str() + "\nscore " + bold(cell(prediction["score"])) + "  by " + reply.text("model") +
            " version " + cell(reply["version"]) + "\n");
  return {};
}

}  // namespace falaj::cli
