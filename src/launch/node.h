// launch/node.h — a machine that runs a share of the gang: this one, or one that joined.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "launch/contract.h"
#include "launch/membership.h"

namespace falaj::launch {

// A line that a worker printed.
struct Printed {
  int attempt = 0;
  int process = 0;
  std::string name;  // process_name()
  std::string line;
};

struct ProcessEnd {
  int attempt = 0;
  int process = 0;
  std::string name;
  ExitStatus status;
  std::vector<std::string> last_lines;
  std::string error;  // What the program left in TORCHELASTIC_ERROR_FILE; "" mostly.
  Duration cpu_time{};
  std::int64_t memory_peak_bytes = 0;
};

// Called on threads of the node, in order for each process: its lines, then its end. `ended` must
// not block; `printed` may, and then the worker waits.
struct NodeEvents {
  std::function<void(const Printed& printed)> printed;
  std::function<void(ProcessEnd end)> ended;
};

// Owned and called by one thread. A process that cannot be started ends with 127 and says why in
// its last line; every process that was started ends once.
class Node {
 public:
  virtual ~Node() = default;  // Kills what still runs.
  // Its member for the next gang, with ports that are free now.
  virtual Member member(int workers, int listeners) = 0;
  virtual void start(const Gang& gang, int member) = 0;
  // One process of the gang that runs, again.
  virtual void start_one(int process) = 0;
  // kQuick: SIGTERM to each with all that it has started, SIGKILL soon after. kNotice: the deadline
  // on FALAJ_DEADLINE_FD and SIGTERM to each alone; who is left is killed by kill().
  virtual void stop(StopWith how, Duration grace) = 0;
  virtual void kill() = 0;
};

}  // namespace falaj::launch
