// The part of the command tree about compute: jobs, simulate, policy plan, launch, topology,
// checkpoints.
#include <memory>
#include <sstream>

#include "cli/internal/tree.h"
#include "cli/launch_strangers.h"
#include "cli/saver.h"
#include "jobs/queue.h"

namespace falaj::cli {
namespace {

void add_world(CLI::App& command, SimulateChoice& choice, const std::string& trace) {
  command.add_option("--trace", choice.trace, trace);
  command.add_option("--fleet", choice.fleet, "YAML file with groups of nodes");
  command.add_option("--nodes", choice.nodes, "Nodes, without --fleet")->capture_default_str();
  command.add_option("--gpus-per-node", choice.gpus_per_node, "GPUs of each")
      ->capture_default_str();
  command.add_option("--restart-cost", choice.restart_cost, "What resuming a job costs")
      ->capture_default_str();
  command.add_option("--checkpoint", choice.checkpoint, "How often jobs checkpoint by themselves")
      ->capture_default_str();
  command
      .add_option("--node-mtbf", choice.node_mtbf,
                  "Mean time between failures of a node; 0: they never fail")
      ->capture_default_str();
  command.add_option("--stragglers", choice.stragglers, "Share of runs that go at 60 % speed")
      ->capture_default_str();
}

void add_history(CLI::App& command, SimulateChoice& choice) {
  command.add_option("--jobs", choice.jobs, "Jobs of a made-up history")->capture_default_str();
  command.add_option("--tenants", choice.tenants, "Its tenants")->capture_default_str();
  command.add_option("--days", choice.days, "Its length")->capture_default_str();
  command.add_option("--seed", choice.seed, "Its seed, and that of failures")
      ->capture_default_str();
}

// Where it may be, and what stopping it costs.
void add_place(CLI::App& command, PlaceChoice& place) {
  const auto many = [&](const char* name, std::vector<std::string>& to, const char* help) {
    command.add_option(name, to, help)->allow_extra_args(false);
  };
  many("--label", place.labels, "Only on a node with this label: disk=ssd; may be repeated");
  many("--not-label", place.not_labels, "Not on a node with this label; may be repeated");
  many("--data", place.data,
       "Data that it touches, and the zones where that may be: ledger=ae-fin,ae; may be repeated");
  many("--gpu-model", place.gpu_models, "Only GPUs of this model, or of another one named so");
  command.add_option("--gpu-memory", place.gpu_memory, "Memory of each GPU, at least: 40Gi");
  command.add_option("--gpu-fraction", place.gpu_fraction, "A part of one GPU that others share")
      ->capture_default_str();
  command.add_option("--mig", place.mig, "An instance of one GPU: 1g, 2g, 3g, 4g, 7g, 3g.40gb");
  command.add_flag("--numa", place.numa, "Processors and GPUs of one NUMA node; bound to it");
  command.add_option("--together", place.together,
                     "All of it within one host, nvlink, rack, block or zone");
  command.add_option("--prefer", place.prefer, "The same, if that can be had");
  many("--tag", place.tags, "What it is, for --avoid and --near; may be repeated");
  many("--avoid", place.avoid, "Not while a job of the project with this tag runs there");
  many("--near", place.near, "Only where a job of the project with this tag runs");
  command.add_option("--checkpoint-every", place.checkpoint_every,
                     "How often it saves: so much is lost at most when it is preempted");
  command.add_option("--restart", place.restart, "What it takes to be where it had saved: 30s");
}

void add_request(CLI::App& command, JobChoice& choice) {
  command.add_option("--cpus", choice.cpus, "Processors: its part and its limit")
      ->capture_default_str();
  command.add_option("--memory", choice.memory, "Memory: its part and its limit")
      ->capture_default_str();
  command.add_option("--gpus", choice.gpus, "GPUs")->capture_default_str();
  command.add_flag("--bound", choice.bound,
                   "Whole processors of one memory node, chosen for it, with that node's memory");
  command.add_option("--disk", choice.disk,
                     "What it may keep in its folder (default: jobs.disk_max)");
  command.add_option("--queue", choice.queue, "Queue of the project (default: its default)");
  command.add_option("--runtime", choice.runtime, "Runtime of the project (default: the machine)");
  command
      .add_option("--priority", choice.priority,
                  "Higher goes first, -1000 to 1000; or the name of one of the policy's priorities")
      ->capture_default_str();
  command.add_option("--time-max", choice.time_max, "Stopped after this: 90s, 2h");
  command.add_option("--deadline", choice.deadline,
                     "When it is wanted (RFC 3339): first among its priority when that is near");
  command.add_option("--cost-cap", choice.cost_cap,
                     "Does not start when it would probably cost more, at the policy's prices");
  command.add_option("--attempts", choice.attempts_max, "Tries, if it fails")
      ->capture_default_str();
  command.add_option("--array", choice.array,
                     "So many of them, told apart by FALAJ_ARRAY_INDEX: 100, or 0-99; 0-99%10 runs "
                     "10 at a time");
  command.add_option("--running-max", choice.running_max,
                     "Of the members of its array so many run at a time");
  add_place(command, choice.place);
  command
      .add_option("--after", choice.after,
                  "Start once this job has succeeded; any:ID once it has ended, failed:ID if it "
                  "failed; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--env", choice.env, "NAME=value; may be repeated")->allow_extra_args(false);
  command
      .add_option("--reads", choice.inputs,
                  "KIND/NAME that it may read by its FALAJ_TOKEN: TrainingSet, FeatureView, "
                  "FeatureService, Model, Run, Deployment; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--writes", choice.outputs,
                  "KIND/NAME that it may make by it: Model, FeatureView; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("--network", choice.network,
                   "The server's network, where jobs.network lets commands have it");
  command.add_option("--name", choice.name, "For people");
  Tree::add_capture(command, choice.capture);
  command.add_option("command", choice.command, "The program and its arguments, after --")
      ->required();
}

// By which the nodes of a launch know each other. A flag goes before the environment.
void add_launch_certificates(CLI::App& command, launch::CertificateFiles& files) {
  files.certificate = from_environment("FALAJ_LAUNCH_CERTIFICATE", "");
  files.key = from_environment("FALAJ_LAUNCH_KEY", "");
  files.authority = from_environment("FALAJ_LAUNCH_CA", "");
  files.revoked = from_environment("FALAJ_LAUNCH_REVOKED", "");
  std::istringstream peers(from_environment("FALAJ_LAUNCH_PEER", ""));
  for (std::string each; std::getline(peers, each, ',');) {
    if (!each.empty()) files.peers.push_back(each);
  }
  command.add_option("--certificate", files.certificate,
                     "Certificate of this node for --listen and --join, as falaj certificates "
                     "issue writes it (env FALAJ_LAUNCH_CERTIFICATE)");
  command.add_option("--key", files.key,
                     "Its key, if it is in a file of its own (env FALAJ_LAUNCH_KEY)");
  command.add_option("--ca", files.authority,
                     "The authority of every node's certificate, PEM (env FALAJ_LAUNCH_CA)");
  command
      .add_option("--peer", files.peers,
                  "SPIFFE id that the other end may have; may be repeated (default: any of the "
                  "trust domain; env FALAJ_LAUNCH_PEER, with commas)")
      ->allow_extra_args(false);
  command.add_option("--revoked", files.revoked,
                     "What falaj certificates list -o json printed: who was revoked is refused; "
                     "read again when it changes (env FALAJ_LAUNCH_REVOKED)");
}

// How `checkpoints keep` and `launch --archive` keep what workers save.
void add_keeping(CLI::App& command, KeepChoice& keep) {
  command.add_option("--last", keep.last, "How many of the newest are kept")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--best", keep.best, "How many of the best are kept, by NAME.metric.json")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_flag("--lower-is-better", keep.lower_is_better, "The metric is a loss");
  command.add_option("--memory", keep.memory, "How much may wait in memory")->capture_default_str();
  command.add_option("--memory-folder", keep.memory_folder,
                     "Where it waits (default: a folder of this archive below /dev/shm)");
  command
      .add_option("--wait", keep.wait,
                  "For the newest to be on disk before and after the workers run")
      ->capture_default_str();
}

void add_other_machines(CLI::App& command, LaunchChoice& launch, bool& secret_only) {
  command.add_option("--listen", launch.listen,
                     "ADDRESS:PORT where other machines may join (needs --secret)");
  command.add_option("--join", launch.join,
                     "ADDRESS:PORT of a launch that listens: be one of its nodes");
  command.add_option("--secret", launch.secret,
                     "File with what all nodes know; --listen makes it when it is missing");
  add_launch_certificates(command, launch.certificates);
  command.add_flag(
      "--secret-only", secret_only,
      "Let nodes of other machines be known by the secret alone, without certificates");
}

}  // namespace

void Tree::add_capture(CLI::App& command, CaptureChoice& choice) {
  command.add_option("--seed", choice.seed, "Seed: in FALAJ_SEED and PYTHONHASHSEED");
  command.add_option("--training-set", choice.data, "TrainingSet whose fingerprint is kept");
  command.add_option(
      "--code", choice.code,
      "Folder whose state is kept with the job (default: this one, if git knows it)");
  command.add_flag("--no-capture", choice.no_capture, "Keep nothing of the code");
}

// Also as `falaj logs`.
void Tree::add_logs(CLI::App& parent) {
  CLI::App* logs = remote(parent, "logs", "Print what a job wrote", [this](const Session& s) {
    return words_.follow ? follow_job(s, words_.name, words_.group)
                         : show_jobs(s, words_.name, JobView::kLog, words_.attempt, words_.group);
  });
  logs->add_option("job", words_.name, "Job id")->required();
  CLI::Option* follow = logs->add_flag("-f,--follow", words_.follow, "Go on until it ends");
  logs->add_option("--attempt", words_.attempt, "Of an earlier attempt")->excludes(follow);
  logs->add_option("--group", words_.group, "Of one role of a TrainJob: chief, worker, ps");
}

void Tree::add_jobs() {
  CLI::App* jobs = remote(root_, "jobs", "Submit commands; list, explain, follow and cancel jobs",
                          [](const Session&) -> Status { return {}; });
  jobs->require_subcommand(0, 1);
  // The group's own callback runs for its subcommands too.
  jobs->callback([this, jobs] {
    if (!jobs->get_subcommands().empty()) return;
    exit_ = signed_in([this](const Session& s) {
      return show_jobs(s, words_.name, words_.log ? JobView::kLog : JobView::kState);
    });
  });
  jobs->add_option("job", words_.name, "Job id: print it");
  jobs->add_flag("--log", words_.log, "Print what the job wrote");
  CLI::App* submit =
      remote(*jobs, "submit", "Run a command as a job: submit --cpus 2 -- python3 train.py",
             [this](const Session& s) {
               return submit_job(s, job_, words_.log ? Wait::kWait : Wait::kNo);
             });
  add_request(*submit, job_);
  submit->add_flag("--wait", words_.log, "Print its log as it comes; fail when it fails");
  remote(*jobs, "list", "List the project's jobs, newest first",
         [](const Session& s) { return show_jobs(s, "", JobView::kState); });
  const auto of_one = [&](const char* name, const char* help, Act act) {
    CLI::App* command = remote(*jobs, name, help, std::move(act));
    command->add_option("job", words_.name, "Job id")->required();
    return command;
  };
  of_one("get", "Print one job",
         [this](const Session& s) { return show_jobs(s, words_.name, JobView::kState); });
  of_one("why", "Why a job waits, in one line",
         [this](const Session& s) { return explain_job(s, words_.name); });
  CLI::App* cancel =
      remote(*jobs, "cancel", "Stop a job, or take it out of the queue", [this](const Session& s) {
        if (words_.all == words_.name.empty()) {
          return words_.all ? cancel_jobs(s) : cancel_job(s, words_.name);
        }
        return Status(Error{ErrorId::kUsage, "name one job, or say --all"});
      });
  cancel->add_option("job", words_.name, "Job id");
  cancel->add_flag("--all", words_.all, "Instead: every job of the project that waits or runs");
  add_logs(*jobs);
  add_logs(root_);
  remote(*jobs, "top", "Jobs that run now and what they take",
         [](const Session& s) { return show_job_usage(s); });
}

void Tree::add_simulate() {
  CLI::App* command = root_.add_subcommand(
      "simulate", "Replay a history of jobs under scheduling policies, side by side");
  command->require_subcommand(0, 1);
  command->callback([this, command] {
    if (command->get_subcommands().empty()) {
      exit_ = done(simulate_policies(simulate_, session().format));
    }
  });
  add_world(*command, simulate_,
            "CSV with submit,duration,gpus,tenant[,name], or the published Philly table; without "
            "it a history is made up");
  add_history(*command, simulate_);
  command->add_option("--policy", simulate_.policies,
                      "falaj, strict_fifo, greedy_fifo, max_min_by_tenant, easy_backfill_oracle, "
                      "las, las_decades or srsf_oracle; may be repeated (default: all)");
  command->add_option("-f,--file", simulate_.policy_file, "SchedulingPolicy that falaj follows");
  command->add_option("--report", simulate_.report, "HTML file to write, with plots");
  command->add_flag("--start-times", simulate_.start_times,
                    "Count how many jobs started within the interval that falaj told them; slow");
  add_output(*command);
  add_history(*local(*command, "generate", "Print a made-up history as CSV",
                     [this] { return done(print_trace(simulate_)); }),
              simulate_);
}

void Tree::add_policy_plan() {
  CLI::App* policy = root_.add_subcommand("policy", "Try a scheduling policy before it is applied");
  policy->require_subcommand(1);
  CLI::App* plan =
      remote(*policy, "plan",
             "Replay the server's past and waiting jobs, or a trace, under the current "
             "and a new policy; exit 1 when a guard-rail breaks",
             [](const Session&) -> Status { return {}; });
  plan->callback([this] {
    exit_ = simulate_.trace.empty() ? signed_in([this](const Session& s) {
      return plan_live(s, simulate_.policy_file, simulate_.report);
    })
                                    : done(plan_policy(simulate_, session().format));
  });
  plan->add_option("-f,--file", simulate_.policy_file,
                   "The new SchedulingPolicy; without --trace also Queues")
      ->required();
  plan->add_option("--report", simulate_.report, "HTML file to write, with plots");
  plan->add_option(
      "--current", simulate_.current_file,
      "With --trace, the current one (default: what Falaj does unless told otherwise)");
  plan->add_option("--seed", simulate_.seed, "With --trace, the seed of failures")
      ->capture_default_str();
  add_world(*plan, simulate_, "CSV to replay, without a server: as for simulate");
}

void Tree::add_launch() {
  const auto secret_only = std::make_shared<bool>(false);
  CLI::App* command =
      local(root_, "launch", "Run a command as the workers of distributed training, any framework",
            [this, secret_only] {
              return launch_workers(
                  launch_, *secret_only ? Strangers::kKnowTheSecret : Strangers::kShowCertificates);
            });
  CLI::Option* workers =
      command->add_option("--workers", launch_.workers, "How many: N, or MIN:MAX")
          ->capture_default_str();
  command->add_option("--slots", launch_.slots,
                      "Workers that this machine takes (default: all; with others, 1)");
  add_other_machines(*command, launch_, *secret_only);
  command->add_option("--node", launch_.node, "Name of this machine (default: the system's)");
  command
      ->add_option("--silence", launch_.silence, "How long a node may be silent until it is lost")
      ->capture_default_str();
  command->add_option("--restarts", launch_.restarts, "Crashes that are forgiven")
      ->capture_default_str();
  command->add_option("--preemptions", launch_.preemptions,
                      "Lost nodes and retries by rule that are forgiven (default: all)");
  command
      ->add_option("--on-log", launch_.rules,
                   "stop=PATTERN, retry=PATTERN or exclude=PATTERN: what a line that matches "
                   "does; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--grace", launch_.grace, "From SIGTERM, which workers are told, to SIGKILL")
      ->capture_default_str();
  command->add_flag("--keep-survivors", launch_.keep_survivors,
                    "After a crash start the dead worker alone again");
  CLI::Option* servers =
      command->add_option("--servers", launch_.servers, "Parameter servers beside the workers")
          ->capture_default_str();
  command
      ->add_option(
          "--group", launch_.groups,
          "A role of the gang, as JSON: {\"name\": \"ps\", \"count\": 2, \"command\": [...]}, "
          "with role, min, max, gpus, threads; may be repeated, instead of --workers")
      ->allow_extra_args(false)
      ->excludes(servers)
      ->excludes(workers);
  command
      ->add_option("--gpus", launch_.gpus,
                   "GPUs of each worker here: CUDA_VISIBLE_DEVICES is shared out by local rank")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--local-rank-argument", launch_.local_rank_argument,
                    "Append --local_rank=N to the command, as DeepSpeed does");
  command->add_option("--host", launch_.host,
                      "Address of this machine that workers reach (127.0.0.1; with --listen or "
                      "--join the address used there)");
  command->add_option("--run-id", launch_.run_id, "Name of the run (default: a new one)");
  command->add_option("--checkpoints", launch_.checkpoints,
                      "Folder that workers find as FALAJ_CKPT_DIR");
  command->add_option(
      "--archive", launch_.keep.folder,
      "Folder where a keeper persists what workers save into $FALAJ_CKPT_DIR; every "
      "start finds the newest as $FALAJ_CKPT_RESTORE");
  add_keeping(*command, launch_.keep);
  command->add_option("--report", launch_.report, "JSON file to write at the end");
  command->add_option("command", launch_.command, "After --: the program and its arguments");
}

