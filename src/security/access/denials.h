// security/access/denials.h — what was denied lately, and how a flood of it stays small.
//
// Every denial can be asked about by its request id for a while (`falaj why-denied`), be it the
// gate's or a handler's. The audit log gets summaries (security/tally.h).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "security/access/policies.h"
#include "security/tally.h"

namespace falaj::security::access {

struct Denial {
  Timestamp at{};
  std::string request_id;  // As a RequestContext carries it (security/audit/request_ids.h).
  std::string principal;   // Its id; "" for nobody.
  std::string action;
  std::string project;
  std::string kind;
  std::string name;  // As asked for; it need not exist.
  Because because = Because::kNoPermit;
  std::string rule;      // The grant that decided, if one did.
  std::string sentence;  // explain(), for who may know all of it.
  // As its caller read it: what "not found" hid is hidden when they ask why.
  Error told{Code::kPermissionDenied, ""};
};

// A denial as it is kept. `sentence` is explain()'s when it is empty.
Denial denial_of(const AccessRequest& request, const Decision& decision, Error told,
                 std::string request_id, std::string sentence = "");

// A kind is (principal, action, because): nothing that a caller can make up without end.
using DenialTally = Tally<std::tuple<std::string, std::string, Because>, Denial>;
using DenialSummary = DenialTally::Summary;

// Thread-safe; a short lock, no store: safe on an event-loop thread.
class Denials {
 public:
  void add(Denial denial);
  // To be found by its request id only: the audit log has it already.
  void keep(Denial denial);
  // The newest with this request id: as it is carried, which is of one caller; as it stands in the
  // log; or as its caller chose it, which others may have done too. The last 4096 are kept.
  std::optional<Denial> find(std::string_view request_id) const;
  // What the audit log should be told now.
  std::vector<DenialSummary> due(Timestamp now);

 private:
  static constexpr std::size_t kKept = 4096;
  void remember(Denial denial) FALAJ_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<Denial> recent_ FALAJ_GUARDED_BY(mutex_);
  DenialTally tally_ FALAJ_GUARDED_BY(mutex_){{}, {"", "", Because::kNoPermit}};
};

}  // namespace falaj::security::access
