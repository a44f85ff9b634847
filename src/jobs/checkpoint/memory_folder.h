// jobs/checkpoint/memory_folder.h — where workers save: a folder in memory, and what was taken from
// it.
//
//   ROOT/saves                 the worker's: FALAJ_CKPT_DIR
//   ROOT/taken/00000012-NAME   the keeper's: complete, waiting to be persisted
//   ROOT/restored              the worker's: what was opened of a sealed archive
//   ROOT/key                   from whoever started the keeper: what it seals with; it takes it
//
// A worker writes NAME.tmp, a file or a folder, and renames it to NAME: from then on it is
// complete. With NAME.metric.json beside it ({"metric": 0.91}), there before the rename, it can be
// among the best. Taking is a rename: the worker may use the name again at once. Both folders
// outlive a killed keeper; the next one finds what was not yet persisted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace falaj::jobs::checkpoint {

struct Taken {
  std::int64_t number = 0;
  std::string name;
  std::string entry;  // In taken_folder().
  std::int64_t bytes = 0;
  std::optional<double> metric;
  std::string metric_refused;  // Why its metric does not count; "": it does, or there is none.
};

// One thread at a time.
class MemoryFolder {
 public:
  // Below /dev/shm, always the same for the same archive and user. kFailedPrecondition when there
  // is no memory-backed file system, or somebody else made the folder.
  static Result<std::string> root_for(const std::string& archive);
  // The same for any `use` of a folder, made for this user alone. Errors as root_for().
  static Result<std::string> private_root(std::string_view use, const std::string& folder,
                                          std::string_view end = "");
  // Makes both folders and begins to watch.
  static Result<MemoryFolder> open(const std::string& root);

  std::string saves_path() const { return root_ + "/saves"; }
  int taken_folder() const { return taken_.get(); }
  int watch() const { return watch_.get(); }  // Readable when something may be complete.

  // What an earlier keeper took and did not finish, oldest first.
  Result<std::vector<Taken>> left_over();
  // Everything complete in `saves` now, oldest first; for the start, and when events were lost.
  Result<std::vector<std::string>> complete_now() const;
  // What was renamed into place since the last call. kDataLoss when the kernel lost count.
  Result<std::vector<std::string>> completed();
  // Moves it over. Nothing when it is gone: the worker has renamed over it, or it was taken before.
  // kInvalidArgument when it is refused; it is deleted then.
  Result<std::optional<Taken>> take(const std::string& name, std::int64_t number,
                                    std::int64_t bytes_max);
  void remove(const Taken& taken) { remove_entry(taken.entry); }
  // Deletes what was begun and not completed. Only while no worker writes.
  void drop_incomplete();
  // Deletes all of it. Only while no worker writes, and when nothing waits.
  void remove_all();

 private:
  MemoryFolder() = default;
  Result<Taken> describe(std::int64_t number, const std::string& name, std::int64_t bytes_max);
  void read_metric(Taken& taken) const;
  void remove_entry(const std::string& entry);

  std::string root_;
  Descriptor saves_;
  Descriptor taken_;
  Descriptor watch_;
};

}  // namespace falaj::jobs::checkpoint
