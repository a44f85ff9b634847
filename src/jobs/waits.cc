#include "jobs/internal/waits.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "jobs/internal/job_store.h"

namespace falaj::jobs::internal {
namespace {

constexpr Duration kLongNap = Duration::minutes(1);

}  // namespace

Status Waits::add(std::string_view who, const JobId& id, Duration limit, Queue::Then then) {
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      std::size_t& own = counts_[std::string(who)];
      if (own >= limits_.each_max || count_ >= limits_.all_max) {
        if (own == 0) counts_.erase(counts_.find(who));
        return Error(Code::kResourceExhausted,
                     "too many requests wait for the end of a job already; ask again when one of "
                     "them was answered, or ask without waiting");
      }
      ++own;
      ++count_;
      waits_.push_back({std::string(who), id, monotonic_nanos() + limit.nanos, std::move(then)});
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
      news_ = true;
      woken_.notify_all();
      return {};
    }
  }
  then(look_(id));
  return {};
}

void Waits::changed(const JobId& id) {
  MutexLock lock(mutex_);
  ++changes_;
  for (Wait& wait : waits_) wait.due = wait.due || wait.id == id;
  news_ = true;
  woken_.notify_all();
}

void Waits::stop() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    thread.swap(thread_);
  }
  woken_.notify_all();
  if (thread.joinable()) thread.join();
  std::vector<Wait> left;
  {
    MutexLock lock(mutex_);
    left.swap(waits_);
  }
  for (Wait& wait : left) wait.then(look_(wait.id));
}

std::vector<Waits::Wait> Waits::take_due() {
  MutexLock lock(mutex_);
  while (!stopped_) {
    news_ = false;
    const std::int64_t now = monotonic_nanos();
    std::int64_t next = now + kLongNap.nanos;
    for (Wait& wait : waits_) {
      wait.due = wait.due || wait.until <= now;
      next = std::min(next, wait.until);
    }
    const auto due = std::stable_partition(waits_.begin(), waits_.end(),
                                           [](const Wait& wait) { return !wait.due; });
    if (due != waits_.end()) {
      std::vector<Wait> taken(std::make_move_iterator(due), std::make_move_iterator(waits_.end()));
      waits_.erase(due, waits_.end());
      return taken;
    }
    (void)woken_.wait_for(mutex_, std::chrono::nanoseconds(next - now),
                          [this]() FALAJ_REQUIRES(mutex_) { return stopped_ || news_; });
  }
  return {};
}

void Waits::tell(std::vector<Wait> due) {
  for (Wait& wait : due) {
    std::uint64_t seen = 0;
    {
      MutexLock lock(mutex_);
      seen = changes_;
    }
    Result<Job> job = look_(wait.id);
    const bool over = !job.ok() || has_ended(job->status) || wait.until <= monotonic_nanos();
    if (over) wait.then(std::move(job));
    MutexLock lock(mutex_);
    if (over) {
      --count_;
      const auto own = counts_.find(wait.who);
      if (--own->second == 0) counts_.erase(own);
      continue;
    }
    wait.due = changes_ != seen;  // The look may have been too early.
    waits_.push_back(std::move(wait));
  }
}

void Waits::work() {
  while (true) {
    std::vector<Wait> due = take_due();
    if (due.empty()) return;
    tell(std::move(due));
  }
}

}  // namespace falaj::jobs::internal
