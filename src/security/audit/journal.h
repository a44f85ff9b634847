// security/audit/journal.h — who read and who predicted, counted without slowing anybody down.
//
// Changes have an entry each; reads and predictions come by the ten thousand a second. They are
// counted per principal, action and object in memory and entered an interval later as one
// "access.batch" entry of each project, or several where the rows are many: its detail holds the
// total, the number of rows and the Merkle root over them; the rows are a sealed opening of that
// entry (Audit::openings), erasable like any other. What was counted since the last batch is lost
// when the machine dies; entries that cannot be written keep their counts for the next.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "security/audit.h"

namespace falaj::security {

struct Access {
  std::string_view principal;  // Its id.
  std::string_view action;     // "serving.predict"
  std::string_view project;
  std::string_view object;  // "Deployment/fraud"
};

// Thread-safe.
class AccessJournal {
 public:
  // `rows_max`: different rows an interval and shard, an eighth of them of one principal. Beyond it
  // an access counts under its principal and action only, whatever the object.
  AccessJournal(Audit& audit, const Clock& clock, std::size_t rows_max = 4'096);

  // Never waits for storage and never fails: one map lookup under a lock that threads hardly share.
  void note(const Access& access, std::int64_t count = 1);
  // Enters what was counted; nothing if there was nothing. FJ-7050 keeps the counts.
  Status tick();

 private:
  static constexpr std::size_t kShards = 16;
  // By project; a row is its text up to the count.
  using Rows = std::map<std::string, std::map<std::string, std::int64_t>, std::less<>>;
  struct Counts {
    Rows rows;
    std::size_t size = 0;  // Rows of all projects.
    std::map<std::string, std::size_t, std::less<>> of_principal;
  };
  // Who comes again and again is found without making the row's text.
  struct Last {
    std::string principal;
    std::string action;
    std::string project;
    std::string object;
    std::int64_t* count = nullptr;  // In `rows`; null: nobody.
  };
  struct alignas(64) Shard {
    Mutex mutex;
    Counts counts FALAJ_GUARDED_BY(mutex);
    Last last FALAJ_GUARDED_BY(mutex);
  };

  Rows take();
  void put_back(const Rows& rows);

  Audit& audit_;
  const Clock& clock_;
  const std::size_t rows_max_;
  std::array<Shard, kShards> shards_;
  Mutex ticking_;
  Timestamp since_ FALAJ_GUARDED_BY(ticking_);
};

// The rows of a batch as text, one JSON list a line: [principal, action, project, object, count];
// and the Merkle root over those lines, hex. Pure; for whoever opens a batch and compares.
std::string batch_root(std::string_view rows);

}  // namespace falaj::security
