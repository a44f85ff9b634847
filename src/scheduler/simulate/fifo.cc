#include <limits>
#include <map>
#include <set>

#include "scheduler/simulate/baselines.h"
#include "scheduler/simulate/pending_index.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::int32_t kAnySize = std::numeric_limits<std::int32_t>::max();

// A job that lost its node stands where its submission puts it.
Turn by_submission(JobIndex job) { return {.major = job, .minor = 0, .job = job}; }

class StrictFifo final : public Strategy {
 public:
  std::string_view name() const override { return "strict_fifo"; }
  void on_pending(const World&, JobIndex job) override { waiting_.insert(job); }
  void schedule(World& world) override {
    while (!waiting_.empty() && world.start(*waiting_.begin())) waiting_.erase(waiting_.begin());
  }

 private:
  std::set<JobIndex> waiting_;
};

class GreedyFifo final : public Strategy {
 public:
  std::string_view name() const override { return "greedy_fifo"; }
  void on_pending(const World& world, JobIndex job) override {
    waiting_.add(world.spec(job).gpus, by_submission(job));
  }
  void schedule(World& world) override {
    std::int32_t too_large = kAnySize;
    while (const std::optional<Turn> next = waiting_.first_below(too_large)) {
      const std::int32_t gpus = world.spec(next->job).gpus;
      if (world.start(next->job)) {
        waiting_.remove(gpus, *next);
      } else {
        too_large = gpus;
      }
    }
  }

 private:
  PendingIndex waiting_;
};

class MaxMinByTenant final : public Strategy {
 public:
  std::string_view name() const override { return "max_min_by_tenant"; }
  void on_pending(const World& world, JobIndex job) override {
    waiting_[world.spec(job).tenant].insert(job);
  }
  void schedule(World& world) override {
    std::vector<std::int64_t> held(world.trace().tenants.size(), 0);
    for (const JobIndex job : world.running()) held[world.spec(job).tenant] += world.spec(job).gpus;
    std::set<std::pair<std::int64_t, std::uint32_t>> order;
    for (const auto& [tenant, jobs] : waiting_) {
      if (!jobs.empty()) order.emplace(held[tenant], tenant);
    }
    while (!order.empty()) {
      const auto [gpus, tenant] = *order.begin();
      order.erase(order.begin());
      std::set<JobIndex>& jobs = waiting_[tenant];
      const JobIndex head = *jobs.begin();
      if (!world.start(head)) continue;
      jobs.erase(jobs.begin());
      if (!jobs.empty()) order.emplace(gpus + world.spec(head).gpus, tenant);
    }
  }

 private:
  std::map<std::uint32_t, std::set<JobIndex>> waiting_;
};

}  // namespace

std::unique_ptr<Strategy> strict_fifo() { return std::make_unique<StrictFifo>(); }
std::unique_ptr<Strategy> greedy_fifo() { return std::make_unique<GreedyFifo>(); }
std::unique_ptr<Strategy> max_min_by_tenant() { return std::make_unique<MaxMinByTenant>(); }

}  // namespace falaj::scheduler::simulate
