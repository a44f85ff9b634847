#include "serving/budget/memory_budget.h"

#include <malloc.h>

#include <algorithm>

#include "base/units.h"

namespace falaj::serving::budget {
namespace {

constexpr std::int64_t kSessionBytes = 1 << 20;
constexpr std::int64_t kTimesFile = 3;
constexpr std::size_t kKnownMax = 10'000;

}  // namespace

std::int64_t guessed_need(std::int64_t file_bytes) {
  const std::int64_t most = (std::numeric_limits<std::int64_t>::max() - kSessionBytes) / kTimesFile;
  return std::clamp<std::int64_t>(file_bytes, 0, most) * kTimesFile + kSessionBytes;
}

std::int64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t free_bytes(const Room& room) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t machine =
      room.available > kMost - room.gave_back ? kMost : room.available + room.gave_back;
  const std::int64_t budget = room.limit == 0 ? kMost : room.limit - room.used;
  return std::max<std::int64_t>(std::min(machine, budget), 0);
}

Status check_room(const std::string& what, std::int64_t need, const Room& room) {
  if (need <= free_bytes(room)) return {};
  const std::string needs = what + " needs about " + format_bytes(need) + " of memory, ";
  if (room.limit != 0 && need > room.limit - room.used) {
    return Error(ErrorId::kResourceExhausted,
                 needs + "and models have " + format_bytes(room.used) + " of the " +
                     format_bytes(room.limit) +
                     " of serving.memory already; unload another, or raise it");
  }
  return Error(ErrorId::kResourceExhausted, needs + "and the machine, or its control group, has " +
                                                format_bytes(room.available) + " left");
}

MemoryBudget::MemoryBudget(BudgetOptions options) : options_(std::move(options)) {}

Room MemoryBudget::room_now() const {
  Room room{options_.bytes, used_, std::numeric_limits<std::int64_t>::max(), most_ - used_};
  if (options_.available != nullptr) room.available = options_.available();
  return room;
}

Room MemoryBudget::room() const {
  MutexLock lock(mutex_);
  return room_now();
}

std::int64_t MemoryBudget::need_of(const File& file) const {
  MutexLock lock(mutex_);
  const auto found = known_.find(file.name);
  return found == known_.end() ? guessed_need(file.bytes) : found->second;
}

Result<std::unique_ptr<MemoryBudget::Share>> MemoryBudget::take(const std::string& what,
                                                                const File& file) {
  const std::int64_t need = need_of(file);
  MutexLock lock(mutex_);
  FALAJ_TRY(check_room(what, need, room_now()));
  recount(0, need);
  return std::make_unique<Share>(shared_from_this(), what, file, need);
}

void MemoryBudget::recount(std::int64_t before, std::int64_t after) {
  used_ += after - before;
  most_ = std::max(most_, used_);
}

std::int64_t MemoryBudget::allocated() const {
  return options_.allocated == nullptr ? allocated_bytes() : options_.allocated();
}

MemoryBudget::Share::Share(std::shared_ptr<MemoryBudget> budget, std::string what, File file,
                           std::int64_t bytes)
    : budget_(std::move(budget)), what_(std::move(what)), file_(std::move(file)), bytes_(bytes) {}

MemoryBudget::Share::~Share() {
  MutexLock lock(budget_->mutex_);
  budget_->recount(bytes_, 0);
  // Another may lie where this one's owner did.
  const auto found = budget_->owners_.find(owner_);
  if (found != budget_->owners_.end() && found->second == this) budget_->owners_.erase(found);
}

Status MemoryBudget::Share::measured(std::int64_t bytes, const void* owner) {
  MutexLock lock(budget_->mutex_);
  const std::int64_t need = std::max(bytes, file_.bytes);
  budget_->recount(bytes_, need);
  bytes_ = need;
  owner_ = owner;
  budget_->owners_[owner] = this;
  if (budget_->known_.size() >= kKnownMax) budget_->known_.clear();
  budget_->known_[file_.name] = need;
  const std::int64_t limit = budget_->options_.bytes;
  if (limit == 0 || budget_->used_ <= limit) return {};
  return check_room(what_, need, {limit, budget_->used_ - need});
}

std::int64_t MemoryBudget::Share::bytes() const {
  MutexLock lock(budget_->mutex_);
  return bytes_;
}

std::int64_t MemoryBudget::bytes_of(const void* owner) const {
  MutexLock lock(mutex_);
  const auto found = owners_.find(owner);
  return found == owners_.end() ? 0 : found->second->bytes_;
}

void MemoryBudget::let_go(const void* owner) {
  MutexLock lock(mutex_);
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return;
  recount(found->second->bytes_, 0);
  found->second->bytes_ = 0;
}

}  // namespace falaj::serving::budget
