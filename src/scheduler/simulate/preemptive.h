// scheduler/simulate/preemptive.h — what the preemptive baselines share: serve by rank, and push
// out whoever ranks behind.
#pragma once

#include <set>
#include <vector>

#include "scheduler/simulate/pending_index.h"
#include "scheduler/simulate/world.h"

namespace falaj::scheduler::simulate {

// Serves waiting jobs by rank. One that does not fit takes the place of running jobs that rank
// behind it, on the node (or whole nodes) where those rank last. A preemption always lets a job
// with a smaller rank run, so passes end and never undo each other at one instant.
class PreemptiveStrategy : public Strategy {
 public:
  void on_pending(const World& world, JobIndex job) override;
  void schedule(World& world) override;

 protected:
  // The rank now, waiting or running. While a job waits it must not change.
  virtual Turn rank(const World& world, JobIndex job) const = 0;
  // Whether a running job may be pushed out at all now.
  virtual bool may_preempt(const World&, JobIndex) const { return true; }

 private:
  struct Victim {
    Turn rank;
    std::int32_t gpus = 0;  // On this node.
  };
  bool make_room(World& world, const Turn& wanting, std::int32_t gpus);
  void gather(const World& world);
  std::vector<JobIndex> victims_on_one(const World& world, const Turn& wanting, std::int32_t gpus);
  std::vector<JobIndex> victims_on_many(const World& world, const Turn& wanting, std::int32_t gpus);

  PendingIndex waiting_;
  std::vector<Turn> waiting_rank_;            // By job, while it waits.
  std::vector<std::vector<Victim>> on_node_;  // Running jobs by node, last rank first.
};

}  // namespace falaj::scheduler::simulate
