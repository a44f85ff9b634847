#include "scheduler/decisions.h"

#include <algorithm>
#include <set>

#include "scheduler/encode.h"

namespace falaj::scheduler {

std::string_view to_string(ReasonCode code) {
  switch (code) {
    case ReasonCode::kNone:
      return "none";
    case ReasonCode::kDependency:
      return "dependency";
    case ReasonCode::kArrayLimit:
      return "array_limit";
    case ReasonCode::kVictimsLeaving:
      return "victims_leaving";
    case ReasonCode::kZone:
      return "zone";
    case ReasonCode::kDevice:
      return "device";
    case ReasonCode::kLabel:
      return "label";
    case ReasonCode::kTooLarge:
      return "too_large";
    case ReasonCode::kMaintenance:
      return "maintenance";
    case ReasonCode::kQuota:
      return "quota";
    case ReasonCode::kBudget:
      return "budget";
    case ReasonCode::kCostCap:
      return "cost_cap";
    case ReasonCode::kCapacity:
      return "capacity";
    case ReasonCode::kFragmented:
      return "fragmented";
    case ReasonCode::kReserved:
      return "reserved";
    case ReasonCode::kFifo:
      return "fifo";
    case ReasonCode::kNotTried:
      return "not_tried";
    case ReasonCode::kHot:
      return "hot";
  }
  return "none";
}

std::string_view to_string(PreemptCause cause) {
  switch (cause) {
    case PreemptCause::kReclaim:
      return "reclaim";
    case PreemptCause::kPriority:
      return "priority";
    case PreemptCause::kOrder:
      return "order";
  }
  return "priority";
}

namespace {

void put(Encoder& out, const Reason& reason) {
  out.put(reason.code, reason.level, reason.flavor, reason.subject, reason.missing, reason.wanted,
          reason.ahead, reason.earliest, reason.latest);
}

void put(Encoder& out, const Step& step) {
  out.put(step.job, step.admitted, step.level, step.deciding);
}

}  // namespace

namespace {

Error misplaced(std::string_view what) {
  return Error(Code::kInvalidArgument, "the decisions' " + std::string(what) +
                                           " do not belong to the snapshot that they came with");
}

bool belongs(const Snapshot& snapshot, Index job, const Placement& placement) {
  if (job >= snapshot.jobs.size()) return false;
  const auto& groups = snapshot.shapes[snapshot.jobs[job].shape].groups;
  return placement.counts.size() == groups.size() &&
         std::all_of(placement.pods.begin(), placement.pods.end(),
                     [&](const PodPlacement& pod) { return pod.node < snapshot.nodes.size(); });
}

Status check(const Snapshot& snapshot, const Decisions& decisions, const Certificate& certificate) {
  const std::size_t jobs = snapshot.jobs.size();
  const std::set<Index> order(certificate.order.begin(), certificate.order.end());
  if (certificate.steps.empty() && order.empty()) return {};
  if (jobs == 0 || certificate.order.size() != jobs || order.size() != jobs ||
      *order.rbegin() >= jobs || certificate.entitled.size() != snapshot.queues.size()) {
    return misplaced("order and entitlements");
  }
  for (const Step& step : certificate.steps) {
    if (step.job >= jobs || step.admitted > decisions.admit.size()) return misplaced("steps");
  }
  return {};
}

}  // namespace

Status check(const Snapshot& snapshot, const Decisions& decisions) {
  const std::size_t jobs = snapshot.jobs.size();
  bool good = true;
  for (const Admit& a : decisions.admit) good = good && belongs(snapshot, a.job, a.placement);
  for (const Resize& r : decisions.resize) good = good && belongs(snapshot, r.job, r.placement);
  for (const Reserve& r : decisions.reserve) good = good && belongs(snapshot, r.job, r.placement);
  if (!good) return misplaced("placements");
  for (const Hold& h : decisions.hold) good = good && h.job < jobs;
  for (const Preempt& p : decisions.preempt) good = good && p.job < jobs && p.for_job < jobs;
  for (const Index job : decisions.released) good = good && job < jobs;
  if (!good) return misplaced("jobs");
  return check(snapshot, decisions, decisions.certificate);
}

std::string encode(const Decisions& decisions) {
  Encoder out;
  out.list(decisions.admit, [&](const Admit& a) {
    out.put(a.job);
    out.placement(a.placement);
  });
  out.list(decisions.preempt,
           [&](const Preempt& p) { out.put(p.job, p.for_job, p.cause, p.deadline, p.lost_work); });
  out.list(decisions.resize, [&](const Resize& r) {
    out.put(r.job, r.for_job);
    out.placement(r.placement);
  });
  out.list(decisions.reserve, [&](const Reserve& r) {
    out.put(r.job, r.kind, r.from);
    out.placement(r.placement);
  });
  out.list(decisions.hold, [&](const Hold& h) {
    out.put(h.job);
    put(out, h.reason);
  });
  out.list(decisions.released, [&](Index job) { out.put(job); });
  out.put(decisions.certificate.epoch);
  out.bytes(decisions.certificate.snapshot.bytes);
  out.bytes(decisions.certificate.policy.bytes);
  out.list(decisions.certificate.steps, [&](const Step& step) { put(out, step); });
  out.list(decisions.certificate.order, [&](Index job) { out.put(job); });
  out.list(decisions.certificate.entitled, [&](const auto& own) {
    for (const std::int64_t amount : own) out.put(amount);
  });
  return std::move(out).take();
}

}  // namespace falaj::scheduler
