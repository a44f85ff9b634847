// launch/local_node.h — this machine as a node: workers are child processes of this one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "launch/node.h"

namespace falaj::launch {

// DeepSpeed's launcher appends --local_rank=N to the command.
enum class LocalRankArgument : std::uint8_t { kNo, kAppend };

// Who is about to start: all workers of a node (none of them runs), or one beside the others.
enum class Begins : std::uint8_t { kAll, kOne };

struct LocalNodeOptions {
  std::vector<std::string> argv;  // Of each worker; argv[0] is looked up in PATH of `inherited`.
  Environment inherited;
  std::string work_dir;
  std::string host = "127.0.0.1";
  std::string folder;             // Exists; hostfile and machine list are written there.
  std::string checkpoint_folder;  // FALAJ_CKPT_DIR; "": not set.
  // Asked before every start: FALAJ_CKPT_RESTORE, "" for none. With an error nothing is started, as
  // if the programs had failed. May block. Empty: the variable is as inherited.
  std::function<Result<std::string>(Begins)> restore;
  std::uint16_t rendezvous_port = 0;
  int cpus = 1;
  Duration quick_grace = Duration::seconds(3);
  LocalRankArgument local_rank = LocalRankArgument::kNo;
  std::vector<std::string> devices{};  // Names of GPUs, shared out so many to each worker.
  int devices_each = 0;                // 0: CUDA_VISIBLE_DEVICES is as inherited.
};

// kNotFound when there is no such program. The workers die with this process. When FALAJ_METRICS is
// inherited, each worker finds that file open for appending as FALAJ_METRICS_FD.
Result<std::unique_ptr<Node>> make_local_node(LocalNodeOptions options, NodeEvents events);

// The program as an absolute path, looked up as execvp does. kNotFound otherwise.
Result<std::string> find_program(const std::string& name, const Environment& env,
                                 const std::string& work_dir);

}  // namespace falaj::launch
