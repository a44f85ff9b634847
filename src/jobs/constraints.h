// jobs/constraints.h — which machine a job may be on, which part of it, and in which company.
//
//   placement: {labels: {disk: ssd}, not_labels: {spot: "yes"},
//               data: [{name: ledger, zones: [ae-fin]}],
//               gpu: {models: [h100, a100], memory: 40Gi, mig: 3g}, numa: true,
//               together: host, prefer: nvlink, tags: [train], avoid: [noisy], near: [cache]}
//   checkpoint: {every: 10m, restart: 30s}
//
// Labels are those of the Node (jobs/node.h). Each of `data` names zones, in one of which (or
// below) the job must run: those the residency policy lets it be computed on. Tags are a project's
// own: a job never meets those that it avoids on a machine, and runs only beside those it is near.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/decode.h"
#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "scheduler/snapshot.h"

namespace falaj::jobs {

using Labels = std::map<std::string, std::string>;

// Something that the job reads or writes, and where that may be.
struct DataReference {
  std::string name;
  std::vector<std::string> zones;
  bool operator==(const DataReference&) const = default;
};

// Which GPUs will do, and how much of one.
struct GpuChoice {
  std::vector<std::string> models;     // "a100"; empty: any.
  std::int64_t memory_bytes = 0;       // Of each, or of the instance, at least.
  std::int64_t fraction_milli = 1000;  // Of one GPU that others share.
  scheduler::MigProfile mig = scheduler::MigProfile::kWhole;
  bool is_part() const { return fraction_milli < 1000 || mig != scheduler::MigProfile::kWhole; }
  bool operator==(const GpuChoice&) const = default;
};

struct Constraints {
  Labels labels;      // The machine has all of these …
  Labels not_labels;  // … and none of these.
  std::vector<DataReference> data;
  GpuChoice gpu;
  bool numa = false;  // Its processors and GPUs are of one NUMA node.
  scheduler::Level together = scheduler::Level::kCluster;  // Its workers within one of these …
  scheduler::Level prefer = scheduler::Level::kCluster;    // … and rather within one of these.
  std::vector<std::string> tags;
  std::vector<std::string> avoid;
  std::vector<std::string> near;
  // What was stored and cannot be read, and why not: such a job is held.
  std::string unreadable{};
  bool operator==(const Constraints&) const = default;
};

// What is lost when it is stopped: what it did since it last saved, and the way back to there.
struct Saving {
  Duration every{};    // 0: it does not say; what it reports counts (jobs/post_mortem.h).
  Duration restart{};  // To be where the checkpoint is.
  bool operator==(const Saving&) const = default;
};

// Members of a job: `placement` and `checkpoint`. `gpus` is what the job asks for. Strict and
// bounded; FJ-1xxx with what is wrong.
Result<Constraints> decode_constraints(const Value& placement, std::int64_t gpus);
Result<Saving> decode_saving(const Value& checkpoint);
// The same members, without those that say nothing; null when none says anything. What this gives,
// the two above take.
Value to_value(const Constraints& constraints);
Value to_value(const Saving& saving);
// The inverse, for what was stored. Constraints that cannot be read are `unreadable`: that somebody
// asked for something is not forgotten. A saving that cannot be read says nothing.
Constraints constraints_from_stored(const Value& value);
Saving saving_from_stored(const Value& value);

// "3g", "1g.double" (one compute slice with two of memory), or as NVIDIA writes them, "3g.40gb":
// the memory is then what the instance has at least. FJ-1006 otherwise, also for "+me".
struct MigName {
  scheduler::MigProfile profile = scheduler::MigProfile::kWhole;
  std::int64_t memory_bytes = 0;
};
Result<MigName> parse_mig(const std::string& text);

// {key: text} with at most 32 members; texts of 1 to 63 letters, digits and ._/-. FJ-1xxx.
Result<Labels> decode_labels(const Value& value, const std::string& where);

// "model a100 or h100, 40.0 GiB, as 3g": "" when any GPU will do.
std::string to_text(const GpuChoice& choice);
// "disk=ssd"
std::string label_text(const std::string& key, const std::string& value);

}  // namespace falaj::jobs
