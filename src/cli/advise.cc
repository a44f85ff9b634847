// Short trials of a training program, and the TrainJob that follows from them.
#include "cli/advise.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/units.h"
#include "cli/own_machine.h"
#include "config/yaml.h"
#include "exec/child.h"
#include "launch/advise.h"
#include "launch/launch.h"

namespace falaj::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWhyMax = 400;
constexpr int kIllegal = 128 + SIGILL;  // What `falaj launch` ends with when a worker met one.

struct Probe {
  AdviseChoice choice;
  launch::AdviseLimits limits;
  Value params;  // Of the user; batch and precision are ours.
  Duration time_max;
  std::string program;  // This one: it launches the processes of a trial.
};

Result<Probe> probe_of(const AdviseChoice& choice) {
  Probe probe;
  probe.choice = choice;
  probe.limits.cpus = choice.cpus > 0 ? static_cast<int>(choice.cpus) : usable_cpus();
  probe.limits.memory_bytes = FALAJ_TRY(parse_bytes(choice.memory));
  probe.limits.batch_first = choice.batch;
  probe.limits.batch_most = std::max(choice.batch, choice.batch_max);
  probe.limits.bf16 = launch::bf16_of_this_machine();
  probe.params = FALAJ_TRY(parse_json(choice.params));
  probe.time_max = FALAJ_TRY(parse_duration(choice.time_max));
  if (!probe.params.is_object()) {
    return Error{ErrorId::kUsage, "--params is a JSON object, like {\"lr\": 0.1}"};
  }
  if (probe.time_max.nanos <= 0) return Error{ErrorId::kUsage, "--time-max is over 0s"};
  std::error_code error;
  probe.program = fs::read_symlink("/proc/self/exe", error).string();
  if (error) return Error{Code::kInternal, "find this program: " + error.message()};
  return probe;
}

