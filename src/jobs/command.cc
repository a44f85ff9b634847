#include "jobs/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/units.h"
#include "jobs/capture.h"
#include "jobs/exit_error.h"
#include "jobs/post_mortem.h"
#include "jobs/reach.h"
#include "jobs/runtime.h"
#include "scheduler/mig.h"

namespace falaj::jobs {
namespace {

constexpr std::string_view kPath = "/usr/local/bin:/usr/bin:/bin";
constexpr Duration kGrace = Duration::seconds(10);
// Where what a job may not read has other reasons than a setting.
constexpr const char* kSystem[] = {"/usr", "/lib",  "/lib64", "/bin", "/sbin",
                                   "/etc", "/proc", "/sys",   "/dev"};

// The job's own PATH, if it has one, behind its runtime's.
std::string path_of(const Value& payload) {
  std::string path =
      payload["env"].is_object() ? payload["env"].text("PATH", kPath) : std::string(kPath);
  const RuntimeUse runtime = runtime_of(payload);
  return runtime.path.empty() ? path : runtime.path + ":" + path;
}

// What is still to be built cannot be looked into; in an image other programs are.
bool is_there(const RuntimeUse& runtime) {
  if (runtime.form == RuntimeForm::kImage) return false;
  return runtime.folder.empty() || ::access(runtime.folder.c_str(), F_OK) == 0;
}

void set_if_absent(std::vector<std::pair<std::string, std::string>>& env, std::string_view name,
                   std::string value) {
  const bool there = std::any_of(env.begin(), env.end(),
                                 [&](const auto& variable) { return variable.first == name; });
  if (!there) env.emplace_back(name, std::move(value));
}

// What only the server says: which devices a job has, and which job it is.
bool is_ours(const std::string& name) {
  return name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES" ||
         is_servers_variable(name);
}

std::string device_list(std::uint16_t gpus) {
  std::string text;
  for (unsigned i = 0; i < 16; ++i) {
    if ((gpus >> i & 1U) != 0) text += (text.empty() ? "" : ",") + std::to_string(i);
  }
  return text;
}

// The nodes of the devices that it was given, and those that any of them needs. Of the others it
// cannot open a single one, whatever it makes of CUDA_VISIBLE_DEVICES.
void give_devices(const CommandOptions& options, std::uint16_t gpus, exec::Sandbox& sandbox) {
  if (gpus == 0) return;
  for (unsigned i = 0; i < 16; ++i) {
    if ((gpus >> i & 1U) == 0) continue;
    sandbox.read_write.push_back(options.device_folder + "/nvidia" + std::to_string(i));
  }
  for (const char* shared : {"/nvidiactl", "/nvidia-uvm", "/nvidia-uvm-tools"}) {
    sandbox.read_write.push_back(options.device_folder + shared);
  }
  sandbox.read_only.emplace_back("/sys/bus/pci");
  sandbox.read_only.emplace_back("/sys/devices");
}

bool wants_network(const JobSpec& spec) { return spec.payload["network"] == Value(true); }

Duration run_time(const CommandOptions& options, const Request& request) {
  if (request.time_max.nanos == 0) return options.time_max;
  return options.time_max.nanos == 0 ? request.time_max
                                     : std::min(request.time_max, options.time_max);
}

bool is_below(const std::string& path, const std::string& folder) {
  const bool inside = path.size() == folder.size() || folder.ends_with('/') ||
                      (path.size() > folder.size() && path[folder.size()] == '/');
  return path.starts_with(folder) && inside;
}

// The first word of the command that names a place which neither the system nor the administrator
// lets a job read, when it says that it could not read something; "" when there is none.
std::string unreadable_word(const Work& work, std::string_view log) {
  const bool said = log.find("Permission denied") != std::string_view::npos ||
                    log.find("No such file") != std::string_view::npos;
  if (!said || !work.sandbox.enabled) return "";
  const auto may_read = [&](const std::string& word) {
    for (const auto* granted : {&work.sandbox.read_only, &work.sandbox.read_write}) {
      for (const std::string& folder : *granted) {
        if (is_below(word, folder)) return true;
      }
    }
    return std::any_of(std::begin(kSystem), std::end(kSystem),
                       [&](const char* folder) { return is_below(word, folder); });
  };
  for (const std::string& word : work.argv) {
    if (word.starts_with('/') && log.find(word) != std::string_view::npos && !may_read(word)) {
      return word;
    }
  }
  return "";
}

}  // namespace

std::string find_program(const std::string& word, std::string_view path) {
  if (word.find('/') != std::string::npos) return word;
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string folder(path.substr(0, colon));
    path.remove_prefix(colon == std::string_view::npos ? path.size() : colon + 1);
    const std::string full = folder + "/" + word;
    if (folder.starts_with('/') && ::access(full.c_str(), X_OK) == 0) return full;
  }
  return "";
}

