// security/tally.h — how a flood of equal events stays small in the audit log.
//
// Events are counted by kind. The log gets one entry for the first of a kind, then one a minute
// with the number of the others: who hammers on a closed door fills a counter, not the log.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"

namespace falaj::security {

// `Kind` is ordered and holds nothing that a caller can make up without end, or kinds_max is what
// bounds it. Not thread-safe: its owner locks.
template <class Kind, class First>
class Tally {
 public:
  struct Summary {
    Kind kind;
    First first;              // Of those counted.
    std::uint64_t count = 0;  // Since the summary before.
  };
  struct Limits {
    std::size_t kinds_max = 1024;  // Past it, all others are one kind: counted, not named.
    std::size_t due_max = 64;      // Of one call; the rest waits for the next.
    Duration every = Duration::minutes(1);
  };

  explicit Tally(Limits limits, Kind others) : limits_(limits), others_(std::move(others)) {}

  void add(Kind kind, const First& first) {
    if (kinds_.size() >= limits_.kinds_max && !kinds_.contains(kind)) kind = others_;
    Count& count = kinds_[kind];
    if (count.summary.count++ > 0) return;
    count.summary.kind = std::move(kind);
    count.summary.first = first;
  }

  // What the log should be told now. A kind that was quiet since it was told is forgotten: its next
  // one is a first again.
  std::vector<Summary> due(Timestamp now) {
    std::vector<Summary> list;
    for (auto it = kinds_.begin(); it != kinds_.end();) {
      Count& count = it->second;
      const bool waited = count.told_at == Timestamp::min() || now - count.told_at >= limits_.every;
      if (waited && count.summary.count == 0) {
        it = kinds_.erase(it);
        continue;
      }
      if (waited && list.size() < limits_.due_max) {
        list.push_back(std::exchange(count.summary, {}));
        count.told_at = now;
      }
      ++it;
    }
    return list;
  }

 private:
  struct Count {
    Summary summary;
    Timestamp told_at = Timestamp::min();
  };
  const Limits limits_;
  const Kind others_;
  std::map<Kind, Count> kinds_;
};

}  // namespace falaj::security
