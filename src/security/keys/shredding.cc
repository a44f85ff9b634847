// Destroying keys so that their data can never be read again, with evidence.
#include <utility>

#include "base/json.h"
#include "security/keys/internal/stored_key_tree.h"

namespace falaj::security::keys {
namespace {

constexpr std::int64_t kProofMax = 1'000;  // Data keys that are tried afterwards.

Result<ShredReceipt> receipt_from(const Value& value) {
  ShredReceipt receipt;
  receipt.id = value.text("id");
  receipt.project = value.text("project");
  receipt.zone = Zone(value.text("zone"));
  receipt.object = value.text("object");
  receipt.level = value.text("level");
  if (value["rings"].is_array()) {
    for (const Value& ring : value["rings"].as_array()) {
      if (ring.is_string()) receipt.rings.push_back(ring.as_string());
    }
  }
  receipt.versions = value.integer("versions");
  receipt.data_keys = value.integer("data_keys");
  receipt.opens_tried = value.integer("opens_tried");
  receipt.opens_refused = value.integer("opens_refused");
  receipt.at = FALAJ_TRY(parse_timestamp(value.text("at")));
  return receipt;
}

Status save_receipt(SqlTransaction& tx, const ShredReceipt& receipt) {
  FALAJ_TRY(tx.execute("INSERT OR REPLACE INTO key_receipts (id, detail, audited) VALUES (?, ?, 0)",
                       {receipt.id, to_json(receipt.to_value())}));
  return {};
}

}  // namespace

Value ShredReceipt::to_value() const {
  Value value;
  value["id"] = id;
  value["project"] = project;
  value["zone"] = zone.name();
  value["object"] = object;
  value["level"] = level;
  value["rings"] = Value::array();
  for (const std::string& ring : rings) value["rings"].push(ring);
  value["versions"] = versions;
  value["data_keys"] = data_keys;
  value["opens_tried"] = opens_tried;
  value["opens_refused"] = opens_refused;
  value["at"] = to_rfc3339(at);
  return value;
}

Status StoredKeyTree::ask_guard(const KeyScope& scope, const std::vector<Ring>& rings) {
  ShredGuard guard;
  {
    const MutexLock lock(change_);
    guard = guard_;
  }
  if (!guard) return {};
  for (const Ring& ring : rings) {
    KeyScope one = scope;
    one.object = ring.place.object;
    FALAJ_TRY(guard(one, ring.created));
  }
  return {};
}

Status StoredKeyTree::destroy(const std::vector<Ring>& rings, ShredReceipt& receipt) {
  return store_.write([&](SqlTransaction& tx) -> Status {
    receipt.versions = 0;
    receipt.data_keys = 0;
    for (const Ring& ring : rings) {
      receipt.data_keys += FALAJ_TRY(tx.execute("DELETE FROM data_keys WHERE ring = ?", {ring.id}));
      receipt.versions +=
          FALAJ_TRY(tx.execute("DELETE FROM key_versions WHERE ring = ?", {ring.id}));
      FALAJ_TRY(tx.execute("UPDATE key_rings SET shredded = ? WHERE id = ?",
                           {receipt.at.nanos, ring.id}));
      FALAJ_TRY(end_rotation(tx, ring.id));
    }
    return save_receipt(tx, receipt);
  });
}

// Opens what could be opened before, by the way that every reader takes.
Status StoredKeyTree::prove_gone(const std::vector<std::pair<Place, StoredDataKey>>& before,
                                 ShredReceipt& receipt) {
  for (const auto& [place, row] : before) {
    ++receipt.opens_tried;
    if (!open_by_id(place, row.purpose, row.id).ok() && !open_row(place, row.purpose, row).ok()) {
      ++receipt.opens_refused;
    }
  }
  if (receipt.opens_refused != receipt.opens_tried) {
    return Error{Code::kInternal, "a shredded key still opens; receipt " + receipt.id};
  }
  return {};
}

Result<ShredReceipt> StoredKeyTree::shred(const KeyScope& scope) {
  const Place place = FALAJ_TRY(place_of(scope));
  if (place.project.empty()) {
    return Error{Code::kInvalidArgument, "name the project whose keys are to be shredded"};
  }
  std::vector<Ring> rings;
  std::vector<std::pair<Place, StoredDataKey>> samples;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    rings = FALAJ_TRY(rings_at_and_below(tx, place));
    for (const Ring& ring : rings) {
      const std::int64_t room = kProofMax - static_cast<std::int64_t>(samples.size());
      for (StoredDataKey& row : FALAJ_TRY(stale_data_keys(tx, ring.id, ring.version + 1, room))) {
        samples.emplace_back(ring.place, std::move(row));
      }
    }
    return {};
  }));
  if (rings.empty()) return key_missing(place);
  FALAJ_TRY(ask_guard(scope, rings));

  ShredReceipt receipt;
  receipt.id = random_.hex_id();
  receipt.project = place.project;
  receipt.zone = scope.zone;
  receipt.object = place.object;
  receipt.level = place.level();
  receipt.at = clock_.now();
  for (const Ring& ring : rings) receipt.rings.push_back(ring.id);
  {
    const MutexLock lock(change_);
    FALAJ_TRY(destroy(rings, receipt));
    forget_all();
  }
  if (options_.purge) FALAJ_TRY(options_.purge());
  FALAJ_TRY(prove_gone(samples, receipt));
  FALAJ_TRY(store_.write([&](SqlTransaction& tx) { return save_receipt(tx, receipt); }));
  return receipt;
}

Result<std::vector<ShredReceipt>> StoredKeyTree::unaudited_receipts() {
  std::vector<ShredReceipt> receipts;
  const storage::SqlRows rows = FALAJ_TRY(
      storage::query(store_, "SELECT detail FROM key_receipts WHERE audited = 0 ORDER BY rowid"));
  for (const storage::SqlRow& row : rows) {
    const Value value = FALAJ_TRY(parse_json(row.text(0)));
    receipts.push_back(FALAJ_TRY(receipt_from(value)));
  }
  return receipts;
}

Status StoredKeyTree::receipt_audited(const std::string& id) {
  return store_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("UPDATE key_receipts SET audited = 1 WHERE id = ?", {id}));
    return {};
  });
}

}  // namespace falaj::security::keys