Status check_limits(const CommandOptions& options, const JobSpec& spec) {
  const Request& request = spec.request;
  if (options.memory_bytes_max > 0 && request.resources.memory_bytes > options.memory_bytes_max) {
    return Error(ErrorId::kOutOfRange,
                 "the job asks for " + format_bytes(request.resources.memory_bytes) +
                     " of memory and a job gets at most " + format_bytes(options.memory_bytes_max) +
                     " here: ask for less, or have jobs.memory_max raised");
  }
  if (options.time_max.nanos > 0 && request.time_max > options.time_max) {
    return Error(ErrorId::kOutOfRange, "the job asks for " + to_string(request.time_max) +
                                           " and a job runs at most " +
                                           to_string(options.time_max) +
                                           " here: ask for less, or have jobs.time_max raised");
  }
  if (options.disk_bytes_max > 0 && request.resources.disk_bytes > options.disk_bytes_max) {
    return Error(ErrorId::kOutOfRange,
                 "the job asks for " + format_bytes(request.resources.disk_bytes) +
                     " of disk and a job gets at most " + format_bytes(options.disk_bytes_max) +
                     " here: ask for less, or have jobs.disk_max raised");
  }
  if (wants_network(spec) && !options.network) {
    return Error(ErrorId::kOutOfRange,
                 "the job asks for a network and commands have none here: leave 'network' out, or "
                 "have jobs.network set to host");
  }
  return {};
}

Zone place_of(const CommandOptions& options, const JobSpec& spec) {
  return options.network && wants_network(spec) ? options.network_zone : Zone();
}

Status check_departure(const CommandOptions& options, const security::RequestContext& context,
                       const JobSpec& spec, Departure why) {
  if (!options.departs || !options.network || !wants_network(spec)) return {};
  for (const std::string& object : inputs_of(spec)) {
    const Status may = options.departs(context, object, why);
    if (!may.ok()) {
      return may.error().within("the job has a network, by which what it reads can leave");
    }
  }
  return {};
}

void fit_workers(const CommandOptions& options, Request& request) {
  if (!request.workers || options.memory_bytes_max <= 0) return;
  Workers& workers = *request.workers;
  const std::int64_t left =
      std::max<std::int64_t>(0, options.memory_bytes_max - groups_take(request).memory_bytes);
  const std::int64_t room = left / std::max<std::int64_t>(1, workers.each.memory_bytes);
  workers.max = std::clamp(room, workers.min, workers.max);
}

Status check_program(const JobSpec& spec) {
  const std::vector<std::string> command = command_of(spec.payload);
  const std::string path = path_of(spec.payload);
  const RuntimeUse runtime = runtime_of(spec.payload);
  if (!runtime.name.empty() && runtime.digest.empty()) {
    return Error(Code::kFailedPrecondition, "this server has no runtimes: run it without one");
  }
  std::vector<std::string> programs{command.empty() ? "" : command.front()};
  if (spec.payload["groups"].is_array()) {
    for (const Value& group : spec.payload["groups"].as_array()) {
      const std::vector<std::string> own = command_of(group);
      if (!own.empty()) programs.push_back(own.front());
    }
  }
  for (const std::string& program : programs) {
    if (!program.empty() && (!is_there(runtime) || !find_program(program, path).empty())) continue;
    return Error(ErrorId::kFileUnreadable, "there is no program '" + program +
                                               "' on the server's machine in " + path +
                                               ": give its whole path, or a PATH in the job's env");
  }
  if (runtime.form == RuntimeForm::kImage && wants_network(spec)) {
    return Error(ErrorId::kOutOfRange,
                 "an image has no network but its own loopback: leave 'network' out, or run the "
                 "command with a host's or a venv's runtime");
  }
  return {};
}

