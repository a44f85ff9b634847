// security/access/denials.h — what was denied lately, and how a flood of it stays small.
//
// Every denial can be asked about by its request id for a while (`falaj why-denied`). The audit log
// gets one entry for the first of a kind, then one a minute with the number of the others: a caller
// who hammers on a closed door fills a counter, not the log.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "security/access/policies.h"

namespace falaj::security::access {

struct Denial {
  Timestamp at{};
  std::string request_id;
  std::string principal;  // Its id; "" for nobody.
  std::string action;
  std::string project;
  std::string kind;
  std::string name;  // As asked for; it need not exist.
  Because because = Because::kNoPermit;
  std::string rule;      // The grant that decided, if one did.
  std::string sentence;  // explain(), for who may know all of it.
};

struct DenialSummary {
  Denial first;             // Of those counted.
  std::uint64_t count = 0;  // Since the summary before.
};

// Thread-safe; a short lock, no store: safe on an event-loop thread.
class Denials {
 public:
  void add(Denial denial);
  // The newest with this request id; the last 4096 are kept.
  std::optional<Denial> find(std::string_view request_id) const;
  // What the audit log should be told now; at most 64, the rest waits for the next call. A kind is
  // (principal, action, because): nothing that a caller can make up without end.
  std::vector<DenialSummary> due(Timestamp now);

 private:
  static constexpr std::size_t kKept = 4096;
  static constexpr std::size_t kKindsMax = 1024;
  static constexpr std::size_t kDueMax = 64;
  static constexpr Duration kEvery = Duration::minutes(1);
  using Kind = std::tuple<std::string, std::string, Because>;
  struct Count {
    DenialSummary summary;
    Timestamp told_at = Timestamp::min();
  };

  mutable Mutex mutex_;
  std::deque<Denial> recent_ FALAJ_GUARDED_BY(mutex_);
  std::map<Kind, Count> kinds_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security::access
