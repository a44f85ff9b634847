// usage: fault_checkpoint_writer - FOLDER ROUND sync|nosync
//
// A worker that saves for ever and the keeper that persists it, in one process, so that a kill ends
// both at the same point. FALAJ_MEMORY names the folder in memory. "ack 0 INDEX": that save is
// durable (only ever growing); "err FJ-NNNN WHY": the disk said no, and it is tried again.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint_content.h"
#include "jobs/checkpoint/keeper.h"

namespace falaj::faults {
namespace {

namespace fs = std::filesystem;
namespace ckpt = jobs::checkpoint;

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) ::_exit(1);
}

void save(const std::string& saves, const std::string& name) {
  const fs::path staged = saves + "/" + name + ".tmp";
  for (const auto& [path, bytes] : save_content(name)) {
    fs::create_directories((staged / path).parent_path());
    std::ofstream(staged / path, std::ios::binary) << bytes;
  }
  fs::rename(staged, saves + "/" + name);
}

class Acks {
 public:
  explicit Acks(int round) : prefix_("s-" + std::to_string(round) + "-") {}
  void take(const ckpt::Event& event) {
    if (event.kind == ckpt::EventKind::kRetried) {
      say(event.message.find("No space") != std::string::npos ? "err FJ-8003" : "err FJ-0012");
    }
    // Of an earlier life's saves, which were still in memory, nobody asks.
    if (event.kind != ckpt::EventKind::kPersisted || !event.name.starts_with(prefix_)) return;
    const int index = std::stoi(event.name.substr(prefix_.size()));
    if (index > last_) say("ack 0 " + std::to_string(index));
    last_ = std::max(last_, index);
  }

 private:
  const std::string prefix_;
  int last_ = -1;
};

int run(const std::string& folder, int round, const std::string& durability) {
  Acks acks(round);
  ckpt::KeeperOptions options;
  options.archive = folder;
  options.memory_folder = ::getenv("FALAJ_MEMORY");
  options.retry_first = Duration::milliseconds(1);
  options.retry_max = Duration::milliseconds(5);
  if (durability == "nosync") options.durability = storage::Durability::kNoSync;
  options.on_event = [&](const ckpt::Event& event) { acks.take(event); };
  const SystemClock clock;
  const auto keeper = ckpt::Keeper::start(options, clock);
  if (!keeper.ok()) {
    ::fprintf(stderr, "%s\n", keeper.error().message.c_str());
    say("end " + falaj::to_string(keeper.error().id));
    return 1;
  }
  for (int index = 0;; ++index) {
    save((*keeper)->saves_path(), save_name(round, index));
    // Now and then it runs ahead of the disk; a failing disk holds it up for as long as that lasts.
    while (index % 3 != 0 && !(*keeper)->flush(ckpt::Flush::kNewest, Duration::seconds(1)).ok()) {
    }
  }
}

}  // namespace
}  // namespace falaj::faults

int main(int argc, char** argv) {
  if (argc != 5 || ::getenv("FALAJ_MEMORY") == nullptr) {
    ::fprintf(stderr,
              "usage: FALAJ_MEMORY=DIR fault_checkpoint_writer - FOLDER ROUND sync|nosync\n");
    return 2;
  }
  return falaj::faults::run(argv[2], ::atoi(argv[3]), argv[4]);
}
