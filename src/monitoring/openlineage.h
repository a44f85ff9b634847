// monitoring/openlineage.h — the walk of the data in OpenLineage's words, for systems that draw it.
//
// Which source became rows of which view, which views a frozen set, which set a run, and which run
// a model version stands in the audit log already. A Webhook with `events: openlineage` gets those
// entries of its project as run events (spec 2-0-2), in their order, each at least once: the log is
// the outbox, so nothing is queued twice and nothing is lost while a receiver is away. Events hold
// names and times, no values; each passes the webhook exit of residency.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/decode.h"
#include "monitoring/webhooks.h"
#include "security/audit/entry.h"

namespace falaj::monitoring {

extern const storage::Migration kLineageMigration;

// What a Webhook is told of: `events: alarms` (the default) or `events: openlineage`.
enum class WebhookEvents : std::uint8_t { kAlarms, kOpenLineage };
Result<WebhookEvents> decode_events(Fields& fields);

// What an entry does not say itself.
struct LineageBackground {
  std::vector<std::string> upstream{};  // What the step read, as declared: "Source/payments".
  std::string experiment{};             // Of a run that ends.
};

// The events that an entry means, oldest first; none for entries that are no step of the walk. One
// entry that stands for a whole step gives START and its end, a run START when it begins and its
// end when it ends. Pure: the same entry gives the same bytes and run ids.
std::vector<Value> run_events(const security::AuditEntry& entry,
                              const LineageBackground& background);
// Whether a body is one of them: it is sent as plain JSON, not as a CloudEvent.
bool is_run_event(std::string_view body);

// The webhook exit for one body to the hook; every refusal and every use of a transfer is written
// down. Blocks.
Result<security::residency::Passage> pass_webhook(security::residency::Exits& exits,
                                                  const Webhook& hook);

// What a receiver's answer means for what was sent.
enum class Answer : std::uint8_t {
  kTaken,    // 2xx.
  kRefused,  // Another 4xx: it would be refused again.
  kLater,    // No answer, 408, 429, 5xx, anything else.
};
Answer answer_of(const Result<int>& status);

// Takes references that outlive it; one call for a hook at a time.
class LineageOutbox {
 public:
  static constexpr int kEventsPerCall = 64;
  static constexpr int kWaitMaxSeconds = 600;

  LineageOutbox(storage::SqlStore& sql, security::residency::Exits& exits, security::Audit& audit,
                const Clock& clock, const Post& post)
      : sql_(sql), exits_(exits), audit_(audit), clock_(clock), post_(post) {}

  // Sends what the hook has not had yet, from the moment it was first seen. One that fails holds up
  // those behind it and is tried again, the wait doubling from a second to kWaitMaxSeconds; one
  // that the receiver refuses is written down and passed over. Blocks on the network.
  Status serve(const Webhook& hook);

 private:
  struct Cursor {
    std::int64_t sequence = 0;  // The last entry that was dealt with.
    std::int64_t part = 0;      // Events of the next one that were sent.
    std::int64_t attempts = 0;
    Timestamp next{};
  };
  Result<Cursor> load(const Webhook& hook);
  Status save(const Webhook& hook, const Cursor& cursor);
  Result<std::vector<std::string>> upstream_of(const security::AuditEntry& entry);
  Result<LineageBackground> background_of(const security::AuditEntry& entry);
  Result<Answer> send(const Webhook& hook, const std::string& body);
  // False: the rest has to wait.
  Result<bool> deliver(const Webhook& hook, const security::AuditEntry& entry, Cursor& cursor,
                       int& budget);
  Status note_refused(const Webhook& hook, const security::AuditEntry& entry);

  storage::SqlStore& sql_;
  security::residency::Exits& exits_;
  security::Audit& audit_;
  const Clock& clock_;
  const Post& post_;
};

}  // namespace falaj::monitoring
