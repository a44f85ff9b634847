// keys: inventory, rotation, destruction.
#include "cli/commands.h"

namespace falaj::cli {
namespace {

std::string place(const Value& key) {
  if (key.text("level") == "machine") return "the machine";
  const std::string object = key.text("object");
  return key.text("project") + (object.empty() ? "" : "/" + object) +
         (key.text("level") == "subject" ? " (its subjects)" : "");
}

std::string state(const Value& key) {
  if (key.has("shredded")) return "shredded " + key.text("shredded");
  const std::int64_t stale = key.integer("stale");
  return stale == 0 ? "ok" : std::to_string(stale) + " under an old version";
}

Value body_of(const KeyChoice& choice) {
  Value body = Value::object();
  if (!choice.zone.empty()) body["zone"] = choice.zone;
  if (!choice.object.empty()) body["object"] = choice.object;
  return body;
}

std::string route(const std::string& verb, const KeyChoice& choice) {
  return "/api/v1/keys:" + verb + "?project=" + url_encode(choice.project);
}

}  // namespace

Status show_keys(const Session& session, const std::string& project) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/keys?project=" + url_encode(project)));
  Table table({"KEY", "OF", "ZONE", "VERSION", "OLDEST", "BELOW", "STATE"});
  for (const Value& key : items(reply["keys"])) {
    table.add({key.text("id").substr(0, 12), place(key), key.text("zone"), cell(key["version"]),
               cell(key["min_version"]), cell(key["data_keys"]), state(key)});
  }
  Table roots({"ROOT", "ZONE", "SINCE"});
  for (const Value& root : items(reply["roots"])) {
    const std::string zone = root.text("zone");
    roots.add({root.text("id").substr(0, 12), zone.empty() ? "(the machine)" : zone,
               root.text("created")});
  }
  print(session.format, reply,
        "root keys: " + std::to_string(items(reply["roots"]).size()) + " in the " +
            reply.text("vault") + " vault, one for each version of a zone's\n" +
            (roots.empty() ? "" : roots.str() + "\n") + table.str());
  return {};
}

Status rotate_key(const Session& session, const KeyChoice& choice) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, route("rotate", choice), body_of(choice)));
  print(session.format, reply,
        "version " + cell(reply["version"]) + "; " + cell(reply["rewrapped"]) +
            " keys below wrapped anew\n");
  return {};
}

Status raise_key(const Session& session, const KeyChoice& choice, std::int64_t version) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body = body_of(choice);
  body["min_version"] = version;
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPost, route("raise", choice), body));
  print(session.format, reply,
        "versions before " + std::to_string(version) + " are destroyed and refused\n");
  return {};
}

Status shred_key(const Session& session, const KeyChoice& choice, const std::string& ground) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body = body_of(choice);
  body["ground"] = ground;
  const Value reply = FALAJ_TRY(connection->call(net::Method::kPost, route("shred", choice), body));
  std::string text = "shredded: " + cell(reply["data_keys"]) + " data keys; " +
                     cell(reply["opens_refused"]) + " of " + cell(reply["opens_tried"]) +
                     " tried again were refused\nreceipt " + reply.text("id") + ", audit entry " +
                     cell(reply["audit_sequence"]) + "\n";
  for (const Value& due : items(reply["consequences"]["retrain_due"])) {
    text += "retrain due: " + due.text("model") + " version " + cell(due["version"]) + "\n";
  }
  print(session.format, reply, text);
  return {};
}

Status erase_subject(const Session& session, const std::string& entity,
                     const std::vector<std::string>& keys, const std::string& ground) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["entity"] = entity;
  body["key"] = FALAJ_TRY(entity_of(keys));
  body["ground"] = ground;
  const Value reply =
      FALAJ_TRY(connection->call(net::Method::kPost, "/api/v1/subjects:erase", body));
  Table table({"VIEW", "ROWS", "SEGMENTS", "ONLINE", "QUARANTINES"});
  for (const Value& view : items(reply["views"])) {
    table.add({view.text("view"), cell(view["rows"]), cell(view["segments"]), cell(view["online"]),
               cell(view["quarantines"])});
  }
  std::string text = "erased " + cell(reply["rows"]) + " rows\n" + table.str();
  for (const Value& receipt : items(reply["receipts"])) {
    text += "shredded " + receipt.text("object") + ": receipt " + receipt.text("id") +
            ", audit entry " + cell(receipt["audit_sequence"]) + "\n";
    for (const Value& due : items(receipt["consequences"]["retrain_due"])) {
      text += "retrain due: " + due.text("model") + " version " + cell(due["version"]) + "\n";
    }
  }
  for (const Value& kept : items(reply["checkpoints"])) {
    text += "kept: checkpoints of " + cell(kept) +
            ", which does not say what it learned from; 'falaj keys shred " + cell(kept) +
            "' destroys them\n";
  }
  print(session.format, reply, text);
  return {};
}

}  // namespace falaj::cli
