// cli/advise.h — `falaj train advise`: on this machine, without a server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace falaj::cli {

// Tries a training program in a sandbox, briefly, and writes the TrainJob that follows (advise.cc).
struct AdviseChoice {
  std::vector<std::string> command;
  std::string memory;       // Of all processes.
  std::int64_t cpus = 0;    // 0: those that this process may use.
  std::int64_t batch = 32;  // The first to try.
  std::int64_t batch_max = 1 << 20;
  std::string params = "{}";    // JSON, passed on in FALAJ_PARAMS.
  std::string time_max = "5m";  // Of one trial.
  std::string name = "advised";
  std::string out;  // "": standard output.
};
Status advise_training(const AdviseChoice& choice);

}  // namespace falaj::cli
