// usage: fault_writer PORT FOLDER ROUND sync|nosync
//
// Writes for ever with four threads. A line on standard output, "ack LANE INDEX", says that the
// write is durable; "err FJ-NNNN" that one was refused and is tried again. "end FJ-NNNN": the store
// did not open. It is killed by whoever started it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "workload.h"

namespace falaj::faults {
namespace {

constexpr int kLanes = 4;

// One write(2) below PIPE_BUF: lines of different threads never mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) ::_exit(1);
}

void write_lane(Target& target, int round, int lane) {
  for (int index = 0;; ++index) {
    while (true) {
      const Status written = target.put({round, lane, index});
      if (written.ok()) break;
      say("err " + falaj::to_string(written.error().id));
    }
    say("ack " + std::to_string(lane) + " " + std::to_string(index));
  }
}

int run(const std::vector<std::string>& args) {
  const auto port = port_from(args[0]);
  if (!port.ok()) return 2;
  const auto durability =
      args[3] == "sync" ? storage::Durability::kSync : storage::Durability::kNoSync;
  const auto target = Target::open(*port, args[1], durability);
  if (!target.ok()) {
    ::fprintf(stderr, "%s\n", target.error().message.c_str());
    say("end " + falaj::to_string(target.error().id));
    return 1;
  }
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&, lane] { write_lane(**target, std::stoi(args[2]), lane); });
  }
  for (std::thread& lane : lanes) lane.join();
  return 0;
}

}  // namespace
}  // namespace falaj::faults

int main(int argc, char** argv) {
  if (argc != 5) {
    ::fprintf(stderr, "usage: fault_writer PORT FOLDER ROUND sync|nosync\n");
    return 2;
  }
  return falaj::faults::run({argv + 1, argv + argc});
}
