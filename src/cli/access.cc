// grants, can-i and why-denied: who may do what.
#include "cli/commands.h"

namespace falaj::cli {
namespace {

std::string joined(const Value& list) {
  std::string text;
  for (const Value& item : items(list)) text += (text.empty() ? "" : ", ") + cell(item);
  return text;
}

// "platform", or "payments Deployment/fraud team=risk".
std::string extent_text(const Value& on) {
  if (!on.is_object()) return cell(on);
  std::string text = on.text("project");
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  if (on.has("kind")) add(on.text("kind") + (on.has("name") ? "/" + on.text("name") : ""));
  if (on["labels"].is_object()) {
    for (const auto& [key, value] : on["labels"].as_object()) add(key + "=" + cell(value));
  }
  return text;
}

}  // namespace

Status show_grants(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/objects?kind=Grant&project="));
  Table table({"GRANT", "EFFECT", "TO", "WHAT", "ON", "EXPIRES"});
  for (const Value& grant : items(reply["objects"])) {
    const Value& spec = grant["spec"];
    table.add({grant["metadata"].text("name"), spec.text("effect", "permit"), joined(spec["to"]),
               spec.has("role") ? spec.text("role") : joined(spec["actions"]),
               extent_text(spec["on"]), spec.text("expires")});
  }
  print(session.format, reply, table.empty() ? "no grant that you may read\n" : table.str());
  return {};
}

Status show_my_rights(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/access:mine"));
  std::string text = cell(reply["principal"]) + "\n  platform: " + joined(reply["platform"]) + "\n";
  if (reply["projects"].is_object()) {
    for (const auto& [project, row] : reply["projects"].as_object()) {
      text += "  " + project + ": " + joined(row["all"]) + "\n";
      if (row["some"] != row["all"]) text += "    on some objects: " + joined(row["some"]) + "\n";
    }
  }
  print(session.format, reply, text);
  return {};
}

Status can_i(const Session& session, const AccessQuestion& question) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["action"] = question.action;
  body["project"] = question.project;
  body["principal"] = question.principal;
  const std::size_t slash = question.object.find('/');
  body["kind"] = question.object.substr(0, slash);
  if (slash != std::string::npos) body["name"] = question.object.substr(slash + 1);
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/access:decide", body));
  const bool allowed = reply["allowed"].is_bool() && reply["allowed"].as_bool();
  const std::string far = reply.text("out_of_reach");
  const bool as_file = reply["as_file"].is_bool() && reply["as_file"].as_bool();
  std::string text = std::string(allowed ? "yes" : "no") + ": " + reply.text("reason") + "\n";
  if (!far.empty()) {
    text += std::string("but not where you are") + (as_file ? ", except as a file" : "") + ": " +
            far + "\n";
  }
  print(session.format, reply, text);
  if (!far.empty() && !as_file) {
    return Error{ErrorId::kZoneRefused, "granted, but not to where you are: " + question.action};
  }
  if (allowed) return {};
  return Error{Code::kPermissionDenied, "not allowed: " + question.action};
}

Status why_denied(const Session& session, const std::string& request_id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->get("/api/v1/access/denials/" + url_encode(request_id)));
  std::string text = reply.text("at") + "  " + reply.text("action");
  if (!reply.text("kind").empty()) text += " on " + reply.text("kind") + "/" + reply.text("name");
  if (!reply.text("project").empty()) text += " of project " + reply.text("project");
  if (reply.has("principal")) text += "  asked by " + reply.text("principal");
  print(session.format, reply, text + "\n" + reply.text("reason") + "\n");
  return {};
}

}  // namespace falaj::cli