void Tree::add_advise(CLI::App& train) {
  CLI::App* command = local(train, "advise",
                            "Try a program in a few short steps: precision, processes, threads "
                            "and batch; writes the TrainJob",
                            [this] { return done(advise_training(advise_)); });
  command->add_option("--memory", advise_.memory, "Limit of all processes together: 4Gi")
      ->required();
  command->add_option("--cpus", advise_.cpus, "Processors to share out (default: all)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--batch", advise_.batch, "The batch to begin with")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--batch-max", advise_.batch_max, "No larger one is tried")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--params", advise_.params, "JSON that the program finds in FALAJ_PARAMS")
      ->capture_default_str();
  command->add_option("--time-max", advise_.time_max, "Of one trial")->capture_default_str();
  command->add_option("--name", advise_.name, "Of the TrainJob")->capture_default_str();
  command->add_option("--out", advise_.out, "File to write (default: standard output)");
  command->add_option("command", advise_.command, "The program and its arguments, after --")
      ->required();
}

void Tree::add_topology() {
  CLI::App* command = local(root_, "topology",
                            "What the scheduler sees of a machine: processors, memory, GPUs and "
                            "which of them are near each other",
                            [this] {
                              const auto as = words_.node ? TopologyAs::kNode : TopologyAs::kTable;
                              return done(show_topology(words_.file, as, session().format));
                            });
  command->add_option("file", words_.file, "XML of lstopo --of xml (hwloc 2); - for standard input")
      ->required();
  command->add_flag("--node", words_.node, "As a Node object, for falaj apply");
  add_output(*command);
}

