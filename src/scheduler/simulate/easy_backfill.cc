#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/check.h"
#include "scheduler/simulate/baselines.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int64_t kGone = std::numeric_limits<std::int64_t>::max();

// The waiting jobs of one size in the order of submission, with "the first that is short enough" in
// logarithmic time: a tree of minima over all jobs of that size that ever waited.
class ShortestFirstTree {
 public:
  void put(JobIndex job, std::int64_t left) {
    const auto at = std::lower_bound(jobs_.begin(), jobs_.end(), job);
    if (at == jobs_.end()) {
      jobs_.push_back(job);
      if (jobs_.size() > leaves_) grow();
      set(jobs_.size() - 1, left);
    } else {
      set(static_cast<std::size_t>(at - jobs_.begin()), left);
    }
  }
  void take(JobIndex job) {
    const auto at = std::lower_bound(jobs_.begin(), jobs_.end(), job);
    set(static_cast<std::size_t>(at - jobs_.begin()), kGone);
  }
  // The earliest submitted with at most `left_max` to do.
  std::optional<JobIndex> first(std::int64_t left_max) const {
    if (jobs_.empty() || minima_[1] > left_max) return std::nullopt;
    std::size_t at = 1;
    while (at < leaves_) at = minima_[2 * at] <= left_max ? 2 * at : 2 * at + 1;
    return jobs_[at - leaves_];
  }

 private:
  void set(std::size_t place, std::int64_t value) {
    std::size_t at = place + leaves_;
    minima_[at] = value;
    for (at /= 2; at >= 1; at /= 2) minima_[at] = std::min(minima_[2 * at], minima_[2 * at + 1]);
  }
  void grow() {
    const std::vector<std::int64_t> old(minima_.begin() + static_cast<std::ptrdiff_t>(leaves_),
                                        minima_.end());
    leaves_ *= 2;
    minima_.assign(2 * leaves_, kGone);
    for (std::size_t i = 0; i < old.size(); ++i) set(i, old[i]);
  }

  std::vector<JobIndex> jobs_;  // Ascending: jobs arrive in the order of their index.
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> minima_ = {kGone, kGone};
};

// When the head will have enough GPUs, and how many others may then still be using. Counted in
// GPUs as the textbook does, not by node: the instant comes sooner than the head can really start
// when the free ones are scattered, which favours short jobs.
struct Reservation {
  Timestamp at{};
  std::int64_t spare = 0;
};

class EasyBackfill final : public Strategy {
 public:
  std::string_view name() const override { return "easy_backfill_oracle"; }

  void on_pending(const World& world, JobIndex job) override {
    const Duration restart =
        world.job(job).run > 0 ? world.interruption().restart_cost : Duration{};
    waiting_[world.spec(job).gpus].put(job, (world.left(job) + restart).nanos);
  }

  void schedule(World& world) override {
    std::optional<JobIndex> head = first_of_all();
    while (head && start(world, *head)) head = first_of_all();
    if (!head || world.cluster().free_total() == 0) return;
    Reservation reservation = reserve(world, *head);
    while (const std::optional<JobIndex> job = candidate(world, reservation)) {
      const bool in_time = world.now() + world.left(*job) <= reservation.at;
      if (!in_time) reservation.spare -= world.spec(*job).gpus;
      const bool started = start(world, *job);
      FALAJ_CHECK(started);
    }
  }

 private:
  std::optional<JobIndex> first_of_all() const {
    std::optional<JobIndex> first;
    for (const auto& [gpus, jobs] : waiting_) {
      const std::optional<JobIndex> head = jobs.first(kGone - 1);
      if (head && (!first || *head < *first)) first = head;
    }
    return first;
  }

  bool start(World& world, JobIndex job) {
    if (!world.start(job)) return false;
    waiting_[world.spec(job).gpus].take(job);
    return true;
  }

  static Reservation reserve(const World& world, JobIndex head) {
    std::vector<std::pair<Timestamp, std::int32_t>> ends;
    for (const JobIndex job : world.running()) {
      ends.emplace_back(world.planned_end(job), world.spec(job).gpus);
    }
    std::sort(ends.begin(), ends.end());
    std::int64_t free = world.cluster().free_total();
    Reservation reservation{.at = world.now(), .spare = 0};
    for (const auto& [end, gpus] : ends) {
      if (free >= world.spec(head).gpus) break;
      free += gpus;
      reservation.at = end;
    }
    reservation.spare = free - world.spec(head).gpus;
    return reservation;
  }

  std::optional<JobIndex> candidate(const World& world, const Reservation& reservation) const {
    std::optional<JobIndex> best;
    for (const auto& [gpus, jobs] : waiting_) {
      if (!world.cluster().fits(gpus)) break;  // Then no larger one does.
      const std::int64_t room = (reservation.at - world.now()).nanos;
      const auto job = jobs.first(gpus <= reservation.spare ? kGone - 1 : room);
      if (job && (!best || *job < *best)) best = job;
    }
    return best;
  }

  std::map<std::int32_t, ShortestFirstTree> waiting_;
};

}  // namespace

std::unique_ptr<Strategy> easy_backfill_oracle() { return std::make_unique<EasyBackfill>(); }

}  // namespace falaj::scheduler::simulate
