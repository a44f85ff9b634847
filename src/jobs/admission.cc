#include "jobs/admission.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/decode.h"
#include "base/units.h"
#include "jobs/internal/drawing.h"
#include "scheduler/decide.h"
#include "scheduler/explain.h"
#include "scheduler/submit.h"

namespace falaj::jobs {
namespace {

using scheduler::Index;
using scheduler::kAbsent;

using internal::Drawing;
using internal::kMebibyte;

std::string milli_text(std::int64_t amount, std::string_view name) {
  const std::string part = std::to_string(1000 + amount % 1000).substr(1);
  return std::to_string(amount / 1000) + (amount % 1000 == 0 ? "" : "." + part) + " " +
         std::string(name);
}

std::string amount_text(const scheduler::Snapshot& snapshot, Index flavor, std::int64_t amount) {
  if (flavor == scheduler::kMemory) return format_bytes(amount * kMebibyte) + " of memory";
  return milli_text(amount, flavor == kAbsent ? "units" : snapshot.flavors[flavor].name);
}

// How budgets are told to people: what one of their units is, and its name.
std::pair<double, const char*> told_in(scheduler::AllowanceKind kind) {
  switch (kind) {
    case scheduler::AllowanceKind::kGpuSeconds:
      return {3.6e6, "GPU-hours"};
    case scheduler::AllowanceKind::kMoney:
      return {1e6, "money"};
    case scheduler::AllowanceKind::kEnergy:
      return {3.6e6, "kWh"};
  }
  return {1, "units"};
}

// Rounded up, with two decimals or as many more as tell a small one: never "0.00".
std::string budget_text(double amount) {
  int decimals = 2;
  double scale = 100;
  for (; decimals < 9 && amount * scale < 100; ++decimals) scale *= 10;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, std::ceil(amount * scale - 1e-6) / scale);
  std::string out = text;
  for (; decimals > 2 && out.back() == '0'; --decimals) out.pop_back();
  return out;
}

void tell_quota(const scheduler::Snapshot& snapshot, const scheduler::Reason& reason, Why& why) {
  const std::string& queue = snapshot.queues[reason.subject].name;
  const auto amount = [&](std::int64_t units) {
    return amount_text(snapshot, reason.flavor, units);
  };
  why.text = "waits for quota: queue " + queue + " lacks " + amount(reason.missing);
  if (reason.ahead > 0) {
    why.text += ", and those before it take " + amount(reason.ahead) + " of any more";
  }
  why.constraint = "queue " + queue + ": " + snapshot.flavors[reason.flavor].name;
  why.change = amount(reason.missing + reason.ahead) + " more for queue " + queue;
}

void tell_cost(const scheduler::Reason& reason, Why& why) {
  const std::string amount = budget_text(static_cast<double>(reason.missing) / 1e6);
  why.text = "it would probably cost " + amount + " more than its cost_cap";
  why.constraint = "cost_cap";
  why.change = "a cost_cap higher by " + amount + ", or a shorter time_max";
}

void tell_budget(const scheduler::Snapshot& snapshot, const scheduler::Reason& reason, Why& why) {
  const scheduler::Queue& queue = snapshot.queues[reason.subject];
  const auto [unit, name] = told_in(queue.allowances[reason.flavor].kind);
  const std::string amount =
      budget_text(static_cast<double>(reason.missing + reason.ahead) / unit) + " " + name;
  const bool never = reason.wanted > queue.allowances[reason.flavor].limit;
  why.text =
      (never ? "needs more than a whole budget of queue " : "waits for the next budget of queue ") +
      queue.name + ", which lacks " + amount;
  why.constraint = "queue " + queue.name + ": budget of " + name;
  why.change = amount + " more for queue " + queue.name;
}

Why lacking_device(const Machine& machine, const GpuChoice& asked, Why why) {
  const NodeSpec& node = machine.node;
  const std::string wanted = to_text(asked);
  why.text = "there is no such GPU" + (wanted.empty() ? "" : " (" + wanted + ")");
  std::string there = std::to_string(machine.gpus) + " GPU(s)";
  if (!node.gpu_model.empty()) there += " of model " + node.gpu_model;
  if (node.gpu_memory_bytes > 0) there += ", " + format_bytes(node.gpu_memory_bytes) + " each";
  if (node.mig == scheduler::MigGeometry::kNone) there += ", not cut into instances";
  why.text += ": this machine has " + there;
  why.constraint = "gpu";
  return why;
}

Why lacking_label(const Labels& own, const Constraints& asked, Why why) {
  if (!asked.unreadable.empty()) {
    why.constraint = "placement";
    why.text = "where it may be cannot be read: " + asked.unreadable;
    why.change = "the job submitted anew";
    return why;
  }
  const auto has = [&](const auto& label) {
    const auto found = own.find(label.first);
    return found != own.end() && found->second == label.second;
  };
  for (const auto& label : asked.labels) {
    if (has(label)) continue;
    why.constraint = "label " + label_text(label.first, label.second);
    why.text = "this machine does not have the " + why.constraint;
    why.change = why.constraint + " of the Node";
    return why;
  }
  for (const auto& label : asked.not_labels) {
    if (!has(label)) continue;
    why.constraint = "label " + label_text(label.first, label.second);
    why.text = "this machine has the " + why.constraint + ", which it does not want";
    why.change = "a Node without " + why.constraint;
    return why;
  }
  return why;
}

Why closing(const Opening& opening, Timestamp now, Why why) {
  why.constraint = "maintenance";
  if (opening.open) {
    why.text = "this machine closes at " + to_rfc3339(opening.until) + ", before it would end";
    why.change = "a time_max below " +
                 to_string(Duration::seconds((opening.until - now).nanos / 1'000'000'000));
  } else if (opening.until == Timestamp::max()) {
    why.text = "this machine is closed";
    why.change = "a Node that is not closed";
  } else {
    why.text = "this machine is closed until " + to_rfc3339(opening.until);
    why.change = "none: it may start then";
  }
  return why;
}

// Whether one of these is one of those.
const std::string* shared(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto found = std::find_first_of(a.begin(), a.end(), b.begin(), b.end());
  return found == a.end() ? nullptr : &*found;
}

// When what keeps a job away is not how much is free but who is there, or is not.
Why company(const Scene& scene, const Candidate& job, const Constraints& asked, Why why) {
  std::vector<std::string> lonely = asked.near;
  for (const Candidate& other : scene.jobs) {
    const bool there = other.stage == Stage::kRunning || other.stage == Stage::kStopping;
    if (!there || other.project != job.project || !other.request.placement) continue;
    const Constraints& theirs = *other.request.placement;
    const std::string* tag = shared(asked.avoid, theirs.tags);
    if (tag == nullptr) tag = shared(theirs.avoid, asked.tags);
    if (tag != nullptr) {
      why.code = "company";
      why.text =
          "waits for job " + other.id.str() + " to end: they are kept apart by tag '" + *tag + "'";
      why.constraint = "job " + other.id.str();
      why.change = "the end of job " + other.id.str();
      return why;
    }
    std::erase_if(lonely, [&](const std::string& each) {
      return std::find(theirs.tags.begin(), theirs.tags.end(), each) != theirs.tags.end();
    });
  }
  if (lonely.empty()) return why;
  why.code = "company";
  why.text = "waits for a job with tag '" + lonely.front() + "', beside which it runs";
  why.constraint = "tag " + lonely.front();
  why.change = "a job with that tag that runs";
  return why;
}

// Less is advised only to who would still ask for something.
std::string less_text(const scheduler::Snapshot& snapshot, Index job,
                      const scheduler::Reason& reason) {
  const scheduler::Shape& shape = snapshot.shapes[snapshot.jobs[job].shape];
  if (scheduler::core_request(shape, 0)[reason.flavor] <= reason.missing) {
    return "the end of jobs that run";
  }
  return amount_text(snapshot, reason.flavor, reason.missing) + " less asked for";
}

// What binds the job at this position and what would help, by reason.
void fill_in(const Drawing& drawing, const Scene& scene, Index asked_by,
             const scheduler::Reason& reason, Why& why) {
  using scheduler::ReasonCode;
  const scheduler::Snapshot& snapshot = drawing.snapshot;
  const auto job_name = [&](Index job) {
    return job < scene.jobs.size() ? scene.jobs[job].id.str() : std::string("another");
  };
  switch (reason.code) {
    case ReasonCode::kDependency:
      why.text = "waits for " + std::to_string(reason.missing) + " job(s) that come before it";
      why.constraint = "dependency";
      why.change = "the end of those jobs";
      break;
    case ReasonCode::kArrayLimit:
      if (reason.subject != 0) {
        const auto at_once = std::to_string(snapshot.arrays[reason.subject].max_running);
        why.text = "waits for its turn: " + at_once + " of its array run at a time";
        why.constraint = "running_max";
        why.change = "an array with a running_max raised by " +
                     std::to_string(reason.missing + reason.ahead);
        break;
      }
      why.text = "waits for its turn: " + std::to_string(scene.machine.engines_max) +
                 " training job(s) run at a time";
      why.constraint = "jobs.concurrency";
      why.change = "jobs.concurrency raised by " + std::to_string(reason.missing + reason.ahead);
      break;
    case ReasonCode::kQuota:
      tell_quota(snapshot, reason, why);
      break;
    case ReasonCode::kBudget:
      tell_budget(snapshot, reason, why);
      break;
    case ReasonCode::kCapacity:
      why.text = "waits for room: " + amount_text(snapshot, reason.flavor, reason.missing) +
                 " more must be free";
      why.constraint = snapshot.flavors[reason.flavor].name;
      why.change = less_text(snapshot, asked_by, reason);
      break;
    case ReasonCode::kReserved:
    case ReasonCode::kFifo:
      why.text = "what is free is kept for job " + job_name(reason.subject) + ", which goes first";
      why.constraint = "job " + job_name(reason.subject);
      why.change = "a priority above that of job " + job_name(reason.subject) +
                   ", or a limit of its run time that ends before that one starts";
      break;
    case ReasonCode::kVictimsLeaving:
      why.text = "its place is being cleared";
      why.constraint = "jobs that were told to leave";
      why.change = "none: it starts when they have left";
      break;
    case ReasonCode::kCostCap:
      tell_cost(reason, why);
      break;
    case ReasonCode::kTooLarge:
      why.text = "that is more than there is";
      why.constraint = "machine";
      break;
    default:
      why.text = scheduler::to_text(snapshot, reason, Timestamp{});
      why.text = why.text.substr(0, why.text.find(';'));
  }
}

// What a rule about places says of one job.
void tell_place(const Scene& scene, const Candidate& job, const scheduler::Reason& reason,
                Timestamp now, Why& why) {
  using scheduler::ReasonCode;
  static const Constraints kNone;
  const Constraints& asked = job.request.placement ? *job.request.placement : kNone;
  const NodeSpec& node = scene.machine.node;
  if (reason.code == ReasonCode::kDevice) {
    why = lacking_device(scene.machine, asked.gpu, std::move(why));
  } else if (reason.code == ReasonCode::kLabel) {
    why = lacking_label(node.labels, asked, std::move(why));
  } else if (reason.code == ReasonCode::kZone && reason.subject < asked.data.size()) {
    const DataReference& data = asked.data[reason.subject];
    std::string zones;
    for (const std::string& zone : data.zones) zones += (zones.empty() ? "" : " or ") + zone;
    why.text = "its data '" + data.name + "' may be in " + zones + ", and this machine is not";
    why.constraint = "data " + data.name;
    why.change = "an approved Transfer of the data, or a machine in " + zones;
  } else if (reason.code == ReasonCode::kMaintenance) {
    why = closing(opening_of(node, now), now, std::move(why));
  } else if (reason.code == ReasonCode::kHot) {
    why.text = "this machine is too hot for more work";
    why.constraint = "temperature";
    why.change = "a Node whose temperature is normal";
  } else if (reason.code == ReasonCode::kCapacity) {
    // Both keep it away.
    const Why there = company(scene, job, asked, {});
    if (there.code.empty()) return;
    why.text += ", and it " + there.text;
    why.change += ", and " + there.change;
  } else if (reason.code == ReasonCode::kTooLarge || reason.code == ReasonCode::kFragmented) {
    why = company(scene, job, asked, std::move(why));
  }
}

void name_first(const Candidate& job, Why& why) {
  if (job.waits_for.empty()) return;
  why.text = "waits for job " + job.waits_for.str();
  if (job.unmet > 1) why.text += " and " + std::to_string(job.unmet - 1) + " more";
  switch (job.waits_for_end) {
    case AfterEnd::kOk:
      why.text += ", which must succeed first";
      break;
    case AfterEnd::kAny:
      why.text += ", which must end first";
      break;
    case AfterEnd::kFailed:
      why.text += ", after which it starts if that one fails";
      break;
  }
  why.constraint = "job " + job.waits_for.str();
  why.change = "the end of job " + job.waits_for.str();
}

Why why_of(const Drawing& drawing, const Scene& scene, const scheduler::Hold& hold, Timestamp now) {
  const scheduler::Reason& reason = hold.reason;
  Why why;
  why.code = scheduler::to_string(reason.code);
  fill_in(drawing, scene, hold.job, reason, why);
  tell_place(scene, scene.jobs[hold.job], reason, now, why);
  why.earliest = reason.earliest;
  why.latest = reason.latest;
  const bool after_another = reason.code == scheduler::ReasonCode::kDependency;
  if (after_another) name_first(scene.jobs[hold.job], why);
  if (reason.latest == Timestamp::max()) {
    if (!after_another) why.text += "; does not start without a change";
  } else if (reason.latest <= now) {
    why.text += "; may start at any moment";
  } else {
    why.text += "; starts in " +
                scheduler::span_text(reason.earliest - now, scheduler::Round::kDown) + " to " +
                scheduler::span_text(reason.latest - now, scheduler::Round::kUp);
  }
  return why;
}

// The workers are its first group.
Verdict::Place place_of(Index job, const scheduler::Placement& placement) {
  Verdict::Place out{job, 0, static_cast<std::int64_t>(placement.counts.front())};
  for (const scheduler::PodPlacement& pod : placement.pods) {
    out.gpus = static_cast<std::uint16_t>(out.gpus | pod.gpus);
    out.numa = pod.numa;
    out.mig_start = pod.mig_start;
  }
  return out;
}

std::string ask_text(const Resources& resources) {
  std::string text = milli_text(resources.cpu_milli, "cpu") + ", " +
                     format_bytes(resources.memory_bytes) + " of memory";
  if (resources.gpus > 0) text += ", " + std::to_string(resources.gpus) + " gpu";
  return text;
}

}  // namespace

Machine this_machine() {
  Machine out;
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  out.cpu_milli = std::int64_t{std::max(1, count)} * 1000;
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  if (pages > 0) out.memory_bytes = pages * ::sysconf(_SC_PAGESIZE);
  while (out.gpus < scheduler::kMaxDevices &&
         ::access(("/dev/nvidia" + std::to_string(out.gpus)).c_str(), F_OK) == 0) {
    ++out.gpus;
  }
  while (out.numa_nodes < scheduler::kMaxNumaNodes &&
         ::access(("/sys/devices/system/node/node" + std::to_string(out.numa_nodes)).c_str(),
                  F_OK) == 0) {
    ++out.numa_nodes;
  }
  return out;
}

Value to_value(const Why& why) {
  const auto time = [](Timestamp at) {
    return at == Timestamp{} || at == Timestamp::max() ? Value() : Value(to_rfc3339(at));
  };
  Value value;
  value["code"] = why.code;
  value["reason"] = why.text;
  value["constraint"] = why.constraint;
  value["change"] = why.change;
  value["earliest"] = time(why.earliest);
  value["latest"] = time(why.latest);
  return value;
}

Verdict judge(const Scene& scene, Timestamp now, Telling telling) {
  const Drawing drawing(scene, now);
  scheduler::Budget budget;
  budget.digest = 0;
  if (telling == Telling::kNothing) budget.explain = scheduler::Explain::kCode;
  scheduler::Decisions decided =
      scheduler::decide(drawing.snapshot, scene.policy.policy, now, budget);
  Verdict out;
  for (const scheduler::Admit& admit : decided.admit) {
    out.admit.push_back(place_of(admit.job, admit.placement));
  }
  for (const scheduler::Reserve& reserve : decided.reserve) {
    if (reserve.kind != scheduler::ReserveKind::kClaim) continue;
    out.claim.push_back(place_of(reserve.job, reserve.placement));
  }
  for (const Index job : decided.released) out.release.push_back(job);
  for (const scheduler::Preempt& preempt : decided.preempt) out.preempt.push_back(preempt.job);
  for (const scheduler::Resize& resize : decided.resize) {
    out.resize.push_back(place_of(resize.job, resize.placement));
  }
  if (telling == Telling::kNothing) return out;
  for (const scheduler::Hold& hold : decided.hold) {
    out.hold.emplace_back(hold.job, why_of(drawing, scene, hold, now));
  }
  const bool changes =
      !out.admit.empty() || !out.preempt.empty() || !out.claim.empty() || !out.resize.empty();
  if (telling == Telling::kRecorded && changes) {
    out.record = std::make_shared<const DecisionRecord>(drawing.snapshot, scene.policy.policy, now,
                                                        budget, std::move(decided));
  }
  return out;
}

Status check_possible(const Scene& scene, const Candidate& job) {
  Scene alone = scene;
  alone.jobs = {job};
  alone.jobs.front().sequence = 1;
  alone.jobs.front().stage = Stage::kWaiting;
  if (auto& placement = alone.jobs.front().request.placement) placement->near.clear();
  const Drawing drawing(alone, Timestamp{});
  if (!drawing.has_queue(job.project, job.request.queue)) {
    std::vector<std::string> names;
    for (const QueueSpec& queue : scene.queues) {
      if (queue.project == job.project) names.push_back(queue.name);
    }
    const std::string near = nearest_name(job.request.queue, names);
    return Error(
        ErrorId::kObjectNotFound,
        "there is no Queue '" + job.request.queue + "' in project '" + job.project + "'" +
            (near.empty() ? "; 'falaj list Queue' shows them" : "; did you mean " + near + "?"));
  }
  const scheduler::Reason reason =
      scheduler::never_starts(drawing.snapshot, scene.policy.policy, 0);
  if (reason.code == scheduler::ReasonCode::kNone) return {};
  Why why;
  fill_in(drawing, alone, 0, reason, why);
  tell_place(alone, alone.jobs.front(), reason, Timestamp{}, why);
  if (why.text.starts_with("waits for ")) why.text.erase(0, 10);
  const Machine& machine = scene.machine;
  return Error(ErrorId::kOutOfRange,
               "the job asks for " + ask_text(job.request.resources) +
                   " and could never start: " + why.text + "; this machine has " +
                   ask_text({machine.cpu_milli, machine.memory_bytes, machine.gpus}) + " for jobs");
}

}  // namespace falaj::jobs
