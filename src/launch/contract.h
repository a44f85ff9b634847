// launch/contract.h — what a worker is told at its start, in the words of every framework at once.
//
// A gang is the workers of one attempt. From it and a worker's place come the environment variables
// and files that torchrun, Horovod, TensorFlow, MPI programs, Slurm scripts, DeepSpeed, XGBoost,
// LightGBM and MXNet look for; they do not collide, so an unmodified script of any of them runs.
// Pure: no clock, no files, no sockets. docs/guides/distributed-training.md lists the contracts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "launch/groups.h"

namespace falaj::launch {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A node as it stands in one gang. Its `ports` were free on it a moment ago; ports_needed() of
// them.
struct Member {
  std::string host;       // How the other members reach it.
  std::string interface;  // "lo", "eth0"; "": not known.
  int workers = 0;
  std::vector<std::uint16_t> ports = {};
};

struct Gang {
  std::string run_id;
  int attempt = 0;       // 0 at first, one more with every restart.
  int restarts_max = 0;  // The crash budget.
  int workers_min = 1;
  int workers_max = 1;
  int servers = 0;              // Parameter servers; they and a scheduler run on members[0].
  std::vector<Member> members;  // In the order of ranks.
  Duration grace{};             // From a notice to the kill.
  // Counted and in_order(): then helpers are those of the groups, and `servers` is their ps.
  std::vector<Group> groups{};

  int world() const;
  // Helpers that have a port of their own on members[0].
  int listeners() const;
};

// Which process of the gang. For workers `rank` counts over the gang, for others over their role.
struct Place {
  Role role = Role::kWorker;
  int rank = 0;
  int member = 0;      // Index in Gang::members.
  int local_rank = 0;  // Of workers: on this member.
};

// What the node that starts a worker adds. Empty texts are left out of the environment.
struct Surroundings {
  std::string folder = {};             // Of this worker's member: hostfile, machines.
  std::string checkpoint_folder = {};  // FALAJ_CKPT_DIR.
  std::string restore_path = {};       // FALAJ_CKPT_RESTORE.
  std::string rendezvous_host = {};    // Of the key-value server for Horovod.
  std::uint16_t rendezvous_port = 0;   // 0: there is none.
  int cpus = 1;                        // Of the machine; shared out as OMP_NUM_THREADS.
  int deadline_fd = 3;                 // Where a notice is read.
  int metrics_fd = -1;                 // Where reports are written; -1: nowhere.
  // Of the member, as CUDA_VISIBLE_DEVICES names them: shared out by local rank, so many each.
  std::vector<std::string> devices = {};
  int devices_each = 0;  // 0: nothing is said about devices.
};

// How many free ports a member with so many workers, and so many of Gang::listeners(), must bring.
int ports_needed(int workers, int listeners);
// Every process of the gang that runs on `member`: workers by rank, then the helpers.
std::vector<Place> places_on(const Gang& gang, int member);
// The number that logs, events and Membership use: ranks of workers, then the scheduler, then the
// servers; with groups, in their order.
int process_number(const Gang& gang, const Place& place);
// "3", "scheduler", "server 0", with groups "worker 2": how a process is called in front of its
// lines.
std::string process_name(const Gang& gang, const Place& place);

// Everything that Falaj sets for this process, sorted by name.
Environment environment(const Gang& gang, const Place& place, const Surroundings& around);
// `inherited` with `set` on top, sorted. OMP_NUM_THREADS is left as inherited when it is there.
Environment merged(const Environment& inherited, const Environment& set);

// "host slots=N" a line: DeepSpeed's and Open MPI's hostfile. Members on one host are one line.
std::string hostfile(const Gang& gang);
// "host port" a line, by rank: LightGBM's machine_list_file. The same as "host:port,…".
std::string machine_list(const Gang& gang);
std::string machines(const Gang& gang);
// {"cluster":…,"task":…} of TensorFlow. With servers, rank 0 is the chief; with groups, the
// chief's.
std::string tf_config(const Gang& gang, const Place& place);

// {"worker":["host:port",…],…}: where each process of each group listens (FALAJ_PORT).
std::string group_peers(const Gang& gang);

// A gang over the wire, to the nodes that start their share of it. decode_gang refuses
// (kInvalidArgument) what no coordinator sends: counts out of bounds, missing ports.
Value to_value(const Gang& gang);
Result<Gang> decode_gang(const Value& value);

}  // namespace falaj::launch
