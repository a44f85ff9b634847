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

Status check_texts(const AuditEntry& entry) {
  for (const std::string* text :
       {&entry.actor, &entry.project, &entry.action, &entry.object, &entry.request_id}) {
    if (is_valid_utf8(*text)) continue;
    // Printing repairs invalid UTF-8, so two different texts could hash alike; none may have it.
    return Error(ErrorId::kInvalidUtf8, "audit entry " + std::to_string(entry.sequence) +
                                            ": actor, project, action, object and request id must "
                                            "be UTF-8");
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
std::string print(const AuditEntry& entry) {
  std::string out;
  out.reserve(320);
  add_text(out, "action", entry.action);
  out[0] = '{';
  add_text(out, "actor", entry.actor);
  add_text(out, "at", to_rfc3339(entry.at));
  if (entry.clock_behind.nanos > 0) add_number(out, "clock_behind", entry.clock_behind.nanos);
  out += ",\"detail\":";
  out += to_json(entry.detail);
  add_text(out, "object", entry.object);
  add_text(out, "project", entry.project);
  add_text(out, "request_id", entry.request_id);
  add_number(out, "sequence", entry.sequence);
  add_number(out, "v", kVersion);
  out += '}';
  return out;
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

Result<std::string> canonical_entry(const AuditEntry& entry) {
  FALAJ_TRY(check_texts(entry));
  FALAJ_TRY(check_depth(entry.detail, kDetailDepthMax));
  std::string bytes = print(entry);
  if (bytes.size() > kEntryBytesMax) {
    return Error(ErrorId::kOutOfRange, "the audit entry for " + entry.action + " has " +
                                           std::to_string(bytes.size()) + " bytes; at most " +
                                           std::to_string(kEntryBytesMax) + " are kept");
  }
  return bytes;
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
  if (print(entry) != bytes) return unreadable("is not in its canonical form");
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
