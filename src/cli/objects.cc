// apply, diff, get, list, delete, export.
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "cli/commands.h"
#include "cli/kinds.h"
#include "cli/local_file.h"
#include "config/yaml.h"

namespace falaj::cli {
namespace {

// What people leave out is filled in (apiVersion, the project named by --project); what the server
// added to an object it printed is taken off, so that `falaj get … | falaj apply -f -` works.
void complete(Value& document, const std::string& project) {
  if (!document.is_object()) return;
  if (!document.has("apiVersion")) document["apiVersion"] = "falaj.dev/v1";
  if (!document["metadata"].is_object()) return;
  for (const char* added : {"generation", "created_at", "updated_at"}) {
    document["metadata"].as_object().erase(added);
  }
  const std::string kind = document.text("kind");
  const bool above = kind == "Project" || kind == "Zone" || kind == "Grant" || kind == "Group" ||
                     kind == "Transfer" || kind == "SchedulingPolicy" || kind == "Node";
  if (above || document["metadata"].has("project")) return;
  document["metadata"]["project"] = project;
}

}  // namespace

Result<Value> read_documents(const Session& session, const std::vector<std::string>& files) {
  Value body;
  body["objects"] = Value::array();
  for (const std::string& file : files) {
    const std::string text = FALAJ_TRY(read_text(file));
    Result<std::vector<Value>> documents = config::parse_yaml(text);
    if (!documents.ok()) return documents.error().within(file);
    for (Value& document : documents.value()) {
      if (document.is_null()) continue;
      complete(document, session.target.project);
      body["objects"].push(std::move(document));
    }
  }
  if (body["objects"].as_array().empty()) {
    return Error{Code::kInvalidArgument, "no object found in the given files"};
  }
  return body;
}

namespace {

std::string object_path(const Value& object) {
  return "/api/v1/objects/" + url_encode(object.text("kind")) + "/" +
         url_encode(object["metadata"].text("name")) +
         "?project=" + url_encode(object["metadata"].text("project"));
}

// What a person typed, without what the server adds.
Value typed_form(const Value& object) {
  Value typed;
  typed["apiVersion"] = "falaj.dev/v1";
  typed["kind"] = object.text("kind");
  for (const char* key : {"name", "project", "labels"}) {
    const Value& member = object["metadata"][key];
    if (!member.is_null() && member != Value("")) typed["metadata"][key] = member;
  }
  typed["spec"] = object["spec"].is_null() ? Value::object() : object["spec"];
  return typed;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The longest common subsequence, as +/- lines. Objects are short: quadratic is fine.
std::string line_diff(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<std::size_t>> common(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out += "  " + a[i++] + "\n";
      ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      out += "- " + a[i++] + "\n";
    } else {
      out += "+ " + b[j++] + "\n";
    }
  }
  return out;
}

// What a project stands on, ready to apply before it: its zones, outermost first, and itself.
Result<Value::Array> surroundings(Connection& connection) {
  const std::string base = "/api/v1/objects/";
  const Value project =
      FALAJ_TRY(connection.get(base + "Project/" + url_encode(connection.target().project)));
  Value::Array objects{project};
  // Zones have no circles (the server refuses them), so this ends.
  for (std::string zone = project["spec"].text("zone"); !zone.empty();) {
    const Value object = FALAJ_TRY(connection.get(base + "Zone/" + url_encode(zone)));
    zone = object["spec"].text("parent");
    objects.insert(objects.begin(), object);
  }
  return objects;
}

std::string object_table(const Value::Array& objects) {
  Table table({"KIND", "PROJECT", "NAME", "GENERATION", "UPDATED"});
  for (const Value& object : objects) {
    const Value& metadata = object["metadata"];
    table.add({object.text("kind"), cell(metadata["project"]), metadata.text("name"),
               cell(metadata["generation"]), cell(metadata["updated_at"])});
  }
  return table.str();
}

}  // namespace

Result<ObjectWords> split_object(const ObjectWords& words) {
  ObjectWords out = words;
  const std::size_t slash = words.kind.find('/');
  if (words.name.empty() && slash != std::string::npos) {
    out = {words.kind.substr(0, slash), words.kind.substr(slash + 1)};
  }
  if (!out.kind.empty() && !out.name.empty()) return out;
  return Error{ErrorId::kUsage, "'" + words.kind + "' names no object: write " +
                                    (out.kind.empty() ? "KIND" : out.kind) + " NAME, or " +
                                    (out.kind.empty() ? "KIND" : out.kind) + "/NAME"};
}

Status apply_files(const Session& session, const std::vector<std::string>& files, DryRun dry_run) {
  const Value body = FALAJ_TRY(read_documents(session, files));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const std::string path =
      dry_run == DryRun::kYes ? "/api/v1/objects?dry_run=true" : "/api/v1/objects";
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPut, path, body));
  Table table({"KIND", "PROJECT", "NAME", "OUTCOME", "GENERATION"});
  for (const Value& row : items(reply["applied"])) {
    table.add({row.text("kind"), cell(row["project"]), row.text("name"), row.text("outcome"),
               cell(row["generation"])});
  }
  print(session.format, reply, table.str());
  return {};
}

