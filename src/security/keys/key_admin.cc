#include "security/keys/key_admin.h"

#include <array>
#include <set>
#include <utility>

namespace falaj::security::keys {
namespace {

constexpr std::array<std::string_view, 4> kGrounds{"erasure-request", "retention-ended",
                                                   "contract-ended", "other"};

// "Key/payments/FeatureView/activity", "Key/payments", "Key/zone/ae-fin", "Key/machine"
std::string object_of(const KeyScope& scope) {
  if (scope.project.empty()) {
    return scope.zone.labelled() ? "Key/zone/" + scope.zone.name() : "Key/machine";
  }
  return "Key/" + scope.project + (scope.object.empty() ? "" : "/" + scope.object);
}

Value place_of(const KeyScope& scope) {
  Value value;
  value["zone"] = scope.zone.name();
  value["object"] = scope.object;
  value["one_subject"] = !scope.subject.empty();  // Whether, never who.
  return value;
}

Value root_value(const RootKey& root) {
  Value value;
  value["id"] = root.id;
  value["zone"] = root.zone.name();
  value["created"] = to_rfc3339(root.created);
  return value;
}

}  // namespace

std::string_view ground_name(ShredGround ground) {
  return kGrounds[static_cast<std::size_t>(ground)];
}

Result<ShredGround> ground_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kGrounds.size(); ++i) {
    if (kGrounds[i] == name) return static_cast<ShredGround>(i);
  }
  std::string choices;
  for (const std::string_view ground : kGrounds) {
    choices += (choices.empty() ? "" : ", ") + std::string(ground);
  }
  return Error{ErrorId::kWrongType, "ground '" + std::string(name) + "' is none of " + choices};
}

Value to_value(const ShredOutcome& outcome) {
  Value value = outcome.receipt.to_value();
  value["audit_sequence"] = outcome.audit_sequence;
  value["consequences"] = outcome.consequences;
  return value;
}

KeyAdmin::KeyAdmin(KeyTree& tree, Audit& audit) : tree_(tree), audit_(audit) {}

Result<Value> KeyAdmin::inventory(const std::string& project) const {
  Value value;
  value["vault"] = tree_.vault_name();
  value["roots"] = Value::array();
  value["keys"] = Value::array();
  std::set<std::string> zones;
  for (const RingInfo& ring : FALAJ_TRY(tree_.inventory())) {
    if (!project.empty() && ring.project != project) continue;
    zones.insert(ring.zone.name());
    value["keys"].push(to_value(ring));
  }
  for (const RootKey& root : FALAJ_TRY(tree_.roots())) {
    // A project sees the roots of its own zones.
    if (project.empty() || zones.contains(root.zone.name())) value["roots"].push(root_value(root));
  }
  return value;
}

Result<KeyScope> KeyAdmin::with_zone(KeyScope scope) const {
  if (scope.project.empty() || scope.zone.labelled()) return scope;
  std::set<std::string> zones;
  for (const RingInfo& ring : FALAJ_TRY(tree_.inventory())) {
    if (ring.project == scope.project && ring.object == scope.object && ring.shredded.nanos == 0) {
      zones.insert(ring.zone.name());
    }
  }
  if (zones.empty()) {
    return Error{ErrorId::kKeyMissing, object_of(scope) +
                                           " does not exist; 'falaj keys list' "
                                           "shows what does"};
  }
  if (zones.size() > 1) {
    std::string names;
    for (const std::string& zone : zones) names += (names.empty() ? "" : ", ") + zone;
    return Error{Code::kFailedPrecondition,
                 object_of(scope) + " is in several zones: " + names + "; name one"};
  }
  scope.zone = Zone(*zones.begin());
  return scope;
}

Result<RotateReport> KeyAdmin::rotate(const RequestContext& context, KeyScope scope) {
  scope = FALAJ_TRY(with_zone(std::move(scope)));
  Value detail = place_of(scope);
  FALAJ_TRY(audit_.record(context, {"key.rotate_begin", object_of(scope), detail}));
  const RotateReport report = FALAJ_TRY(tree_.rotate(scope));
  detail["key"] = report.ring;
  detail["version"] = report.version;
  detail["rewrapped"] = report.rewrapped;
  FALAJ_TRY(audit_.record(context, {"key.rotate", object_of(scope), detail}));
  return report;
}

Status KeyAdmin::raise_min_version(const RequestContext& context, KeyScope scope,
                                   std::int64_t version) {
  scope = FALAJ_TRY(with_zone(std::move(scope)));
  Value detail = place_of(scope);
  detail["min_version"] = version;
  // First the entry: it destroys keys.
  FALAJ_TRY(audit_.record(context, {"key.raise_min_version", object_of(scope), detail}));
  return tree_.raise_min_version(scope, version);
}

Result<ShredOutcome> KeyAdmin::shred(const RequestContext& context, KeyScope scope,
                                     ShredGround ground) {
  scope = FALAJ_TRY(with_zone(std::move(scope)));
  Value detail = place_of(scope);
  detail["ground"] = ground_name(ground);
  FALAJ_TRY(audit_.record(context, {"key.shred_begin", object_of(scope), detail}));
  const ShredReceipt receipt = FALAJ_TRY(tree_.shred(scope));
  return conclude(context, receipt);
}

Result<ShredOutcome> KeyAdmin::conclude(const RequestContext& context,
                                        const ShredReceipt& receipt) {
  KeyScope scope{receipt.project, receipt.zone, receipt.object, "", ""};
  ShredOutcome outcome;
  outcome.receipt = receipt;
  outcome.consequences = Value::object();
  if (after_shred_) outcome.consequences = FALAJ_TRY(after_shred_(context, receipt));
  Value detail = receipt.to_value();
  detail["consequences"] = outcome.consequences;
  const AuditEntry entry =
      FALAJ_TRY(audit_.record(context, {"key.shred", object_of(scope), detail}));
  outcome.audit_sequence = entry.sequence;
  FALAJ_TRY(tree_.receipt_audited(receipt.id));
  return outcome;
}

Status KeyAdmin::deliver_receipts() {
  for (const ShredReceipt& receipt : FALAJ_TRY(tree_.unaudited_receipts())) {
    const RequestContext context =
        system_context("service:keys", ProjectName(receipt.project), receipt.zone);
    FALAJ_TRY(conclude(context, receipt));
  }
  return {};
}

}  // namespace falaj::security::keys
