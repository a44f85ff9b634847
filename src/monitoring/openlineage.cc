#include "monitoring/openlineage.h"

#include <algorithm>

#include "base/hash.h"
#include "base/json.h"
#include "features/definitions.h"

namespace falaj::monitoring {

const storage::Migration kLineageMigration{
    "monitoring-003-lineage",
    "CREATE TABLE lineage_cursors ("
    " project TEXT NOT NULL, name TEXT NOT NULL, sequence INTEGER NOT NULL, part INTEGER NOT NULL,"
    " attempts INTEGER NOT NULL, next_at INTEGER NOT NULL, PRIMARY KEY (project, name)) STRICT;"};

namespace {

using security::AuditEntry;
using security::residency::Exit;
using security::residency::Flow;

constexpr const char* kProducer = "https://falaj.dev/falaj";
constexpr const char* kSchema =
    "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

// A name-based UUID of our own making (version 8): a run is the same in every event of it.
std::string run_id_of(std::string_view name) {
  std::string hex = sha256_hex(name).substr(0, 32);
  hex[12] = '8';
  constexpr std::string_view kVariant = "89ab";
  const auto digit = static_cast<std::size_t>(hex[16] <= '9' ? hex[16] - '0' : hex[16] - 'a' + 10);
  hex[16] = kVariant[digit & 3];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" +
         hex.substr(16, 4) + "-" + hex.substr(20);
}

// "FeatureView/pay/orders" → "FeatureView/orders": the project is the namespace.
std::string without_project(const AuditEntry& entry) {
  const std::size_t first = entry.object.find('/');
  if (first == std::string::npos) return entry.object;
  const std::string rest = entry.object.substr(first + 1);
  if (!rest.starts_with(entry.project + "/")) return entry.object;
  return entry.object.substr(0, first + 1) + rest.substr(entry.project.size() + 1);
}

struct Step {
  std::string job;  // "ingest/orders"
  std::string run;  // What tells this run from all others.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

Value event_of(const AuditEntry& entry, const Step& step, const char* type) {
  const std::string space = "falaj://" + entry.project;
  const auto datasets = [&](const std::vector<std::string>& names) {
    Value out = Value::array();
    for (const std::string& name : names) {
      Value one;
      one["namespace"] = space;
      one["name"] = name;
      out.push(std::move(one));
    }
    return out;
  };
  Value event;
  event["eventType"] = type;
  event["eventTime"] = to_rfc3339(entry.at);
  event["producer"] = kProducer;
  event["schemaURL"] = kSchema;
  event["run"]["runId"] = run_id_of(entry.project + "\n" + step.run);
  event["job"]["namespace"] = space;
  event["job"]["name"] = step.job;
  event["inputs"] = datasets(step.inputs);
  event["outputs"] = datasets(step.outputs);
  return event;
}

std::vector<Value> whole(const AuditEntry& entry, const Step& step, const char* end) {
  return {event_of(entry, step, "START"), event_of(entry, step, end)};
}

std::string last_of(const std::string& object) { return object.substr(object.rfind('/') + 1); }

// A run says which set it reads when it begins, and which model it made when it ends.
std::vector<Value> events_of_run(const AuditEntry& entry, const std::string& experiment) {
  Step step;
  step.run = entry.object;
  const std::string name = entry.detail.text("experiment", experiment);
  step.job = "train/" + (name.empty() ? "run" : name);
  if (entry.action == "run.create") {
    const std::string set = entry.detail["inputs"]["training_set"].text("name");
    if (!set.empty()) step.inputs.push_back("TrainingSet/" + set);
    return {event_of(entry, step, "START")};
  }
  const std::string status = entry.detail.text("status");
  const char* end = status == "finished" ? "COMPLETE" : status == "failed" ? "FAIL" : "ABORT";
  return {event_of(entry, step, end)};
}

}  // namespace

std::vector<Value> run_events(const AuditEntry& entry, const LineageBackground& background) {
  const std::string object = without_project(entry);
  Step step;
  step.run = entry.action + " " + std::to_string(entry.sequence);
  step.inputs = background.upstream;
  if (entry.action == "features.ingest" || entry.action == "features.reject") {
    step.job = "ingest/" + last_of(object);
    step.outputs = {object};
    return whole(entry, step, entry.action == "features.ingest" ? "COMPLETE" : "FAIL");
  }
  if (entry.action == "training_set.freeze") {
    step.job = "freeze/" + last_of(object);
    step.outputs = {object};
    return whole(entry, step, "COMPLETE");
  }
  if (entry.action == "model.register") {
    const std::string model = object.substr(0, object.rfind('/'));
    step.job = "register/" + last_of(model);
    step.outputs = {object};
    return whole(entry, step, "COMPLETE");
  }
  if (entry.action == "run.create" || entry.action == "run.end") {
    return events_of_run(entry, background.experiment);
  }
  return {};
}

bool is_run_event(std::string_view body) {
  return body.find("\"schemaURL\":\"https://openlineage.io/") != std::string_view::npos &&
         body.find("\"specversion\"") == std::string_view::npos;
}

Result<WebhookEvents> decode_events(Fields& fields) {
  const std::string events = FALAJ_TRY(fields.choice("events", {"alarms", "openlineage"}));
  return events == "openlineage" ? WebhookEvents::kOpenLineage : WebhookEvents::kAlarms;
}

Answer answer_of(const Result<int>& status) {
  if (!status.ok()) return Answer::kLater;
  if (*status >= 200 && *status < 300) return Answer::kTaken;
  const bool again = *status == 408 || *status == 429;
  return *status >= 400 && *status < 500 && !again ? Answer::kRefused : Answer::kLater;
}

Result<LineageOutbox::Cursor> LineageOutbox::load(const Webhook& hook) {
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql_,
                               "SELECT sequence, part, attempts, next_at FROM lineage_cursors "
                               "WHERE project = ? AND name = ?",
                               {hook.project, hook.name}));
  if (!rows.empty()) {
    const storage::SqlRow& row = rows.front();
    return Cursor{row.integer(0), row.integer(1), row.integer(2), Timestamp{row.integer(3)}};
  }
  Cursor cursor;  // What was before it is not its business.
  security::AuditQuery last;
  last.limit = 1;
  const auto newest = FALAJ_TRY(audit_.list(last));
  if (!newest.empty()) cursor.sequence = newest.front().sequence;
  FALAJ_TRY(save(hook, cursor));
  return cursor;
}

