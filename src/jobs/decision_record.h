// jobs/decision_record.h — a decision of the live scheduler as it is kept: all that
// scheduler::decide was given, and a digest of what it said, so that anybody can decide again and
// compare.
//
// A record is made for every decision that starts jobs or makes some leave (DecisionRecord), is
// written with the first event that follows from it and is named by it and by the audit entry
// `scheduler.decide`. Which jobs are meant is said by the events (`number`): a snapshot has their
// numbers, no names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"
#include "base/value.h"
#include "scheduler/decide.h"

namespace falaj::jobs {

// Thread-safe. Made on the dispatcher's thread, which only copies; hashing and compressing is left
// to who writes it first.
class DecisionRecord {
 public:
  DecisionRecord(const scheduler::Snapshot& snapshot, const scheduler::Policy& policy,
                 Timestamp now, const scheduler::Budget& budget, scheduler::Decisions decisions);

  struct Packed {
    std::string id;    // Hash of the bytes before they were compressed, hex.
    std::string body;  // Compressed; "" when it would be larger than kBodyMax.
    // {snapshot, policy, decisions: digests; admitted, preempted, claimed: how many}: for the
    // audit.
    Value detail;
  };
  const Packed& packed() const;  // Made by the first call; the others wait for it.

  static constexpr std::size_t kBodyMax = std::size_t{8} << 20;

 private:
  std::string snapshot_;
  std::string policy_;
  const Timestamp now_;
  const scheduler::Budget budget_;
  scheduler::Decisions decisions_;  // Its certificate gets its digests in packed().
  mutable Mutex mutex_;
  mutable std::unique_ptr<const Packed> packed_ FALAJ_GUARDED_BY(mutex_);
};
using DecisionRecordPtr = std::shared_ptr<const DecisionRecord>;

// Decides again from what packed() kept. Ok with {admitted, preempted, claimed, held, nodes, jobs:
// how many; started, resized: [{number, workers}], each job by the number that its `admitted` event
// has} when decide() says the same bytes as then and verify() finds no rule broken; kDataLoss when
// the body is not the one that `detail` (of the audit entry) names, or either of those fails. Pure.
Result<Value> replay_decision(std::string_view body, const Value& detail);

}  // namespace falaj::jobs
