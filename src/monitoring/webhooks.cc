#include "monitoring/webhooks.h"

#include <algorithm>
#include <map>

#include "base/decode.h"
#include "base/json.h"
#include "monitoring/openlineage.h"

namespace falaj::monitoring {

const storage::Migration kWebhooksMigration{
    "monitoring-002-webhooks",
    "CREATE TABLE webhook_deliveries ("
    " project TEXT NOT NULL, name TEXT NOT NULL, alarm INTEGER NOT NULL, state TEXT NOT NULL,"
    " attempts INTEGER NOT NULL, next_at INTEGER NOT NULL,"
    " PRIMARY KEY (project, name, alarm)) STRICT;"};

namespace {

constexpr std::size_t kUrlMax = 500;

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

// An address in any of its spellings (127.0.0.1, 2130706433, 0x7f000001), or this machine by name:
// a name is looked up when it is called, and only public addresses are; these never can be.
bool is_no_name(std::string_view host) {
  const std::string_view last = host.substr(host.rfind('.') + 1);
  const bool digits =
      std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits || last.starts_with("0x") || last == "localhost";
}

// Only what one reader and every other read alike: https, a plain host, a port, a path.
Status check_url(const std::string& url, const std::string& where) {
  constexpr std::string_view kScheme = "https://";
  const Error bad(ErrorId::kInvalidArgument,
                  where + ": url '" + url.substr(0, kUrlMax) +
                      "' must be https://host[:port]/path with a plain host name, without user, "
                      "fragment or escapes in the host");
  if (!url.starts_with(kScheme) || url.size() > kUrlMax) return bad;
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash);
  const std::string_view path = rest.substr(slash);
  const std::size_t colon = host.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    host = host.substr(0, colon);
    const bool digits =
        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (port.empty() || port.size() > 5 || !digits) return bad;
  }
  if (!std::all_of(host.begin(), host.end(), is_host_character) || is_no_name(host)) return bad;
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return c > ' ' && c < 127 && c != '#' && c != '@' && c != '\\';
  });
  if (!plain) return bad;
  return {};
}

std::string event_of(const Webhook& hook, const Monitors::Alarm& alarm) {
  Value event;
  event["specversion"] = "1.0";
  event["id"] = hook.project + "/" + std::to_string(alarm.id);
  event["source"] = "falaj/" + hook.project + "/Monitor/" + alarm.monitor;
  event["type"] = "dev.falaj.monitor.alarm";
  event["time"] = to_rfc3339(alarm.at);
  event["datacontenttype"] = "application/json";
  event["data"] = to_value(alarm);
  return to_json(event);
}

bool wants_lineage(const storage::Object& object) {
  Fields fields(object.spec, "Webhook");
  const Result<WebhookEvents> events = decode_events(fields);
  return events.ok() && *events == WebhookEvents::kOpenLineage;
}

}  // namespace

Result<Webhook> decode_webhook(const storage::Object& object) {
  const std::string where = "Webhook/" + object.project + "/" + object.name + " spec";
  Fields fields(object.spec, where);
  Webhook hook;
  hook.project = object.project;
  hook.name = object.name;
  hook.url = FALAJ_TRY(fields.required_text("url"));
  hook.zone = Zone(FALAJ_TRY(fields.required_text("zone")));
  FALAJ_TRY(decode_events(fields));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_url(hook.url, where));
  return hook;
}

std::vector<storage::KindInfo> webhook_kinds() {
  const auto check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const Webhook hook = FALAJ_TRY(decode_webhook(object));
    return std::vector<storage::Reference>{{"Zone", "", hook.zone.name()}};
  };
  return {{"Webhook", storage::Scope::kProject,
           "Another system that is told of alarms or of lineage, and the zone it is in.", check}};
}

