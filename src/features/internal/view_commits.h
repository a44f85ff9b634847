// features/internal/view_commits.h — the one moment at which a view's rows begin to exist, whoever
// brings them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "features/internal/segments.h"
#include "features/online.h"
#include "telemetry/metrics.h"

namespace falaj::features {

// Rows that lie in durable segments and are to be committed.
struct NewRows {
  const ViewDefinition& definition;
  const Zone& zone;
  Reach reach = Reach::kBoth;
  const std::vector<Segment>& segments;
  std::uint64_t rows = 0;
  Timestamp newest_event{};
};

// Thread-safe; one for a store, shared by all who write into views.
class ViewCommits {
 public:
  ViewCommits(storage::SqlStore& sql, Online& online, telemetry::Metrics& metrics,
              const Clock& clock);

  // Who writes into a view holds it, so that commits and their rows online have one order. Held for
  // a commit only: pushes of other views wait for the threads that wait for it.
  Mutex& turn_of(const std::string& project, const std::string& view);
  // Who reads a file into a view, or erases from it, holds it all the while, and takes the turn
  // after it: what was being read when an erasure was asked for is erased too.
  Mutex& intake_of(const std::string& project, const std::string& view);
  // FJ-2001 when it is not declared.
  Result<ViewDefinition> definition(const std::string& project, const std::string& view);

  // The commit's number, which no other had, also none that failed: readers may have gone past it.
  // `beside` writes what belongs to it in the same transaction, before the
  // rows are there. FJ-2007 when the view was declared anew since `definition` was read. After it,
  // publish() must be called: readers wait for it.
  using Beside = std::function<Status(storage::SqlTransaction& tx, std::uint64_t commit)>;
  Result<std::uint64_t> commit(const NewRows& rows, const Beside& beside);
  // The newest rows of each key come online, unless they are not for it. Counts them.
  Result<Online::Published> publish(const NewRows& rows, const table::Batch& newest,
                                    std::uint64_t commit);
  // So many rows more had this outcome.
  void count(const ViewDefinition& definition, const char* outcome, std::uint64_t rows);

 private:
  struct Turns {
    Mutex turn;
    Mutex intake;
  };
  Turns& turns_of(const std::string& project, const std::string& view);

  storage::SqlStore& sql_;
  Online& online_;
  telemetry::Metrics& metrics_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Turns>> turns_ FALAJ_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> handed_out_{0};  // The largest; written in write transactions alone.
};

}  // namespace falaj::features
