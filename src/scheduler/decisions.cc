#include "scheduler/decisions.h"

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
  out.put(reason.code, reason.level, reason.flavor, reason.subject, reason.missing, reason.earliest,
          reason.latest);
}

void put(Encoder& out, const Step& step) {
  out.put(step.job, step.admitted, step.level, step.deciding);
}

}  // namespace

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
  return std::move(out).take();
}

}  // namespace falaj::scheduler