Value params_of(const Probe& probe, const launch::Trial& trial) {
  Value params = probe.params;
  params["batch"] = trial.batch;
  params["precision"] = launch::to_string(trial.precision);
  return params;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Programs say in many ways that memory is short before the kernel does.
bool ran_out(const std::string& output) {
  for (const char* words : {"MemoryError", "out of memory", "can't allocate memory", "bad_alloc"}) {
    if (output.find(words) != std::string::npos) return true;
  }
  return false;
}

std::string last_words(const std::string& output) {
  std::string text = output.substr(output.size() - std::min(output.size(), kWhyMax));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

exec::ChildSpec child_of(const Probe& probe, const launch::Trial& trial,
                         const std::string& folder) {
  exec::ChildSpec spec;
  const std::string processes = std::to_string(trial.processes);
  spec.argv = {probe.program, "launch", "--workers", processes, "--"};
  spec.argv.insert(spec.argv.end(), probe.choice.command.begin(), probe.choice.command.end());
  spec.env = own_environment();
  const auto set = [&spec](const std::string& name, const std::string& value) {
    std::erase_if(spec.env, [&](const auto& each) { return each.first == name; });
    spec.env.emplace_back(name, value);
  };
  set("OMP_NUM_THREADS", std::to_string(trial.threads));
  set("FALAJ_PARAMS", to_json(params_of(probe, trial)));
  set("FALAJ_ADVISE_STEPS", std::to_string(trial.steps));
  set("FALAJ_ADVISE_REPORT", folder + "/steps.jsonl");
  set("TMPDIR", folder);
#if defined(__SANITIZE_ADDRESS__)
  // Its leak check traces its own process, which the sandbox refuses; the rest would eat the limit.
  set("ASAN_OPTIONS", "detect_leaks=0:quarantine_size_mb=4");
#endif
  spec.work_dir = fs::current_path().string();
  spec.channel_fd = -1;
  spec.sandbox.enabled = true;
  spec.sandbox.interfaces = true;
  spec.sandbox.read_only = {"/"};
  spec.sandbox.read_write = {folder};
  spec.limits.memory_bytes_max = probe.limits.memory_bytes;
  spec.limits.run_time_max = probe.time_max;
  return spec;
}

Result<launch::TrialResult> run_trial(const Probe& probe, const launch::Trial& trial) {
  const launch::LaunchFolder folder = FALAJ_TRY(launch::LaunchFolder::create());
  const std::unique_ptr<exec::Child> child =
      FALAJ_TRY(exec::Child::start(child_of(probe, trial, folder.path())));
  const exec::ChildExit exit = child->wait();
  const launch::StepReport steps =
      launch::read_steps(text_of(folder.path() + "/steps.jsonl"), trial.processes);
  launch::TrialResult result;
  result.trial = trial;
  result.samples_per_second = steps.samples_per_second;
  result.memory_peak_bytes = exit.memory_peak_bytes;
  const bool ended_well = exit.reason == exec::ExitReason::kExited && exit.code == 0;
  if (ended_well && steps.steps >= trial.steps) return result;
  const bool memory = exit.reason == exec::ExitReason::kOutOfMemory || ran_out(exit.output);
  result.end = memory ? launch::TrialEnd::kOutOfMemory : launch::TrialEnd::kFailed;
  const bool illegal = exit.reason == exec::ExitReason::kExited && exit.code == kIllegal;
  result.why = illegal ? "illegal instruction: this build of the framework and this processor do "
                         "not support it"
               : exit.reason == exec::ExitReason::kTimedOut
                   ? "it did not end within " + to_string(probe.time_max) +
                         "; does it stop after FALAJ_ADVISE_STEPS steps?"
               : ended_well ? "it ended after reporting " + std::to_string(steps.steps) + " of " +
                                  std::to_string(trial.steps) +
                                  " steps; does it append a line a step to FALAJ_ADVISE_REPORT?"
                            : last_words(exit.output);
  return result;
}

std::string describe(const launch::TrialResult& result) {
  const launch::Trial& trial = result.trial;
  std::string text = std::string(to_string(trial.precision)) + ", " +
                     std::to_string(trial.processes) + " x " + std::to_string(trial.threads) +
                     " threads, batch " + std::to_string(trial.batch) + ": ";
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.4g samples/s, ", result.samples_per_second);
  switch (result.end) {
    case launch::TrialEnd::kDone:
      return text + rate + format_bytes(result.memory_peak_bytes);
    case launch::TrialEnd::kOutOfMemory:
      return text + "does not fit";
    case launch::TrialEnd::kFailed:
      return text + "failed: " + result.why;
  }
  return text;
}

Value spec_of(const Probe& probe, const launch::Advice& advice) {
  Value object = Value::object();
  object["apiVersion"] = "falaj.dev/v1";
  object["kind"] = "TrainJob";
  object["metadata"]["name"] = probe.choice.name;
  Value& spec = object["spec"];
  spec["engine"] = "command";
  spec["command"] = Value::array();
  for (const std::string& word : probe.choice.command) spec["command"].push(word);
  spec["params"] = params_of(probe, advice.best);
  Value& workers = spec["workers"];
  workers["min"] = workers["max"] = advice.best.processes;
  workers["cpu"] = advice.best.threads;
  const std::int64_t memory = launch::memory_of_each(
      advice.memory_peak_bytes, advice.best.processes, probe.limits.memory_bytes);
  workers["memory"] = std::to_string(memory >> 20) + "Mi";
  return object;
}

Result<launch::Advice> find_advice(const Probe& probe, std::vector<launch::TrialResult>& tried) {
  while (true) {
    const launch::Advised next = FALAJ_TRY(launch::advise(probe.limits, tried));
    if (const auto* advice = std::get_if<launch::Advice>(&next)) return *advice;
    tried.push_back(FALAJ_TRY(run_trial(probe, std::get<launch::Trial>(next))));
    std::fprintf(stderr, "tried %s\n", describe(tried.back()).c_str());
  }
}

}  // namespace

Status advise_training(const AdviseChoice& choice) {
  const Probe probe = FALAJ_TRY(probe_of(choice));
  std::vector<launch::TrialResult> tried;
  const launch::Advice advice = FALAJ_TRY(find_advice(probe, tried));
  for (const std::string& each : advice.because) std::fprintf(stderr, "%s\n", each.c_str());
  std::string text;
  for (const std::string& each : advice.because) text += "# " + each + "\n";
  text += config::to_yaml(spec_of(probe, advice));
  if (choice.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::ofstream out(choice.out, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return Error{Code::kInvalidArgument, "cannot write " + choice.out};
  return {};
}

}  // namespace falaj::cli
