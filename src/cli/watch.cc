// deployments, monitors, alarms, policies, quarantine, kinds: what is going on.
#include "base/units.h"
#include "cli/commands.h"

namespace falaj::cli {
namespace {

using RowOf = std::vector<std::string> (*)(const Value&);

// GETs `path` and prints the rows under `key`, or `none` when there are none.
Status show_list(const Session& session, const std::string& path, const char* key, Table table,
                 RowOf row_of, const std::string& none) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get(path));
  for (const Value& row : items(reply[key])) table.add(row_of(row));
  print(session.format, reply, table.empty() ? none + "\n" : table.str());
  return {};
}

std::string in_project(const Session& session) {
  return " in project '" + session.target.project + "'";
}

std::vector<std::string> window_row(const Value& window) {
  const Value& drift = window["drift"];
  return {cell(window["id"]),           cell(window["version"]),
          cell(window["rows"]),         cell(drift["worst"]),
          cell(drift["worst_feature"]), cell(drift["drifted"]),
          cell(window["alarm"]),        cell(window["to"])};
}

std::vector<std::string> monitor_row(const Value& monitor) {
  const Value::Array& windows = items(monitor["windows"]);  // Newest first.
  const Value newest = windows.empty() ? Value() : windows.front();
  return {monitor.text("name"),
          monitor.text("deployment"),
          cell(monitor["method"]),
          cell(monitor["threshold"]),
          std::to_string(windows.size()),
          cell(newest["drift"]["worst"]),
          cell(newest["drift"]["worst_feature"]),
          cell(newest["to"])};
}

// A text that is no JSON: as it is for a table, as a member otherwise.
void print_text(const Session& session, const std::string& id, const char* key,
                const std::string& text) {
  Value value;
  value["id"] = id;
  value[key] = text;
  print(session.format, value, text);
}

}  // namespace

Status show_deployments(const Session& session) {
  return show_list(
      session, "/api/v1/deployments", "deployments",
      Table(
          {"NAME", "MODEL", "VERSION", "STATE", "REQUESTS", "ERRORS", "P50 MS", "P99 MS", "ERROR"}),
      [](const Value& each) -> std::vector<std::string> {
        return {each.text("name"),    each.text("model"),     cell(each["version"]),
                each.text("state"),   cell(each["requests"]), cell(each["errors"]),
                cell(each["p50_ms"]), cell(each["p99_ms"]),   cell(each["error"])};
      },
      "no deployment" + in_project(session));
}

Status show_monitors(const Session& session, const std::string& name) {
  if (name.empty()) {
    return show_list(session, "/api/v1/monitors", "monitors",
                     Table({"NAME", "DEPLOYMENT", "METHOD", "THRESHOLD", "WINDOWS", "WORST",
                            "FEATURE", "UNTIL"}),
                     monitor_row, "no monitor" + in_project(session));
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = FALAJ_TRY(connection->get("/api/v1/monitors"));
  for (const Value& monitor : items(reply["monitors"])) {
    if (monitor.text("name") != name) continue;
    Table table({"WINDOW", "VERSION", "ROWS", "WORST", "FEATURE", "DRIFTED", "ALARM", "UNTIL"});
    for (const Value& window : items(monitor["windows"])) table.add(window_row(window));
    print(session.format, monitor,
          table.empty() ? "monitor '" + name + "' has no full window yet\n" : table.str());
    return {};
  }
  return Error{ErrorId::kObjectNotFound,
               "there is no Monitor '" + name + "'" + in_project(session)};
}

namespace {

std::string what_happened(const Value& alarm) {
  if (alarm.text("kind") == "break-glass") {
    return alarm.text("action") + " on " + alarm.text("object") + ", " + cell(alarm["uses"]) +
           (alarm.integer("uses") == 1 ? " use" : " uses");
  }
  return "deployment " + alarm.text("deployment") + " version " + cell(alarm["version"]) + ": " +
         cell(alarm["drift"]["worst_feature"]) + " " + cell(alarm["drift"]["worst"]);
}

}  // namespace

Status show_alarms(const Session& session) {
  return show_list(
      session, "/api/v1/alarms", "alarms", Table({"ALARM", "KIND", "OF", "WHAT", "STATE", "AT"}),
      [](const Value& alarm) -> std::vector<std::string> {
        const bool drift = alarm.text("kind") == "drift";
        return {cell(alarm["id"]),
                alarm.text("kind"),
                alarm.text(drift ? "monitor" : "principal"),
                what_happened(alarm),
                alarm["open"] == Value(true) ? "open" : "closed",
                alarm.text("at")};
      },
      "no alarm was raised" + in_project(session));
}

Status close_emergency(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value closed = FALAJ_TRY(
      connection->call(net::Method::kPost, "/api/v1/emergencies/" + url_encode(id) + ":close", {}));
  print(session.format, closed,
        "closed the alarm of " + closed.text("principal") + ": " + what_happened(closed) + "\n");
  return {};
}

Status show_usage(const Session& session) {
  return show_list(
      session, "/api/v1/usage", "usage", Table({"RESOURCE", "USED", "QUOTA"}),
      [](const Value& row) -> std::vector<std::string> {
        const bool bytes = row.text("resource") == "storage";
        const auto amount = [&](const Value& value, const char* none) -> std::string {
          if (value.is_null()) return none;
          return bytes ? format_bytes(value.as_int()) : cell(value);
        };
        return {row.text("resource"), amount(row["used"], "-"), amount(row["quota"], "none")};
      },
      "nothing is known" + in_project(session));
}

Status show_policies(const Session& session) {
  return show_list(
      session, "/api/v1/policies", "policies",
      Table({"POLICY", "PHASE", "LAST ACTION", "WHY", "NOW"}),
      [](const Value& policy) -> std::vector<std::string> {
        return {policy.text("policy"), policy.text("phase"), cell(policy["last_action"]["kind"]),
                cell(policy["last_action"]["reason"]), cell(policy["current"]["action"]["reason"])};
      },
      "no policy" + in_project(session));
}

Status show_quarantine(const Session& session, const std::string& id) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  print_text(session, id, "csv",
             FALAJ_TRY(connection->raw("/api/v1/quarantine/" + url_encode(id))));
  return {};
}

Status show_kinds(const Session& session) {
  return show_list(
      session, "/api/v1/kinds", "kinds", Table({"KIND", "SCOPE", "WHAT"}),
      [](const Value& kind) -> std::vector<std::string> {
        return {kind.text("kind"), kind.text("scope"), kind.text("summary")};
      },
      "the server names no kind");
}

}  // namespace falaj::cli