AttemptFiles attempt_files(const std::string& folder, const AttemptId& id) {
  const std::string stem = folder + "/" + to_string(id);
  return {stem, stem + ".log"};
}

Work command_work(const CommandOptions& options, const Job& job, const AttemptFiles& files,
                  std::uint16_t gpus) {
  const Request& request = job.spec.request;
  Work work;
  work.argv = command_of(job.spec.payload);
  work.env = env_of(job.spec.payload);
  std::erase_if(work.env, [](const auto& variable) { return is_ours(variable.first); });
  const RuntimeUse runtime = runtime_of(job.spec.payload);
  std::erase_if(work.env, [](const auto& variable) { return variable.first == "PATH"; });
  work.env.emplace_back("PATH", path_of(job.spec.payload));
  const bool image = runtime.form == RuntimeForm::kImage;
  if (!runtime.folder.empty() && !image) set_if_absent(work.env, "VIRTUAL_ENV", runtime.folder);
  set_if_absent(work.env, "HOME", files.work_dir);
  set_if_absent(work.env, "TMPDIR", files.work_dir);
  set_if_absent(work.env, "LANG", "C.UTF-8");
  // As many threads as it has processors, for the libraries that ask nobody.
  const std::int64_t threads = std::max<std::int64_t>(1, request.resources.cpu_milli / 1000);
  set_if_absent(work.env, "OMP_NUM_THREADS", std::to_string(threads));
  work.env.emplace_back("CUDA_VISIBLE_DEVICES", device_list(gpus));
  work.env.emplace_back("NVIDIA_VISIBLE_DEVICES", device_list(gpus));
  if (const Value& seed = job.spec.payload["capture"]["seed"]; seed.is_int()) {
    const std::string text = std::to_string(seed.as_int());
    set_if_absent(work.env, "PYTHONHASHSEED", text);
    work.env.emplace_back("FALAJ_SEED", text);
  }
  work.env.emplace_back(kOutputVariable, files.work_dir + "/" + std::string(kOutputFolder));
  work.env.emplace_back("FALAJ_JOB", job.id.str());
  work.env.emplace_back("FALAJ_ATTEMPT", to_string(AttemptId{job.id, job.epoch}));
  work.env.emplace_back("FALAJ_PROJECT", job.spec.project);
  if (const Value& place = job.spec.payload["array"]; place.is_object()) {
    work.env.emplace_back("FALAJ_ARRAY_INDEX", std::to_string(place.integer("index")));
    work.env.emplace_back("FALAJ_ARRAY_COUNT", std::to_string(place.integer("count")));
  }
  work.env.emplace_back(kReportVariable, files.work_dir + "/" + std::string(kReportFile));
  if (!work.argv.empty() && !image) {
    std::string program = find_program(work.argv.front(), path_of(job.spec.payload));
    if (!program.empty() && !program.starts_with('/')) program = files.work_dir + "/" + program;
    if (!program.empty()) work.argv.front() = std::move(program);
  }
  work.work_dir = files.work_dir;
  work.log_path = files.log;
  work.log_bytes_max = options.log_bytes_max;
  work.limits.cpus_max = static_cast<double>(request.resources.cpu_milli) / 1000;
  if (request.resources.bound) work.limits.bound_cpus = request.resources.cpu_milli / 1000;
  work.limits.io_bytes_max = options.io_bytes_max;
  work.limits.memory_bytes_max = request.resources.memory_bytes;
  work.limits.processes_max = options.processes_max;
  work.limits.disk_bytes_max =
      request.resources.disk_bytes > 0 ? request.resources.disk_bytes : options.disk_bytes_max;
  // One byte more, so that whoever meets it is seen to have written too much.
  if (work.limits.disk_bytes_max > 0) work.limits.file_bytes_max = work.limits.disk_bytes_max + 1;
  work.limits.run_time_max = run_time(options, request);
  work.limits.grace = kGrace;
  work.sandbox = options.sandbox;
  work.sandbox.network = options.network && wants_network(job.spec);
  // The administrator let it have the machine's: a network of its own cannot be required of it.
  if (work.sandbox.network) std::erase(work.sandbox.required, "netns");
  work.sandbox.read_only.insert(work.sandbox.read_only.end(), options.readable.begin(),
                                options.readable.end());
  work.sandbox.read_write.insert(work.sandbox.read_write.end(), options.writable.begin(),
                                 options.writable.end());
  work.sandbox.read_only.insert(work.sandbox.read_only.end(), runtime.readable.begin(),
                                runtime.readable.end());
  if (!runtime.folder.empty() && !image) work.sandbox.read_only.push_back(runtime.folder);
  give_devices(options, gpus, work.sandbox);
  work.gpus = gpus;
  work.sandbox.read_write.push_back(files.work_dir);
  return work;
}

