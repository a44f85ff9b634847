// cli/keeping.h — a keeper of checkpoints beside what runs, for `falaj launch` and `falaj
// checkpoints keep`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "cli/commands.h"
#include "jobs/checkpoint/keeper.h"

namespace falaj::cli {

// Says on standard error what becomes of each checkpoint. Start it once signals are blocked: it has
// a thread. Thread-safe.
class Keeping {
 public:
  // FJ-8001 when another process keeps that folder; kInvalidArgument for sizes and times that are
  // none.
  static Result<std::unique_ptr<Keeping>> start(const KeepChoice& choice);

  std::string saves_path() const { return keeper_->saves_path(); }
  // FALAJ_CKPT_RESTORE for those who start now: see Keeper::restore(). "" when there is none.
  Result<std::string> restore_path();
  void drop_incomplete() { keeper_->drop_incomplete(); }
  // The workers have ended: waits until what they saved is on disk.
  Status finish() { return keeper_->flush(jobs::checkpoint::Flush::kAll, limit_); }
  std::optional<jobs::checkpoint::Manifest> newest() const { return keeper_->status().newest; }

 private:
  explicit Keeping(Duration limit) : limit_(limit) {}
  const SystemClock clock_;
  const Duration limit_;
  std::unique_ptr<jobs::checkpoint::Keeper> keeper_;
};

}  // namespace falaj::cli
