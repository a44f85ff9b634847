// serving/budget/memory_budget.h — how much memory all models may have together, and who has it.
//
// A model is counted from before it is loaded: with what it took the last time, or with a guess
// from the size of its file; then with what it was measured to take. What would pass the budget, or
// is more than the machine has left, is refused before anything of it is read.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/result.h"

namespace falaj::serving::budget {

// A guess for a file of so many bytes: itself, what the library makes of it, and as much again
// while it does; and a mebibyte for what every session has.
std::int64_t guessed_need(std::int64_t file_bytes);

// Bytes that this process has allocated, in all threads. The difference over a load is what the
// model took, within what other requests took and gave back meanwhile.
std::int64_t allocated_bytes();

// What a load is judged by. `gave_back`: what models had before and returned; the allocator keeps
// it for the next one, so that `available` does not see it.
struct Room {
  std::int64_t limit = 0;  // 0: none.
  std::int64_t used = 0;
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  std::int64_t gave_back = 0;
};
// Bytes that may still be taken; never below 0.
std::int64_t free_bytes(const Room& room);
// FJ-0007 with all numbers when `need` is more than that.
Status check_room(const std::string& what, std::int64_t need, const Room& room);

struct BudgetOptions {
  std::int64_t bytes = 0;                   // 0: no limit.
  std::function<std::int64_t()> available;  // What the machine has left. Null: not asked.
  std::function<std::int64_t()> allocated;  // Null: allocated_bytes().
};

// Thread-safe. Shares may outlive who made the budget.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // A file, by a name of its content and of the runtime that loads it.
  struct File {
    std::string name;
    std::int64_t bytes = 0;
  };

  // What one loaded file is counted with, until it is destroyed or let go.
  class Share {
   public:
    Share(std::shared_ptr<MemoryBudget> budget, std::string what, File file, std::int64_t bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // What it turned out to take, at least the size of its file; the next load is judged by it.
    // `owner` is what was loaded, for bytes_of(). FJ-0007 when that passes the budget after all: it
    // is counted as long as it is there.
    Status measured(std::int64_t bytes, const void* owner);
    std::int64_t bytes() const;

   private:
    friend class MemoryBudget;
    const std::shared_ptr<MemoryBudget> budget_;
    const std::string what_;
    const File file_;
    std::int64_t bytes_;           // Under the budget's mutex.
    const void* owner_ = nullptr;  // The same.
  };

  explicit MemoryBudget(BudgetOptions options);

  std::int64_t need_of(const File& file) const;
  // Counts the file. FJ-0007 when there is no room for it; `what` names the model for people.
  Result<std::unique_ptr<Share>> take(const std::string& what, const File& file);

  // What an owner is counted with; 0 when it is not.
  std::int64_t bytes_of(const void* owner) const;
  // It is unloaded: requests that still run hold it for a moment more, which is not counted.
  void let_go(const void* owner);

  Room room() const;
  std::int64_t allocated() const;

 private:
  Room room_now() const FALAJ_REQUIRES(mutex_);
  void recount(std::int64_t before, std::int64_t after) FALAJ_REQUIRES(mutex_);

  const BudgetOptions options_;
  mutable Mutex mutex_;
  std::int64_t used_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::int64_t most_ FALAJ_GUARDED_BY(mutex_) = 0;  // That was ever used.
  std::map<std::string, std::int64_t> known_ FALAJ_GUARDED_BY(mutex_);
  std::map<const void*, Share*> owners_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::serving::budget