void Tree::add_checkpoints() {
  CLI::App* checkpoints = root_.add_subcommand(
      "checkpoints", "What training saved to go on from: persisted, hashed, never half");
  checkpoints->require_subcommand(1);
  const auto with_folder = [this](CLI::App* command) {
    command->add_option("folder", keep_.folder, "Folder with checkpoints")->required();
    return command;
  };
  add_output(*with_folder(local(*checkpoints, "list", "Every checkpoint, oldest first", [this] {
    return done(list_kept(keep_.folder, session().format));
  })));
  add_output(*with_folder(
      local(*checkpoints, "verify", "Read every byte of each; exit 1 when one is damaged",
            [this] { return done(verify_kept(keep_.folder, session().format)); })));
  CLI::App* restore = with_folder(
      local(*checkpoints, "restore", "Check the newest whole one and print where it is",
            [this] { return done(restore_kept(keep_.folder, words_.to, session().format)); }));
  restore->add_option("--to", words_.to, "Copy it into this folder, which must not exist");
  add_output(*restore);
  CLI::App* keep =
      with_folder(local(*checkpoints, "keep",
                        "Run a command that saves into $FALAJ_CKPT_DIR, and persist what it saves",
                        [this] { return run_with_keeper(keep_); }));
  local(*checkpoints, "saver",
        "Print a Python module that saves weights without making training wait",
        [this] { return done(print_saver()); });
  add_keeping(*keep, keep_);
  keep->add_option("command", keep_.command, "The command, after --")->required();
}

}  // namespace falaj::cli