Result<std::int64_t> diff_files(const Session& session, const std::vector<std::string>& files) {
  const Value body = FALAJ_TRY(read_documents(session, files));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value reply;
  reply["differs"] = Value::array();
  std::string text;
  for (const Value& object : body["objects"].as_array()) {
    const Value wanted = typed_form(object);
    const Result<Value> stored = connection->get(object_path(object));
    if (!stored.ok() && stored.error().code != Code::kNotFound) return stored.error();
    const std::string before = stored.ok() ? config::to_yaml(typed_form(stored.value())) : "";
    const std::string after = config::to_yaml(wanted);
    if (before == after) continue;
    Value row;
    row["kind"] = object.text("kind");
    row["name"] = object["metadata"].text("name");
    row["project"] = object["metadata"].text("project");
    row["diff"] = line_diff(lines_of(before), lines_of(after));
    text += bold(row.text("kind") + "/" + row.text("name")) + "\n" + row.text("diff");
    reply["differs"].push(std::move(row));
  }
  print(session.format, reply, text);
  return static_cast<std::int64_t>(reply["differs"].as_array().size());
}

Status get_object(const Session& session, const ObjectWords& words) {
  const ObjectWords asked = FALAJ_TRY(split_object(words));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Kind known = FALAJ_TRY(find_kind(*connection, asked.kind));
  const Value object = FALAJ_TRY(
      connection->get("/api/v1/objects/" + url_encode(known.name) + "/" + url_encode(asked.name)));
  const OutputFormat format =
      session.format == OutputFormat::kTable ? OutputFormat::kYaml : session.format;
  print(format, object, "");
  return {};
}

Status list_objects(const Session& session, const std::string& kind) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Kind known = kind.empty() ? Kind{} : FALAJ_TRY(find_kind(*connection, kind));
  const bool platform = known.scope == KindScope::kPlatform;
  const std::string query = known.name.empty() ? "" : "kind=" + url_encode(known.name);
  const Value reply =
      FALAJ_TRY(connection->get("/api/v1/objects?" + query + (platform ? "&project=" : "")));
  const Value::Array& objects = items(reply["objects"]);
  if (!platform && objects.empty()) FALAJ_TRY(check_project(*connection));
  const std::string where = platform ? "" : " in project '" + session.target.project + "'";
  const std::int64_t hidden = known.name == "Project" ? reply.integer("projects_out_of_reach") : 0;
  const std::string what = known.name.empty() ? "object" : known.name;
  std::string text = objects.empty() ? "no " + what + where : object_table(objects);
  if (objects.empty()) text += hidden > 0 ? "\n" : "; falaj apply -f FILE declares one\n";
  if (hidden > 0) {
    text += "not shown, because their data may not go where you are: " + std::to_string(hidden) +
            " (falaj whoami shows your zone)\n";
  }
  print(session.format, reply, text);
  return {};
}

Status delete_object(const Session& session, const ObjectWords& words) {
  const ObjectWords asked = FALAJ_TRY(split_object(words));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Kind known = FALAJ_TRY(find_kind(*connection, asked.kind));
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kDelete,
      "/api/v1/objects/" + url_encode(known.name) + "/" + url_encode(asked.name), Value()));
  print(session.format, reply, "deleted " + reply.text("deleted") + "\n");
  return {};
}

Status export_objects(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value inside = FALAJ_TRY(connection->get("/api/v1/objects"));
  Value reply;
  reply["objects"] = Value(FALAJ_TRY(surroundings(*connection)));
  for (const Value& object : items(inside["objects"])) reply["objects"].push(object);
  if (session.format == OutputFormat::kJson) {
    print(session.format, reply, "");
    return {};
  }
  for (const Value& object : reply["objects"].as_array()) {
    std::printf("---\n%s", config::to_yaml(typed_form(object)).c_str());
  }
  return {};
}

}  // namespace falaj::cli
