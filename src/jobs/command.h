// jobs/command.h — a submitted command as work for an executor: its folder, environment, limits and
// what it may touch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/executor.h"
#include "jobs/queue.h"

namespace falaj::jobs {

// Who an attempt is to the server, and where a command that has a network finds it. All empty: its
// commands have no identity. Thread-safe functions.
struct CommandIdentity {
  // At the beginning of an attempt, and again by the server after this one while it runs: its
  // token, which holds until end() or the next attempt's begin(). `submitter` may be null. `place`
  // is the zone to which the network of one that has it leads; unlabelled for others.
  std::function<Result<std::string>(const AttemptId&, std::vector<security::Scope>,
                                    security::PrincipalPtr submitter, const Zone& place)>
      begin{};
  std::function<void(const JobId&)> end{};
  struct Server {
    std::string url;        // "": not known.
    std::string authority;  // File with the authority of its certificate; "": the system's.
  };
  std::function<Server()> server{};
};

// Why the exit is asked: whether the job could ever begin, or because an attempt begins now.
enum class Departure : std::uint8_t { kAsked, kBegins };

// What the administrator grants to commands.
struct CommandOptions {
  std::int64_t memory_bytes_max = 0;  // The most a job may ask for; 0: no limit but the machine.
  Duration time_max{};                // The most a job may run; 0: no limit.
  std::int64_t disk_bytes_max = 0;  // The most, and what it gets when it asks for nothing; 0: none.
  std::int64_t processes_max = 64;
  std::int64_t io_bytes_max = 0;  // A second; 0: no limit.
  std::int64_t log_bytes_max = std::int64_t{8} << 20;
  std::vector<std::string> readable;  // Folders beside the system's: code, data, interpreters.
  std::vector<std::string> writable;
  bool network = false;                // Commands that ask for it have the machine's network.
  Zone network_zone{};                 // Where that leads, if the administrator says.
  std::string device_folder = "/dev";  // Where GPUs are: nvidia0, …, nvidiactl, nvidia-uvm.
  exec::Sandbox sandbox;               // As far as it does not depend on the job.
  std::string program;                 // This program: runs images by its `engine image`.
  std::string oci_runtime;             // What that becomes; see jobs/oci/bundle.h.
  // Turns the name of a runtime into what it is (jobs/runtimes.h). Empty: none can be named.
  std::function<Status(const security::RequestContext&, JobSpec&)> resolve{};
  CommandIdentity identity{};
  // Whether `object`, which a command with the machine's network reads, may leave by it
  // (residency). Asked about each of inputs_of() the job. Empty: yes.
  std::function<Status(const security::RequestContext&, const std::string& object, Departure)>
      departs{};
};

// FJ-1006 when the job asks for more than `options` grants, a network included. Pure.
Status check_limits(const CommandOptions& options, const JobSpec& spec);
// Whether the job, if it asks for the machine's network and has it, may take all that it reads
// along.
Status check_departure(const CommandOptions& options, const security::RequestContext& context,
                       const JobSpec& spec, Departure why);
// Takes so many workers off the most that all of them together keep to `options`, down to the
// least. Pure.
void fit_workers(const CommandOptions& options, Request& request);
// FJ-1015 when its program is not there, FJ-1006 when it wants a network in an image; its runtime
// has been resolved. A program with a slash is
// looked for when the job starts, in its own folder.
Status check_program(const JobSpec& spec);

// The program with its folder, as looked for in `path` ("a:b"); the word itself when it has a
// slash, "" when it is nowhere.
std::string find_program(const std::string& word, std::string_view path);

// Where an attempt's files are.
struct AttemptFiles {
  std::string work_dir;
  std::string log;
};
AttemptFiles attempt_files(const std::string& folder, const AttemptId& id);

// The work of the job's attempt `job.epoch`; with the machine's network "netns" is not required of
// its sandbox, as nobody asked for it. Pure but for looking up the program. `gpus`: which
// devices it was given, a bit each.
Work command_work(const CommandOptions& options, const Job& job, const AttemptFiles& files,
                  std::uint16_t gpus);

// Whether its attempts have an identity: what runs in an image has not. It has no network to use it
// over, and its environment lies in a file (jobs/oci/bundle.h). Pure.
bool may_be_known(const Job& job);
// Puts the attempt's own identity, if it may have one, into the environment: FALAJ_TOKEN, good for
// scopes_of() the job (jobs/reach.h); with a network FALAJ_SERVER, and FALAJ_CA where the server
// has an authority of its own, which it then may read.
Status give_identity(const CommandOptions& options, const Job& job, Work& work);
// Where what its attempts read arrives: CommandOptions::network_zone of one with that network.
// Pure.
Zone place_of(const CommandOptions& options, const JobSpec& spec);

// Tells the command which part of a GPU it has, and binds it to its NUMA node. FALAJ_GPU_FRACTION
// with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or FALAJ_GPU_INSTANCE ("3g@4": the profile and its first
// memory slice). Pure.
void give_part(const Request& request, const Grant& grant, Work& work);

// Ok when the attempt succeeded; otherwise as jobs/exit_error.h, with the log's last lines, and
// with the setting jobs.readable when a word of the command is a place that it grants nobody to
// read.
Status check_end(const AttemptEnd& end, const Work& work, std::string_view log);

}  // namespace falaj::jobs
