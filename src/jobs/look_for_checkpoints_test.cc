// Whom the queue asks for their newest checkpoint while others wait.
#include <chrono>
#include <set>

#include "base/mutex.h"
#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kMany = 105;  // More than are looked at at once.

// Remembers who began, and who was asked.
class Asked final : public Companion {
 public:
  Status prepare(const Job& job, const Grant&, Work&) override {
    note(began_, job.id);
    return {};
  }
  Value ended(const Job&, JobStatus, const std::string&) override { return {}; }
  Timestamp newest_checkpoint(const Job& job) const override {
    note(asked_, job.id);
    return {};
  }
  bool all_began() const { return reach(began_); }
  bool all_were_asked() const { return reach(asked_); }

 private:
  void note(std::set<JobId>& ids, const JobId& id) const {
    MutexLock lock(mutex_);
    ids.insert(id);
    changed_.notify_all();
  }
  bool reach(const std::set<JobId>& ids) const {
    MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, std::chrono::seconds(120),
                             [&] { return ids.size() >= kMany; });
  }

  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable std::set<JobId> began_;
  mutable std::set<JobId> asked_;
};

class LookForCheckpoints : public testing::CommandsWorld {
 protected:
  Asked asked_;
};

TEST_F(LookForCheckpoints, nobody_is_passed_over_however_many_run) {
  machine_ = {static_cast<std::int64_t>(kMany) * 10, 64 * testing::kGi, 0, 1};
  reopen();
  queue_->accompany("asked", asked_);
  queue_->start();
  JobSpec spec = spec_of("exec sleep 1000");
  spec.request.resources = {10, std::int64_t{16} << 20, 0};
  spec.payload["companion"] = "asked";
  const auto ids = queue_->submit_array(context_, spec, kMany);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  ASSERT_TRUE(asked_.all_began());
  clock_.advance(Duration::minutes(1));  // Who has just begun has nothing to lose.
  JobSpec waits = spec_of("exit 0");
  waits.request.resources = spec.request.resources;
  const JobId waiting = submit(waits);
  EXPECT_TRUE(asked_.all_were_asked());
  ASSERT_TRUE(queue_->cancel(context_, waiting).ok());
  for (const JobId& id : *ids) ASSERT_TRUE(queue_->cancel(context_, id).ok());
  for (const JobId& id : *ids) EXPECT_EQ(ended(id).status, JobStatus::kCancelled);
}

}  // namespace
}  // namespace falaj::jobs