Status LineageOutbox::save(const Webhook& hook, const Cursor& cursor) {
  return sql_.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(
        tx.execute("INSERT INTO lineage_cursors VALUES (?, ?, ?, ?, ?, ?)"
                   " ON CONFLICT (project, name) DO UPDATE SET sequence = excluded.sequence,"
                   " part = excluded.part, attempts = excluded.attempts,"
                   " next_at = excluded.next_at",
                   {hook.project, hook.name, cursor.sequence, cursor.part, cursor.attempts,
                    cursor.next.nanos}));
    return {};
  });
}

// What is not declared any more is not known.
Result<std::vector<std::string>> LineageOutbox::upstream_of(const AuditEntry& entry) {
  const std::string name = last_of(entry.object);
  std::vector<std::string> out;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    if (entry.action.starts_with("features.")) {
      const auto view = storage::get_object(tx, "FeatureView", entry.project, name);
      if (view.ok()) out.push_back("Source/" + view->spec.text("source"));
    } else if (entry.action == "training_set.freeze") {
      const auto set = storage::get_object(tx, "TrainingSet", entry.project, name);
      if (!set.ok()) return {};
      const auto service =
          storage::get_object(tx, "FeatureService", entry.project, set->spec.text("service"));
      if (!service.ok()) return {};
      const auto decoded = features::decode_feature_service(*service);
      if (!decoded.ok()) return {};
      for (const features::ServiceView& view : decoded->views) {
        out.push_back("FeatureView/" + view.view);
      }
      const std::string labels = set->spec["spine"].text("view");
      if (!labels.empty()) out.push_back("FeatureView/" + labels);
    }
    return {};
  }));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<LineageBackground> LineageOutbox::background_of(const AuditEntry& entry) {
  LineageBackground out;
  out.upstream = FALAJ_TRY(upstream_of(entry));
  const bool registers = entry.action == "model.register";
  if (entry.action != "run.end" && !registers) return out;
  security::AuditQuery began;
  began.action = "run.create";
  began.object = registers ? "Run/" + entry.project + "/" + entry.detail.text("run") : entry.object;
  began.limit = 1;
  const std::vector<AuditEntry> found = FALAJ_TRY(audit_.list(began));
  if (found.empty()) return out;
  out.experiment = found.front().detail.text("experiment");
  // A version names its set by hash; its run knows the name.
  const std::string set = found.front().detail["inputs"]["training_set"].text("name");
  if (registers && !set.empty()) out.upstream.push_back("TrainingSet/" + set);
  return out;
}

