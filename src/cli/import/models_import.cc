#include "cli/import/models_import.h"

#include "base/decode.h"
#include "cli/local_file.h"
#include "crypto/base64.h"

namespace falaj::cli {
namespace {

std::string model_path(const std::string& model) { return "/api/v1/models/" + url_encode(model); }

// Every model has a name here, and the words fit what was found.
Status settle_names(const ImportChoice& choice, std::vector<FoundModel>& models) {
  if (!choice.model.empty() && models.size() > 1) {
    return Error(ErrorId::kUsage, "--model names one model, but " + choice.path + " has " +
                                      std::to_string(models.size()));
  }
  if (!choice.model.empty()) models.front().name = choice.model;
  for (const FoundModel& each : models) {
    if (each.name.empty()) {
      return Error(ErrorId::kUsage,
                   "name the model: falaj models import " + choice.path + " --model NAME");
    }
    const Status named = check_name("model", each.name);
    if (!named.ok()) return named.error().within("give another name with --model");
  }
  const bool one_file = models.size() == 1 && models.front().files.size() == 1;
  if (choice.signature.empty() || one_file) return {};
  return Error(ErrorId::kUsage, "--signature is of one file, but several are imported");
}

Result<Value> register_file(Connection& connection, const std::string& model,
                            const FoundModel::File& file) {
  const auto added = connection.upload(model_path(model) + "/versions:import", file.path);
  if (!added.ok()) return added.error().within(file.path);
  return added;
}

Status serve(Connection& connection, const std::string& project, const FoundModel& found,
             std::int64_t version) {
  Value body;
  body["objects"] = Value::array();
  body["objects"].push(deployment_of(found, project));
  FALAJ_TRY(connection.call(net::Method::kPut, "/api/v1/objects", body));
  Value alias;
  alias["version"] = version;
  alias["reason"] = "imported with --deploy";
  const Value reply = FALAJ_TRY(
      connection.call(net::Method::kPut, model_path(found.name) + "/aliases/champion", alias));
  return alias_taken(reply, version);
}

std::string next_step(const std::string& model, const std::string& version) {
  return "serve it with: falaj promote " + model + " " + version;
}

// One model; what became of it goes into `reply`, for a person into `text`.
Status import_one(Connection& connection, const std::string& project, const FoundModel& found,
                  const ImportChoice& choice, Value& reply, std::string& text) {
  Value newest;
  for (const FoundModel::File& file : found.files) {
    newest = FALAJ_TRY(register_file(connection, found.name, file));
    Value row = newest;
    if (file.theirs > 0) row["imported_from"] = file.theirs;
    reply["versions"].push(std::move(row));
    text += found.name + " version " + cell(newest["version"]) + " registered" +
            (file.theirs > 0 ? ", which was " + std::to_string(file.theirs) : std::string()) +
            (choice.deploy || &file != &found.files.back()
                 ? ""
                 : "; " + next_step(found.name, cell(newest["version"]))) +
            "\n";
    if (found.config) FALAJ_TRY(check_signature(*found.config, newest["signature"]));
  }
  if (found.config) {
    for (const std::string& field : found.config->left_out) {
      reply["left_out"].push(found.name + ": " + field);
      text += "not taken over: " + field + "\n";
    }
  }
  if (!choice.deploy) return {};
  FALAJ_TRY(serve(connection, project, found, newest.integer("version")));
  text += found.name + " is served by version " + cell(newest["version"]) + "\n";
  return {};
}

}  // namespace

Value deployment_of(const FoundModel& found, const std::string& project) {
  Value object;
  object["apiVersion"] = "falaj.dev/v1";
  object["kind"] = "Deployment";
  object["metadata"]["name"] = found.name;
  object["metadata"]["project"] = project;
  Value& spec = object["spec"];
  spec["model"] = found.name;
  spec["alias"] = "champion";
  if (found.config && found.config->cached) spec["cache"]["bytes"] = "64Mi";
  for (const auto& [output, labels] : found.labels) {
    spec["labels"][output] = Value::array();
    for (const std::string& label : labels) spec["labels"][output].push(label);
  }
  return object;
}

Status import_models(const Session& session, const ImportChoice& choice) {
  std::vector<FoundModel> models = FALAJ_TRY(find_models(choice.path));
  FALAJ_TRY(settle_names(choice, models));
  Target target = session.target;
  if (!choice.signature.empty()) {
    const std::string bundle = FALAJ_TRY(read_text(choice.signature));
    target.headers.emplace_back("X-Falaj-Signature", crypto::base64(bundle));
  }
  const auto connection = FALAJ_TRY(Connection::open(target));
  Value reply;
  reply["versions"] = Value::array();
  reply["left_out"] = Value::array();
  std::string text;
  Status done;
  for (const FoundModel& found : models) {
    done = import_one(*connection, target.project, found, choice, reply, text);
    if (!done.ok()) break;
  }
  // What was registered is, whatever failed after it.
  if (done.ok() || !items(reply["versions"]).empty()) print(session.format, reply, text);
  return done;
}

}  // namespace falaj::cli