Webhooks::Webhooks(storage::SqlStore& sql, AlarmsOf alarms, security::residency::Exits& exits,
                   security::Audit& audit, const Clock& clock, Post post)
    : sql_(sql),
      alarms_(std::move(alarms)),
      exits_(exits),
      audit_(audit),
      clock_(clock),
      post_(std::move(post)) {}

Status Webhooks::tick() {
  std::vector<storage::Object> objects;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    objects = FALAJ_TRY(storage::list_objects(tx, "Webhook"));
    return {};
  }));
  Status first;
  for (const storage::Object& object : objects) {
    const Result<Webhook> hook = decode_webhook(object);
    const Status served =
        hook.ok() ? (wants_lineage(object)
                         ? LineageOutbox(sql_, exits_, audit_, clock_, post_).serve(*hook)
                         : serve(*hook))
                  : Status(hook.error());
    if (first.ok() && !served.ok()) first = served;  // One webhook never holds up another.
  }
  return first;
}

Status Webhooks::serve(const Webhook& hook) {
  std::map<std::int64_t, Delivery> known;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    const storage::SqlRows rows =
        FALAJ_TRY(tx.query("SELECT alarm, state, attempts, next_at FROM webhook_deliveries"
                           " WHERE project = ? AND name = ?",
                           {hook.project, hook.name}));
    for (const storage::SqlRow& row : rows) {
      known[row.integer(0)] = {row.integer(0), row.text(1), static_cast<int>(row.integer(2)),
                               Timestamp{row.integer(3)}};
    }
    return {};
  }));
  std::vector<Monitors::Alarm> alarms = FALAJ_TRY(alarms_(ProjectName(hook.project)));
  std::reverse(alarms.begin(), alarms.end());  // Oldest first.
  for (const Monitors::Alarm& alarm : alarms) {
    Delivery delivery;
    delivery.alarm = alarm.id;
    delivery.state = "waiting";
    const auto found = known.find(alarm.id);
    if (found != known.end()) delivery = found->second;
    if (delivery.state != "waiting" || clock_.now() < delivery.next) continue;
    FALAJ_TRY(record(hook, FALAJ_TRY(deliver(hook, alarm, delivery))));
  }
  return {};
}

Result<Webhooks::Delivery> Webhooks::deliver(const Webhook& hook, const Monitors::Alarm& alarm,
                                             Delivery delivery) {
  const std::string body = event_of(hook, alarm);
  const auto passage = pass_webhook(exits_, hook);
  ++delivery.attempts;
  if (!passage.ok()) {
    delivery.state = "refused";
    return delivery;
  }
  const Result<int> status = post_(hook.url, body);
  exits_.count(*passage, static_cast<std::int64_t>(body.size()));
  if (status.ok() && *status >= 200 && *status < 300) {
    delivery.state = "sent";
  } else if (delivery.attempts >= kAttemptsMax) {
    delivery.state = "failed";
  } else {
    delivery.next = clock_.now() + Duration::seconds(std::int64_t{1} << delivery.attempts);
  }
  return delivery;
}

Status Webhooks::record(const Webhook& hook, const Delivery& delivery) {
  return sql_.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute(
        "INSERT INTO webhook_deliveries (project, name, alarm, state, attempts, next_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (project, name, alarm) DO UPDATE SET"
        " state = excluded.state, attempts = excluded.attempts, next_at = excluded.next_at",
        {hook.project, hook.name, delivery.alarm, delivery.state, std::int64_t{delivery.attempts},
         delivery.next.nanos}));
    if (delivery.state == "waiting") return {};
    Value detail;
    detail["alarm"] = delivery.alarm;
    detail["state"] = delivery.state;
    detail["attempts"] = delivery.attempts;
    const auto context = security::system_context("service:monitoring", ProjectName(hook.project),
                                                  exits_.zone_of(hook.project));
    FALAJ_TRY(audit_.append(
        tx, context,
        {"webhook.deliver", "Webhook/" + hook.project + "/" + hook.name, std::move(detail)}));
    return {};
  });
}

}  // namespace falaj::monitoring
