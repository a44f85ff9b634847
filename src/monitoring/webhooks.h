// monitoring/webhooks.h — tells other systems of alarms, if residency lets the words go there.
//
// An alarm says which features drifted and how far: that is the project's data. Each one passes the
// webhook exit with the zone that the Webhook declares for its receiver; a refused one is written
// down as refused and never sent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "monitoring/monitors.h"
#include "security/audit.h"
#include "security/residency/exits.h"
#include "storage/objects.h"

namespace falaj::monitoring {

// kind: Webhook   spec: {url: "https://hooks.example.com/falaj", zone: ae}
struct Webhook {
  std::string project;
  std::string name;
  std::string url;  // https, a plain host, no user, no fragment.
  Zone zone;        // Where the receiver is.
};
Result<Webhook> decode_webhook(const storage::Object& object);
std::vector<storage::KindInfo> webhook_kinds();

extern const storage::Migration kWebhooksMigration;

// Sends one body and gives the HTTP status; an error when nobody answered or the address is not
// one that may be called.
using Post = std::function<Result<int>(const std::string& url, const std::string& body)>;

// The alarms of a project, newest first; see Monitors::alarms.
using AlarmsOf = std::function<Result<std::vector<Monitors::Alarm>>(const ProjectName& project)>;

// Thread-safe; one tick at a time.
class Webhooks {
 public:
  static constexpr int kAttemptsMax = 8;

  // Takes references that outlive it.
  Webhooks(storage::SqlStore& sql, AlarmsOf alarms, security::residency::Exits& exits,
           security::Audit& audit, const Clock& clock, Post post);

  // Sends the alarms that each webhook has not had yet, as CloudEvents in JSON, oldest first. One
  // that fails is tried again, the wait doubling from a second, and given up after kAttemptsMax.
  // Blocks on the network: call it on a thread of its own.
  Status tick();

 private:
  struct Delivery {
    std::int64_t alarm = 0;
    std::string state;  // "sent", "refused", "failed", "waiting"
    int attempts = 0;
    Timestamp next{};
  };
  Status serve(const Webhook& hook);
  Result<Delivery> deliver(const Webhook& hook, const Monitors::Alarm& alarm, Delivery delivery);
  Status record(const Webhook& hook, const Delivery& delivery);

  storage::SqlStore& sql_;
  AlarmsOf alarms_;
  security::residency::Exits& exits_;
  security::Audit& audit_;
  const Clock& clock_;
  Post post_;
};

}  // namespace falaj::monitoring
