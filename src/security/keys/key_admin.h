// security/keys/key_admin.h — what people do with keys: look at them, rotate them, destroy them;
// each change with its entry in the audit log.
#pragma once

#include <functional>
#include <string>

#include "security/audit.h"
#include "security/context.h"
#include "security/keys/key_tree.h"

namespace falaj::security::keys {

// Why keys are destroyed. A choice, not a text: nothing personal may reach the audit log.
enum class ShredGround : std::uint8_t { kErasureRequest, kRetentionEnded, kContractEnded, kOther };
std::string_view ground_name(ShredGround ground);  // "erasure-request"
// FJ-1005 naming the choices.
Result<ShredGround> ground_from_name(std::string_view name);

struct ShredOutcome {
  ShredReceipt receipt;
  std::int64_t audit_sequence = 0;  // Of the receipt's entry.
  Value consequences;               // What the hook reported: {"retrain_due": ["fraud/3"]}
};
Value to_value(const ShredOutcome& outcome);

// Thread-safe.
class KeyAdmin {
 public:
  // What must follow when keys are gone, e.g. models that need training anew. Called after every
  // shred and again at start for one whose consequences may not have been drawn: safe to repeat.
  using AfterShred = std::function<Result<Value>(const RequestContext&, const ShredReceipt&)>;

  KeyAdmin(KeyTree& tree, Audit& audit);
  void set_after_shred(AfterShred hook) { after_shred_ = std::move(hook); }  // Before first use.

  // {"vault", "roots": [{id, zone, created}], "keys": [ring …]}; of one project, or "" for all.
  Result<Value> inventory(const std::string& project) const;

  // The calls take a scope without a zone where the place has keys in one zone only: it is found.
  // kFailedPrecondition names the zones when there are several.
  // Nothing is rotated unless the audit log took the intention ("key.rotate_begin") first.
  Result<RotateReport> rotate(const RequestContext& context, KeyScope scope);
  Status raise_min_version(const RequestContext& context, KeyScope scope, std::int64_t version);
  // Nothing is destroyed unless the audit log took the intention first. Killed in between, the
  // receipt is entered at the next start.
  Result<ShredOutcome> shred(const RequestContext& context, KeyScope scope, ShredGround ground);

  // At start: enters receipts that a crash kept from the audit log, and draws their consequences.
  Status deliver_receipts();

 private:
  Result<KeyScope> with_zone(KeyScope scope) const;
  Result<ShredOutcome> conclude(const RequestContext& context, const ShredReceipt& receipt);

  KeyTree& tree_;
  Audit& audit_;
  AfterShred after_shred_;
};

}  // namespace falaj::security::keys
