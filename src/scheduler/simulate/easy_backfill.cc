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

// When the head can start, and the fleet as it will be then, with the head on it. By node, not by
// the sum of GPUs: free ones that lie scattered are no place for the head, and a reservation that
// counted them would stand at this instant for ever and let nobody pass.
struct Reservation {
  Timestamp at = Timestamp::max();
  Cluster then;
};

class EasyBackfill final : public Strategy {
 public:
  std::string_view name() const override { return "easy_backfill_oracle"; }

  void on_pending(const World& world, JobIndex job) override {
    waiting_[world.spec(job).gpus].put(job, to_do(world, job));
  }

  void schedule(World& world) override {
    std::optional<JobIndex> head = first_of_all();
    while (head && start(world, *head)) head = first_of_all();
    if (!head || world.cluster().free_total() == 0) return;
    Reservation reservation = reserve(world, *head);
    while (const std::optional<Turn> next = candidate(world, reservation)) {
      if (world.now() + Duration{to_do(world, next->job)} > reservation.at) {
        reservation.then.take(next->slots);
      }
      world.start(next->job, next->slots);
      waiting_[world.spec(next->job).gpus].take(next->job);
    }
  }

 private:
  struct Turn {
    JobIndex job = 0;
    Slots slots;
  };

  static std::int64_t to_do(const World& world, JobIndex job) {
    const bool again = world.job(job).run > 0;
    return (world.left(job) + (again ? world.interruption().restart_cost : Duration{})).nanos;
  }

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
    std::vector<std::pair<Timestamp, JobIndex>> ends;
    for (const JobIndex job : world.running()) ends.emplace_back(world.planned_end(job), job);
    std::sort(ends.begin(), ends.end());
    Reservation reservation{.then = world.cluster()};
    for (const auto& [end, job] : ends) {
      reservation.then.give_back(world.job(job).placement);
      if (!reservation.then.fits(world.spec(head).gpus)) continue;
      reservation.at = end;
      reservation.then.take(reservation.then.find(world.spec(head).gpus));
      break;
    }
    return reservation;
  }

  // Where a gang is neither in anybody's way now nor in the head's then; empty when nowhere.
  static Slots beside(const Cluster& now, const Cluster& then, std::int32_t gpus) {
    const bool one = gpus <= now.node_size_max();
    const std::int32_t each = one ? gpus : now.node_size_max();
    Slots slots;
    for (std::int32_t node = 0; node < now.node_count(); ++node) {
      if (now.free(node) < each || then.free(node) < each) continue;
      if (one && !slots.empty() && now.free(node) >= now.free(slots[0].node)) continue;
      if (one) slots.clear();  // The fullest that has room.
      slots.push_back({node, each});
      if (!one && static_cast<std::int32_t>(slots.size()) == now.nodes_for(gpus)) return slots;
    }
    return one ? slots : Slots{};
  }

  // The earliest submitted of those that end in time, or need nothing that the head will.
  std::optional<Turn> candidate(const World& world, const Reservation& reservation) const {
    const Cluster& now = world.cluster();
    const std::int64_t room =
        reservation.at == Timestamp::max() ? kGone - 1 : (reservation.at - world.now()).nanos;
    std::optional<Turn> best;
    for (const auto& [gpus, jobs] : waiting_) {
      if (!now.fits(gpus)) break;  // Then no larger one does.
      const Slots apart = beside(now, reservation.then, gpus);
      const auto any = jobs.first(apart.empty() ? room : kGone - 1);
      if (!any || (best && best->job < *any)) continue;
      const bool in_time = to_do(world, *any) <= room;
      best = Turn{*any, in_time ? now.find(gpus) : apart};
    }
    return best;
  }

  std::map<std::int32_t, ShortestFirstTree> waiting_;
};

}  // namespace

std::unique_ptr<Strategy> easy_backfill_oracle() { return std::make_unique<EasyBackfill>(); }

}  // namespace falaj::scheduler::simulate
