// security/identity/failed_sign_ins.h — who was not let in: counted, and written down without
// naming anybody.
//
// Every failure counts in falaj_identity_refused_total. The audit log gets summaries by how and
// from where (security/tally.h), at most 33 a minute whatever is thrown at the door (further
// addresses count together, as "several"); the first name that was tried and the address are salted
// commitments in them, and can be erased.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "base/mutex.h"
#include "base/time.h"
#include "security/audit.h"
#include "security/tally.h"
#include "telemetry/metrics.h"

namespace falaj::security {

struct FailedSignIn {
  std::string how;      // "password", "token", "jwt", "session", "setup", "provider"
  std::string outcome;  // "refused", "malformed", "expired", "csrf", "held_back"
  std::string name;     // As shown; "" when the credential has none.
  std::string address;
};

// Thread-safe; note() never blocks.
class FailedSignIns {
 public:
  FailedSignIns(Audit& audit, telemetry::Metrics* metrics);

  // An error that says nothing about a credential (the provider is away, nobody is set up) is not
  // counted.
  void note(std::string_view how, const Error& error, std::string_view name,
            std::string_view address);
  // Writes what is due. An entry that cannot be written is lost, and its count stays in the metric.
  Status tick(Timestamp now);

 private:
  static constexpr std::size_t kKindsMax = 32;
  static constexpr std::size_t kTextMax = 256;  // Of what a stranger may have us keep.
  using Kind = std::tuple<std::string, std::string, std::string>;  // How, outcome, address.

  Audit& audit_;
  telemetry::Metrics* metrics_;
  Mutex mutex_;
  Tally<Kind, FailedSignIn> tally_ FALAJ_GUARDED_BY(mutex_){{kKindsMax, kKindsMax + 1},
                                                            {"several", "refused", ""}};
};

}  // namespace falaj::security
