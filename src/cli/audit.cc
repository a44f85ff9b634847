// audit and explain.
#include "base/json.h"
#include "cli/commands.h"

namespace falaj::cli {

Status show_audit(const Session& session, const AuditFilter& filter) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  // "loop" means every action of the loop; the server takes a prefix with its dot.
  const bool prefix = !filter.action.empty() && filter.action.find('.') == std::string::npos;
  const std::string action = filter.action + (prefix ? "." : "");
  const Value reply = FALAJ_TRY(connection->get(
      "/api/v1/audit?project=" + url_encode(filter.project) +
      "&limit=" + std::to_string(filter.limit) + "&action=" + url_encode(action) +
      "&object=" + url_encode(filter.object) + "&actor=" + url_encode(filter.actor)));
  Table table({"#", "AT", "ACTOR", "ACTION", "OBJECT"});
  for (const Value& entry : items(reply["entries"])) {
    table.add({cell(entry["sequence"]), entry.text("at"), entry.text("actor"), entry.text("action"),
               cell(entry["object"])});
  }
  // Who reads one project's entries is not told how many others there are.
  const std::string all =
      reply.has("head") ? std::to_string(reply["head"].integer("sequence")) + " " : "";
  const std::string none = all == "0 " ? "the audit is empty\n"
                                       : "none of the " + all + "entries of the audit matches\n";
  print(session.format, reply, table.empty() ? none : table.str());
  return {};
}

Status verify_audit(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/audit:verify", Value::object()));
  print(session.format, reply,
        "the log holds: " + cell(reply["head"]["sequence"]) + " entries, head " +
            reply["head"].text("hash").substr(0, 16) + "\n");
  return {};
}

Status replay_audit(const Session& session, std::int64_t sequence) {
  if (sequence <= 0) {
    return Error{
        ErrorId::kUsage,
        "say which entry: falaj audit replay N; 'falaj audit list --action loop.' shows the loop's "
        "decisions with their numbers, 'scheduler.' those about jobs"};
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(
      connection->call(net::Method::kPost, "/api/v1/audit/" + std::to_string(sequence) + ":replay",
                       Value::object()));
  print(session.format, reply,
        "entry " + std::to_string(sequence) + " recomputes to the same decision: " +
            reply["action"].text("kind") + " (" + reply["action"].text("reason") + ")\n");
  return {};
}

Status show_audit_entry(const Session& session, std::int64_t sequence, Openings openings) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const std::string path = "/api/v1/audit/" + std::to_string(sequence);
  const Value entry =
      openings == Openings::kOpened
          ? FALAJ_TRY(connection->call(net::Method::kPost, path + ":open", Value::object()))
          : FALAJ_TRY(connection->get(path));
  print(session.format, entry, to_pretty_json(entry) + "\n");
  return {};
}

Status erase_audit_texts(const Session& session, std::int64_t sequence) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kPost, "/api/v1/audit/" + std::to_string(sequence) + ":erase", Value::object()));
  print(session.format, reply,
        "erased " + cell(reply["erased"]) + " texts behind entry " + std::to_string(sequence) +
            "; the entry and its proofs stay\n");
  return {};
}

Status show_audit_head(const Session& session, SignNow sign) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      sign == SignNow::kYes
          ? FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/audit:sign", Value::object()))
          : FALAJ_TRY(connection->get("/api/v1/audit/head"));
  print(session.format, reply, reply.text("checkpoint"));
  return {};
}

Status show_audit_key(const Session& session, WhoseKey whose) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/audit/head"));
  print(session.format, reply, reply.text(whose == WhoseKey::kLog ? "key" : "witness_key") + "\n");
  return {};
}

Status show_audit_proof(const Session& session, std::int64_t sequence, std::int64_t from) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const std::string path = from >= 0 ? "/api/v1/audit/consistency?from=" + std::to_string(from)
                                     : "/api/v1/audit/" + std::to_string(sequence) + "/proof";
  const Value reply = FALAJ_TRY(connection->get(path));
  print(session.format, reply, to_json(reply) + "\n");
  return {};
}

Status explain_error(const Session& session, const std::string& id) {
  const ErrorInfo* info = find_error(id);
  if (info == nullptr) {
    return Error{Code::kNotFound, "'" + id +
                                      "' is no error code; they look like FJ-1003 and stand "
                                      "in docs/reference/errors.md"};
  }
  Value value;
  value["code"] = to_string(info->id);
  value["class"] = code_name(info->code);
  value["title"] = info->title;
  value["next_step"] = info->next_step;
  print(session.format, value,
        bold(to_string(info->id)) + "  " + std::string(info->title) + "\n" +
            std::string(info->next_step) + "\n");
  return {};
}

}  // namespace falaj::cli