Result<security::residency::Passage> pass_webhook(security::residency::Exits& exits,
                                                  const Webhook& hook) {
  Flow flow;
  flow.exit = Exit::kWebhook;
  flow.project = hook.project;
  flow.data = exits.zone_of(hook.project);
  flow.destination = hook.zone;
  flow.object = "Webhook/" + hook.name;
  const auto context =
      security::system_context("service:monitoring", ProjectName(hook.project), flow.data);
  return exits.pass_recorded(context, std::move(flow));
}

Result<Answer> LineageOutbox::send(const Webhook& hook, const std::string& body) {
  const auto passage = pass_webhook(exits_, hook);
  if (!passage.ok()) return Answer::kRefused;
  const Answer answer = answer_of(post_(hook.url, body));
  exits_.count(*passage, static_cast<std::int64_t>(body.size()));
  return answer;
}

Status LineageOutbox::note_refused(const Webhook& hook, const AuditEntry& entry) {
  Value detail;
  detail["entry"] = entry.sequence;
  detail["state"] = "refused";
  const auto context = security::system_context("service:monitoring", ProjectName(hook.project),
                                                exits_.zone_of(hook.project));
  FALAJ_TRY(audit_.record(
      context, {"webhook.deliver", "Webhook/" + hook.project + "/" + hook.name, detail}));
  return {};
}

Result<bool> LineageOutbox::deliver(const Webhook& hook, const AuditEntry& entry, Cursor& cursor,
                                    int& budget) {
  const std::vector<Value> events = run_events(entry, FALAJ_TRY(background_of(entry)));
  for (; cursor.part < static_cast<std::int64_t>(events.size()); ++cursor.part) {
    if (budget-- == 0) return false;
    const Answer answer =
        FALAJ_TRY(send(hook, to_json(events[static_cast<std::size_t>(cursor.part)])));
    if (answer == Answer::kLater) {
      cursor.attempts = std::min<std::int64_t>(cursor.attempts + 1, 30);
      const std::int64_t wait =
          std::min<std::int64_t>(std::int64_t{1} << cursor.attempts, kWaitMaxSeconds);
      cursor.next = clock_.now() + Duration::seconds(wait);
      return false;
    }
    cursor.attempts = 0;
    if (answer == Answer::kTaken) continue;
    FALAJ_TRY(note_refused(hook, entry));
  }
  cursor.sequence = entry.sequence;
  cursor.part = 0;
  if (!events.empty()) FALAJ_TRY(save(hook, cursor));
  return true;
}

Status LineageOutbox::serve(const Webhook& hook) {
  Cursor cursor = FALAJ_TRY(load(hook));
  if (clock_.now() < cursor.next) return {};
  security::AuditQuery query;
  query.after = cursor.sequence;
  query.limit = 500;
  query.order = security::AuditQuery::Order::kOldestFirst;
  query.project = hook.project;
  int budget = kEventsPerCall;
  bool moved = false;
  for (const AuditEntry& entry : FALAJ_TRY(audit_.list(query))) {
    moved = true;
    if (!FALAJ_TRY(deliver(hook, entry, cursor, budget))) break;
  }
  return moved ? save(hook, cursor) : Status();
}

}  // namespace falaj::monitoring