bool may_be_known(const Job& job) {
  return runtime_of(job.spec.payload).form != RuntimeForm::kImage;
}

Status give_identity(const CommandOptions& options, const Job& job, Work& work) {
  const CommandIdentity& identity = options.identity;
  if (!identity.begin || !may_be_known(job)) return {};
  work.env.emplace_back("FALAJ_TOKEN", FALAJ_TRY(identity.begin(
                                           AttemptId{job.id, job.epoch}, scopes_of(job.spec),
                                           submitter_of(job.spec), place_of(options, job.spec))));
  if (!work.sandbox.network || !identity.server) return {};
  const CommandIdentity::Server server = identity.server();
  if (server.url.empty()) return {};
  work.env.emplace_back("FALAJ_SERVER", server.url);
  if (server.authority.empty()) return {};
  work.env.emplace_back("FALAJ_CA", server.authority);
  work.sandbox.read_only.push_back(server.authority);
  return {};
}

void give_part(const Request& request, const Grant& grant, Work& work) {
  if (grant.numa != kNowhere) work.limits.bound_node = grant.numa;
  if (!request.placement || grant.gpus == 0) return;
  const GpuChoice& gpu = request.placement->gpu;
  if (gpu.fraction_milli < 1000) {
    char text[16];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(gpu.fraction_milli) / 1000);
    work.env.emplace_back("FALAJ_GPU_FRACTION", text);
    const std::int64_t percent = std::max<std::int64_t>(1, gpu.fraction_milli / 10);
    set_if_absent(work.env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percent));
  }
  if (gpu.mig != scheduler::MigProfile::kWhole && grant.mig_start != kNowhere) {
    work.env.emplace_back("FALAJ_GPU_INSTANCE", std::string(scheduler::to_string(gpu.mig)) + "@" +
                                                    std::to_string(grant.mig_start));
  }
}

Status check_end(const AttemptEnd& end, const Work& work, std::string_view log) {
  exec::ChildExit exit;
  exit.code = end.code;
  exit.memory_peak_bytes = end.memory_peak_bytes;
  exit.output = std::string(log);
  switch (end.reason) {
    case EndReason::kExited:
      exit.reason = exec::ExitReason::kExited;
      break;
    case EndReason::kSignalled:
      exit.reason = exec::ExitReason::kSignalled;
      break;
    case EndReason::kOutOfMemory:
      exit.reason = exec::ExitReason::kOutOfMemory;
      break;
    case EndReason::kTimedOut:
      exit.reason = exec::ExitReason::kTimedOut;
      break;
    case EndReason::kStopped:
      exit.reason = exec::ExitReason::kStopped;
      break;
    case EndReason::kOutOfDisk:
      exit.reason = exec::ExitReason::kOutOfDisk;
      break;
    case EndReason::kNotStarted:
      return Error(ErrorId::kJobFailed, "the command could not be started: " + end.detail);
    case EndReason::kLost:
      return Error(ErrorId::kJobKilled,
                   "its process was lost" + (end.detail.empty() ? "" : ": " + end.detail));
  }
  Status outcome = check_exit(exit, work.limits);
  const std::string word = outcome.ok() ? "" : unreadable_word(work, log);
  if (word.empty()) return outcome;
  Error error = outcome.error();
  error.message.insert(without_log(error.message).size(),
                       "; " + word +
                           " is outside what a job may read: have its folder added to "
                           "jobs.readable");
  return error;
}

}  // namespace falaj::jobs
