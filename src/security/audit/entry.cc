#include "security/audit/entry.h"

#include "base/hash.h"
#include "base/json.h"
#include "crypto/merkle.h"

namespace falaj::security {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr int kDetailDepthMax = 32;

Error unreadable(const std::string& what) {
  return {ErrorId::kAuditBroken, "an audit entry " + what};
}

Status check_texts(const EntryContent& content) {
  for (const std::string_view text :
       {content.actor, content.project, content.action, content.object, content.request_id}) {
    if (is_valid_utf8(text)) continue;
    // Printing repairs invalid UTF-8, so two different texts could hash alike; none may have it.
    return Error(ErrorId::kInvalidUtf8,
                 "an audit entry's actor, project, action, object and request id must be UTF-8");
  }
  return {};
}

Status check_depth(const Value& value, int left) {
  if (left == 0) {
    return Error(ErrorId::kOutOfRange, "an audit entry's detail is nested deeper than " +
                                           std::to_string(kDetailDepthMax) + " levels");
  }
  if (value.is_array()) {
    for (const Value& item : value.as_array()) FALAJ_TRY(check_depth(item, left - 1));
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.as_object()) FALAJ_TRY(check_depth(item, left - 1));
  }
  return {};
}

void add_text(std::string& out, std::string_view key, std::string_view text) {
  out += ",\"";
  out += key;
  out += "\":";
  append_json_string(out, text);
}

void add_number(std::string& out, std::string_view key, std::int64_t number) {
  out += ",\"";
  out += key;
  out += "\":";
  out += std::to_string(number);
}

// By hand and in the order of the sorted keys: this is the hot part of an append.
EntryDraft print_draft(const EntryContent& content) {
  EntryDraft draft;
  std::string& before = draft.before_time;
  add_text(before, "action", content.action);
  before[0] = '{';
  add_text(before, "actor", content.actor);
  std::string& after = draft.after_time;
  after.reserve(256);
  after += ",\"detail\":";
  after += to_json(content.detail);
  add_text(after, "object", content.object);
  add_text(after, "project", content.project);
  add_text(after, "request_id", content.request_id);
  return draft;
}

std::string print(const EntryDraft& draft, const EntryPlace& place) {
  std::string out;
  out.reserve(draft.before_time.size() + draft.after_time.size() + 128);
  out += draft.before_time;
  add_text(out, "at", to_rfc3339(place.at));
  if (place.clock_behind.nanos > 0) add_number(out, "clock_behind", place.clock_behind.nanos);
  out += draft.after_time;
  add_number(out, "sequence", place.sequence);
  add_number(out, "v", kVersion);
  out += '}';
  return out;
}

EntryContent content_of(const AuditEntry& entry) {
  return {entry.actor, entry.project, entry.action, entry.object, entry.request_id, entry.detail};
}

EntryPlace place_of(const AuditEntry& entry) {
  return {entry.sequence, entry.at, entry.clock_behind};
}

}  // namespace

Value to_value(const AuditEntry& entry) {
  Value value;
  value["sequence"] = entry.sequence;
  value["at"] = to_rfc3339(entry.at);
  if (entry.clock_behind.nanos > 0) value["clock_behind"] = entry.clock_behind.nanos;
  value["actor"] = entry.actor;
  value["project"] = entry.project;
  value["action"] = entry.action;
  value["object"] = entry.object;
  value["request_id"] = entry.request_id;
  value["detail"] = entry.detail;
  value["hash"] = entry.hash;
  return value;
}

Result<EntryDraft> draft_entry(const EntryContent& content) {
  FALAJ_TRY(check_texts(content));
  FALAJ_TRY(check_depth(content.detail, kDetailDepthMax));
  return print_draft(content);
}

Result<std::string> finish_entry(const EntryDraft& draft, const EntryPlace& place) {
  std::string bytes = print(draft, place);
  if (bytes.size() > kEntryBytesMax) {
    return Error(ErrorId::kOutOfRange, "audit entry " + std::to_string(place.sequence) + " has " +
                                           std::to_string(bytes.size()) + " bytes; at most " +
                                           std::to_string(kEntryBytesMax) + " are kept");
  }
  return bytes;
}

Result<std::string> canonical_entry(const AuditEntry& entry) {
  const EntryDraft draft = FALAJ_TRY(draft_entry(content_of(entry)));
  return finish_entry(draft, place_of(entry));
}

Result<AuditEntry> parse_entry(std::string_view bytes) {
  const auto parsed = parse_json(bytes, {.bytes_max = kEntryBytesMax, .depth_max = 64});
  if (!parsed.ok()) return unreadable("is no JSON");
  const Value& value = *parsed;
  const auto at = parse_timestamp(value.text("at"));
  if (!at.ok()) return unreadable("has no time");
  AuditEntry entry;
  entry.sequence = value.integer("sequence");
  entry.at = *at;
  entry.clock_behind = Duration{value.integer("clock_behind")};
  entry.actor = value.text("actor");
  entry.project = value.text("project");
  entry.action = value.text("action");
  entry.object = value.text("object");
  entry.request_id = value.text("request_id");
  entry.detail = value["detail"];
  // Whatever was missing, foreign, of another type or written otherwise prints differently.
  if (print(print_draft(content_of(entry)), place_of(entry)) != bytes)
    return unreadable("is not in its canonical form");
  entry.hash = crypto::leaf_hash(bytes).hex();
  return entry;
}

std::string commitment_of(std::string_view salt, std::string_view text) {
  Sha256Hasher hasher;
  hasher.update(std::string_view("falaj/commitment/v1\n"));
  hasher.update(sha256(salt).hex());
  hasher.update(text);
  return "sha256:" + hasher.finish().hex();
}

}  // namespace falaj::security
