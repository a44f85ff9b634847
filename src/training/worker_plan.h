// training/worker_plan.h — a TrainJob whose engine is a command: how many workers, what happens
// when one dies, which checkpoints stay. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/decode.h"
#include "base/result.h"
#include "base/time.h"
#include "jobs/admission.h"
#include "jobs/request.h"
#include "launch/groups.h"

namespace falaj::training {

// spec: {engine: command, command: [python3, train.py], env: {SEED: "7"}, queue: risk, priority: 5,
//        workers: {min: 1, max: 4, cpu: 2, memory: 4Gi, gpus: 1, servers: 0}, runtime: torch,
//        capture: {seed: 7},
//        faults: {crashes_max: 3, preemptions_max: unlimited, grace: 60s, on_crash: restart_all,
//                 log_rules: [{match: out of memory, do: stop}]},
//        checkpoint: {keep: {last: 2, best: 1}, better: higher}, resources: {time_max: 2h},
//        placement: {labels: {disk: ssd}}, cost_cap: 20, deadline: 2026-12-01T00:00:00Z}
// or, instead of workers, several roles (launch/groups.h):
//        groups: [{name: chief, cpu: 2, memory: 4Gi, gpus: 1}, {name: worker, min: 1, max: 4},
//                 {name: ps, count: 2, command: [python3, serve.py]}]
struct PlannedGroup {
  launch::Group role;
  jobs::Resources each;
};

struct WorkerPlan {
  jobs::Submission submission;  // The command and what it asks for; resources are one worker's.
  int workers_min = 1;
  int workers_max = 1;
  int servers = 0;
  int crashes_max = 3;
  std::int64_t preemptions_max = -1;  // -1: no limit.
  Duration grace = Duration::seconds(60);
  std::string on_crash = "restart_all";
  std::vector<std::string> log_rules;  // "stop=PATTERN"
  int keep_last = 2;
  int keep_best = 1;
  std::string better = "higher";
  Value capture;  // Decoded (jobs/capture.h); null when nothing was said.
  // In their order; the workers above are then those of one of them, whose number may change.
  std::vector<PlannedGroup> groups{};
  std::size_t elastic = 0;  // Its position.
};

// Takes the plan's members out of the spec; the others are the caller's. FJ-1xxx with what is
// wrong.
Result<WorkerPlan> decode_worker_plan(Fields& fields, Duration time_max);

// The most workers that the job may have: as many as the machine ever has room for, within min and
// max. When not even min has, min: the queue then refuses and says why.
int workers_on(const jobs::Machine& machine, const WorkerPlan& plan);

// What the gang asks of the scheduler: min workers at least, `most` at most.
jobs::Request request_of(const WorkerPlan& plan, int most, const std::string& name);

// The words of `falaj launch` that follow from the plan, without folders and command …
std::vector<std::string> launch_words(const WorkerPlan& plan);
// … and those that follow from how many workers an attempt was granted. `groups` is group_values(),
// as it was kept.
std::vector<std::string> gang_words(const jobs::Request& granted, std::int64_t workers,
                                    const Value& groups = {});
// The groups as `falaj launch --group` reads them, a list; null without any.
Value group_values(const WorkerPlan& plan);

}  // namespace falaj::training
