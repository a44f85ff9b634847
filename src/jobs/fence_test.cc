// What an old attempt says is no longer listened to.
#include <filesystem>

#include "jobs/internal/job_store.h"
#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

using internal::JobStore;

class FenceTest : public testing::CommandsWorld {
 protected:
  JobStore store_{*sql_, audit_, clock_};
};

TEST_F(FenceTest, an_old_attempt_neither_ends_a_job_nor_queues_it_again) {
  const JobId id = submit(spec_of("exit 0"));  // The queue was not started.
  ASSERT_EQ(store_.begin_attempt(id)->epoch, 1);
  ASSERT_TRUE(store_.requeue({id, 1}, 0, "lost").ok());
  ASSERT_EQ(store_.begin_attempt(id)->epoch, 2);

  EXPECT_EQ(store_.end(context_, {id, 1}, JobStatus::kSucceeded, "", {}).error().code,
            Code::kConflict);
  EXPECT_EQ(store_.requeue({id, 1}, 0, "lost").error().code, Code::kConflict);
  EXPECT_EQ(store_.get(id)->status, JobStatus::kRunning);
  EXPECT_EQ(store_.events(id)->size(), 4u) << "what was refused is no event";

  EXPECT_TRUE(store_.end(context_, {id, 2}, JobStatus::kFailed, "no", {}).ok());
  EXPECT_EQ(store_.end(context_, {id, 2}, JobStatus::kSucceeded, "", {}).error().code,
            Code::kConflict);
  EXPECT_EQ(store_.get(id)->status, JobStatus::kFailed);
}

// Another server wrote the row meanwhile: this one's executor tells of an attempt that is over.
TEST_F(FenceTest, the_end_of_an_attempt_that_was_given_up_changes_nothing) {
  queue_->start();
  const JobId id = submit(spec_of(gated("old") + "; exit 1"));
  EXPECT_EQ(runs("old"), id.str() + "-1");
  ASSERT_TRUE(store_.requeue({id, 1}, 0, "given up elsewhere").ok());
  ASSERT_EQ(store_.begin_attempt(id)->epoch, 2);
  go("old");
  // The second attempt is known to no executor: it is lost, and the third one ends the job.
  EXPECT_EQ(runs("old"), id.str() + "-3");
  go("old");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.epoch, 3);
  for (const Event& event : *queue_->events(id)) {
    EXPECT_TRUE(event.kind != EventKind::kEnded || event.attempt == 3);
  }
  queue_->stop();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "jobs")) << "the old one's files are gone too";
}

}  // namespace
}  // namespace falaj::jobs
