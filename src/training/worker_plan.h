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

namespace falaj::training {

// spec: {engine: command, command: [python3, train.py], env: {SEED: "7"}, queue: risk, priority: 5,
//        workers: {min: 1, max: 4, cpu: 2, memory: 4Gi, gpus: 1, servers: 0}, runtime: torch,
//        capture: {seed: 7},
//        faults: {crashes_max: 3, preemptions_max: unlimited, grace: 60s, on_crash: restart_all,
//                 log_rules: [{match: out of memory, do: stop}]},
//        checkpoint: {keep: {last: 2, best: 1}, better: higher}, resources: {time_max: 2h}}
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
// … and those that follow from how many workers an attempt was granted.
std::vector<std::string> gang_words(const jobs::Request& granted, std::int64_t workers);

}  // namespace falaj::training
