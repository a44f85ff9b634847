// security/audit/entry.h — one line of the audit log and its one canonical form.
//
// The canonical bytes are compact JSON with sorted keys; they are what is stored, hashed into the
// tree and handed to auditors, one entry a line. There is one byte string for each entry: whatever
// parse_entry() accepts prints back to the same bytes. docs/guides/audit.md shows the form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "base/value.h"

namespace falaj::security {

struct AuditEntry {
  std::int64_t sequence = 0;  // 1, 2, 3 … without gaps.
  Timestamp at{};             // Never before the entry that precedes it.
  // How far the machine's clock was behind the entry before; 0 as long as nobody set it back.
  Duration clock_behind{};
  std::string actor;    // Principal's id: "user:dev", "service:loop".
  std::string project;  // "" above projects.
  std::string action;   // "object.apply", "model.promote", "loop.retrain"
  std::string object;   // "FeatureView/payments/customer_activity"
  std::string request_id;
  Value detail;      // Evidence: hashes, counts, the decision's inputs. Never a personal text.
  std::string hash;  // Its leaf in the tree, hex. Not part of the canonical bytes.
};

// For people and the API: the members of the canonical form and the hash.
Value to_value(const AuditEntry& entry);

// Past this an entry is refused: one line of an export stays readable by anything.
inline constexpr std::size_t kEntryBytesMax = 1 << 20;

// What the one who acts says; the log adds place and time. Views: valid as long as what they name.
struct EntryContent {
  std::string_view actor;
  std::string_view project;
  std::string_view action;
  std::string_view object;
  std::string_view request_id;
  const Value& detail;
};

// The canonical bytes but for place and time, so that whoever waits for the log's one writer has
// done all the printing before.
struct EntryDraft {
  std::string before_time;
  std::string after_time;
};
// FJ-1009 when a text is not UTF-8, kOutOfRange when the detail is nested too deep.
Result<EntryDraft> draft_entry(const EntryContent& content);

struct EntryPlace {
  std::int64_t sequence = 0;
  Timestamp at{};
  Duration clock_behind{};
};
// The canonical bytes. kOutOfRange past kEntryBytesMax.
Result<std::string> finish_entry(const EntryDraft& draft, const EntryPlace& place);
// Both at once.
Result<std::string> canonical_entry(const AuditEntry& entry);
// The entry with its hash. FJ-7001 for bytes that canonical_entry() could not have written.
Result<AuditEntry> parse_entry(std::string_view bytes);

// What stands in `detail` for a text that may be personal: SHA-256 over a label, the 32-byte salt
// and the text, as "sha256:<hex>". Without the salt, nobody can try texts against it.
std::string commitment_of(std::string_view salt, std::string_view text);

}  // namespace falaj::security
