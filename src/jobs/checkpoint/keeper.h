// jobs/checkpoint/keeper.h — persists what workers save, without making them wait.
//
// A save costs the worker one copy into memory and a rename (memory_folder.h). One thread of the
// keeper takes what is complete, writes it to the archive, newest first, and deletes what retention
// no longer wants; a save that is outdone before its turn is never written. When the disk is full
// or fails, it tries again, waiting twice as long each time, and says so; the save stays in memory
// meanwhile. Nothing that is incomplete is ever taken.
//
// A key that lies in the folder in memory (sealing.h) is taken at the start: then what is persisted
// is sealed, and what is restored is opened in memory.
//
// The kernel does not limit the folder in memory: while more than `memory_bytes_max` waits there,
// older saves are given up, and one that is larger by itself is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "jobs/checkpoint/archive.h"
#include "jobs/checkpoint/manifest.h"
#include "jobs/checkpoint/retention.h"
#include "storage/open.h"

namespace falaj::jobs::checkpoint {

enum class EventKind : std::uint8_t {
  kPersisted,   // It survives power loss now.
  kRetried,     // The disk said no: the message tells why and when it is tried again.
  kRefused,     // It is not kept, and never will be.
  kSuperseded,  // Newer or better ones came before its turn.
  kWarned,      // It is kept, but something about it is wrong: its metric.
};
std::string_view to_string(EventKind kind);

struct Event {
  EventKind kind = EventKind::kPersisted;
  std::int64_t number = 0;  // 0: it has none, for it was refused by name.
  std::string name;
  std::string message;
};

struct KeeperOptions {
  std::string archive;        // The folder on disk.
  std::string memory_folder;  // "": MemoryFolder::root_for(archive).
  Keep keep;
  std::int64_t memory_bytes_max = std::int64_t{8} << 30;
  Duration retry_first = Duration::milliseconds(200);
  Duration retry_max = Duration::seconds(30);
  storage::Durability durability = storage::Durability::kSync;
  // Called on the keeper's thread, which waits for it; must not call the keeper.
  std::function<void(const Event&)> on_event;
};

enum class Flush : std::uint8_t { kNewest, kAll };

struct KeeperStatus {
  std::int64_t persisted = 0;
  std::int64_t superseded = 0;
  std::int64_t refused = 0;
  std::int64_t retries = 0;
  std::int64_t waiting = 0;        // In memory, not yet persisted.
  std::optional<Manifest> newest;  // Persisted.
  std::string trouble;             // Why the newest is not persisted yet; "": nothing is wrong.
};

// Thread-safe.
class Keeper {
 public:
  // Takes the archive (FJ-8001 when another process has it) and what an earlier keeper left in
  // memory. `clock` outlives it.
  static Result<std::unique_ptr<Keeper>> start(KeeperOptions options, const Clock& clock);
  // Stops in the middle of a write; what waits stays in memory for the next keeper. The folder in
  // memory goes when nothing waits.
  virtual ~Keeper() = default;

  // What the worker is told as FALAJ_CKPT_DIR.
  virtual std::string saves_path() const = 0;
  // At a preemption notice, or when the workers have ended: returns once what was complete at the
  // call is persisted, the newest or everything that retention wants; it is tried at once.
  // kDeadlineExceeded with the trouble otherwise.
  virtual Status flush(Flush what, Duration limit) = 0;
  // What the next workers go on from: flush(kNewest), then the newest whole checkpoint, every byte
  // checked, its path absolute. Nothing when there is none. It is not deleted until the next call.
  // As flush(); kDataLoss when all are damaged.
  virtual Result<std::optional<Restored>> restore(Duration limit) = 0;
  // Deletes what a dead worker began and did not complete. Only while no worker writes.
  virtual void drop_incomplete() = 0;
  virtual KeeperStatus status() const = 0;
};

}  // namespace falaj::jobs::checkpoint
