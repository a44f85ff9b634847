// zones, transfers, ledger: where bytes may be, and what crossed.
#include "cli/commands.h"

namespace falaj::cli {
namespace {

std::string joined(const Value& list) {
  std::string out;
  for (const Value& item : items(list)) out += (out.empty() ? "" : ", ") + cell(item);
  return out;
}

std::string regime_text(const Value& regime) {
  std::string out = regime.text("name") + ": " + regime.text("title") + "\n" +
                    regime.text("notice") + "\n\nas of        " + regime.text("as_of") +
                    "\nterritory    " + regime.text("territory") + "\nretention    " +
                    regime.text("retention") + "\nbreach       " + regime.text("breach_deadline") +
                    "\n";
  const auto section = [&](const char* title, const Value& list) {
    if (items(list).empty()) return;
    out += std::string("\n") + title + "\n";
    for (const Value& item : items(list)) {
      out += "  " +
             (item.is_object() ? item.text("name") + ": " + item.text("meaning") : cell(item)) +
             "\n";
    }
  };
  section("grounds", regime["grounds"]);
  section("evidence", regime["evidence"]);
  section("exceptions", regime["exceptions"]);
  section("sources", regime["sources"]);
  section("not sure", regime["conflicts"]);
  return out;
}

}  // namespace

Status show_zones(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/zones"));
  Table table({"ZONE", "PARENT", "REGIME", "RETENTION", "BREACH", "PROJECTS"});
  for (const Value& zone : items(reply["zones"])) {
    table.add({zone.text("name"), cell(zone["parent"]), cell(zone["regime"]),
               cell(zone["retention"]), cell(zone["breach_deadline"]), joined(zone["projects"])});
  }
  print(session.format, reply, table.str());
  return {};
}

Status show_regimes(const Session& session, const std::string& name) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/regimes"));
  Table table({"REGIME", "TERRITORY", "AS OF", "RETENTION", "BREACH", "TITLE"});
  for (const Value& regime : items(reply["regimes"])) {
    if (!name.empty() && regime.text("name") == name) {
      print(session.format, regime, regime_text(regime));
      return {};
    }
    table.add({regime.text("name"), regime.text("territory"), regime.text("as_of"),
               regime.text("retention"), regime.text("breach_deadline"), regime.text("title")});
  }
  if (!name.empty()) {
    return Error{Code::kNotFound,
                 "there is no regime '" + name + "': `falaj zones regimes` lists them"};
  }
  print(session.format, reply, table.str());
  return {};
}

Status decide_flow(const Session& session, const FlowQuestion& question) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["exit"] = question.exit;
  body["to"] = question.to;
  if (!question.from.empty()) body["from"] = question.from;
  if (!question.object.empty()) body["object"] = question.object;
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/zones:decide", body));
  const bool allowed = reply["allowed"].is_bool() && reply["allowed"].as_bool();
  if (allowed) {
    print(session.format, reply, "allowed: " + reply.text("rule") + "\n");
    return {};
  }
  const ErrorInfo* info = find_error(reply.text("code"));
  return Error{info == nullptr ? ErrorId::kZoneRefused : info->id, reply.text("rule")};
}

Status show_transfers(const Session& session) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/transfers"));
  Table table({"TRANSFER", "FROM", "TO", "GROUND", "EXPIRES", "APPROVED BY", "STATE"});
  for (const Value& row : items(reply["transfers"])) {
    table.add({row.text("name"), row.text("from"), row.text("to"), row.text("ground"),
               row.text("expires"), cell(row["approver"]), row.text("state")});
  }
  print(session.format, reply,
        table.empty() ? "no transfer in project '" + session.target.project + "'\n" : table.str());
  return {};
}

Status approve_transfer(const Session& session, const std::string& name) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->call(
      net::Method::kPost, "/api/v1/transfers/" + url_encode(name) + ":approve", Value::object()));
  const bool before = reply["before"].is_bool() && reply["before"].as_bool();
  print(session.format, reply,
        "Transfer " + name +
            (before ? " was approved already, by " + reply.text("approver") : " is approved") +
            "\n");
  return {};
}

Status show_ledger(const Session& session, const std::string& project) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->get("/api/v1/zones/ledger?project=" + url_encode(project)));
  Table table({"DAY", "PROJECT", "EXIT", "FROM", "TO", "TRANSFER", "FLOWS", "BYTES", "REFUSED"});
  for (const Value& row : items(reply["rows"])) {
    table.add({row.text("day"), cell(row["project"]), row.text("exit"), cell(row["from"]),
               cell(row["to"]), cell(row["transfer"]), cell(row["flows"]), cell(row["bytes"]),
               cell(row["refused"])});
  }
  print(session.format, reply,
        table.str() + "crossed zones: " + cell(reply["bytes_crossed"]) + " bytes, of them " +
            cell(reply["bytes_crossed_without_transfer"]) +
            " without a transfer; refused: " + cell(reply["flows_refused"]) + " flows\n");
  return {};
}

}  // namespace falaj::cli
