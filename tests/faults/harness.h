// tests/faults/harness.h — starts the writer, listens, kills it, and cuts the power.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workload.h"

namespace falaj::faults {

// What one life of the writer said.
struct Heard {
  std::map<int, int> acknowledged;  // Lane to its last acknowledged index.
  int acks = 0;
  std::vector<std::string> errors;  // "FJ-8003", in order.
  std::string refused;              // The store did not open: why.
};

class WriterProcess {
 public:
  struct Options {
    Port port = Port::kSql;
    std::string folder;
    int round = 0;
    storage::Durability durability = storage::Durability::kSync;
    std::vector<std::pair<std::string, std::string>> env;  // Added; LD_PRELOAD for the shim.
  };
  explicit WriterProcess(const Options& options);
  ~WriterProcess();
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  // Listens until `acks` or `errors` were heard in all, or the process ended.
  void listen_for_acks(int acks);
  void listen_for_errors(std::size_t errors);
  // Listens to the end of a process that kills itself; the signal that ended it, 0 for an exit.
  int wait_for_end();
  // SIGKILL; takes in what it had said before.
  void kill();
  const Heard& heard() const { return heard_; }

 private:
  bool listen_once();  // False at the end of its output.
  void take_line(const std::string& line);

  pid_t pid_ = -1;
  int output_ = -1;
  std::string buffered_;
  Heard heard_;
};

// The preloaded shim's variables for a disk below `disk`.
std::vector<std::pair<std::string, std::string>> shim_env(const std::string& disk,
                                                          const std::string& shadow);

// How cruel the power cut is: kStrict keeps nothing but what was synced; kMixed keeps, by the seed,
// any part of what was not: whole files, torn ends, names.
enum class PowerCut : std::uint8_t { kStrict, kMixed };

// Builds in `after` what the power cut leaves of `disk`, as the shim recorded it in `shadow`.
void cut_power(const std::string& disk, const std::string& shadow, const std::string& after,
               PowerCut how, std::uint64_t seed);

// Ok if every acknowledged write is in the folder and no transaction is half there.
Status check_acknowledged(Port port, const std::string& folder, const std::map<int, Heard>& rounds);

}  // namespace falaj::faults
