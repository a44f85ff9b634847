// Attempts: which one is listened to, and what each leaves behind.
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/descriptor.h"

#include "jobs/internal/job_store.h"
#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

using internal::JobStore;

// Tells when something in a folder went away.
class FolderChanges {
 public:
  explicit FolderChanges(const std::string& folder) : events_(::inotify_init1(IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(events_.get(), folder.c_str(), IN_DELETE | IN_MOVED_FROM), 0);
  }
  // False when nothing did for a minute.
  bool wait() {
    pollfd waited{events_.get(), POLLIN, 0};
    char told[4096];
    return ::poll(&waited, 1, 60'000) == 1 && ::read(events_.get(), told, sizeof told) > 0;
  }

 private:
  Descriptor events_;
};

class AttemptsTest : public testing::CommandsWorld {
 protected:
  JobStore store_{*sql_, audit_, clock_};
};

TEST_F(AttemptsTest, an_old_attempt_neither_ends_a_job_nor_queues_it_again) {
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

TEST_F(AttemptsTest, what_a_job_cost_is_known_after_a_restart) {
  storage::Object policy;
  policy.kind = "SchedulingPolicy";
  policy.name = "default";
  policy.spec["prices"]["cpu_hour"] = 12;  // Its limit of five minutes costs 1.
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(storage::put_object(tx, policy, clock_.now()));
                    return {};
                  })
                  .ok());
  JobSpec spec = spec_of("exit 0");
  spec.request.cost_cap = 900'000;
  EXPECT_FALSE(queue_->submit(context_, spec).ok()) << "by its limit it would cost more";
  spec.request.cost_cap = 1'500'000;
  const JobId stays = submit(spec);
  const JobId lost = submit(spec);
  ASSERT_TRUE(store_.begin_attempt(lost).ok());
  clock_.advance(Duration::minutes(3));
  ASSERT_TRUE(store_.requeue({lost, 1}, 0, "lost").ok());
  reopen();
  queue_->start();
  EXPECT_EQ(ended(stays).status, JobStatus::kSucceeded);
  EXPECT_EQ(queue_->why(lost)->code, "cost_cap");
  EXPECT_TRUE(queue_->cancel(context_, lost).ok());
}

TEST_F(AttemptsTest, how_an_attempt_ended_says_whether_it_tells_how_long_such_jobs_run) {
  const auto end = [&](JobStatus status, const std::string& error) {
    const JobId id = submit(spec_of("exit 0"));
    EXPECT_TRUE(store_.begin_attempt(id).ok());
    EXPECT_TRUE(store_.end(context_, {id, 1}, status, error, {}).ok());
  };
  end(JobStatus::kSucceeded, "");
  end(JobStatus::kFailed, to_string(ErrorId::kJobFailed) + ": exited with code 1");
  end(JobStatus::kFailed, to_string(ErrorId::kJobTimedOut) + ": ran past its limit");
  end(JobStatus::kCancelled, "cancelled while it ran");
  std::multiset<Spell::Ended> found;
  for (const auto& past : *store_.attempts(clock_.now() - Duration::days(1), 100)) {
    found.insert(past.spell.ended);
  }
  using enum Spell::Ended;
  EXPECT_EQ(found, (std::multiset<Spell::Ended>{kByItself, kByItself, kFailed, kInterrupted}));
}

// Another server wrote the row meanwhile: this one's executor tells of an attempt that is over.
TEST_F(AttemptsTest, the_end_of_an_attempt_that_was_given_up_changes_nothing) {
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

TEST_F(AttemptsTest, a_command_that_is_found_again_keeps_its_devices) {
  machine_.gpus = 2;
  reopen();
  queue_->start();
  JobSpec spec = spec_of(gated("a"));
  spec.request.resources.gpus = 1;
  const JobId first = submit(spec);
  runs("a");
  reopen();
  queue_->start();
  spec.payload = spec_of("echo device $CUDA_VISIBLE_DEVICES").payload;
  const JobId second = submit(spec);
  ASSERT_EQ(ended(second).status, JobStatus::kSucceeded);
  EXPECT_EQ(*queue_->log_tail(second, 0), "device 1\n") << "the first has device 0 still";
  go("a");
  EXPECT_EQ(ended(first).status, JobStatus::kSucceeded);
}

TEST_F(AttemptsTest, an_array_is_all_or_none_and_each_member_knows_its_place) {
  options_.waiting_max = 5;
  reopen();
  JobSpec spec = spec_of("echo $FALAJ_ARRAY_INDEX of $FALAJ_ARRAY_COUNT");
  EXPECT_EQ(queue_->submit_array(context_, spec, 6).error().id, ErrorId::kQueueFull);
  EXPECT_EQ(queue_->submit_array(context_, spec, 0).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(queue_->submit_array(context_, spec, kArrayMax + 1).error().id, ErrorId::kOutOfRange);
  EXPECT_TRUE(queue_->list(context_.project)->empty());
  const auto ids = queue_->submit_array(context_, spec, 5);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  queue_->start();
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(ended(ids->at(i)).status, JobStatus::kSucceeded);
    EXPECT_EQ(*queue_->log_tail(ids->at(i), 0), std::to_string(i) + " of 5\n");
  }
}

TEST_F(AttemptsTest, an_array_keeps_a_long_payload_once_and_lists_leave_it_out) {
  JobSpec spec = spec_of("echo $FALAJ_ARRAY_INDEX $FOLDER; : " + std::string(400, 'x'));
  spec.payload["capture"]["code"]["diff"] = std::string(100'000, 'd');
  const auto ids = queue_->submit_array(context_, spec, 20);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  const auto rows = storage::query(*sql_,
                                   "SELECT (SELECT SUM(LENGTH(payload)) FROM jobs),"
                                   " (SELECT SUM(LENGTH(payload)) FROM job_payloads)");
  EXPECT_LT(rows->front().integer(0), 20 * 1024);
  EXPECT_LT(rows->front().integer(1), 110'000);
  for (const Job& job : *queue_->list(context_.project)) {
    EXPECT_TRUE(job.spec.payload["capture"].is_null());
    EXPECT_TRUE(job.spec.payload["env"].is_null());
    EXPECT_EQ(command_of(job.spec.payload).at(2).size(), 256u - 4);
    EXPECT_EQ(job.spec.payload["array"].integer("count"), 20);
  }
  queue_->start();
  for (std::size_t i = 0; i < 20; ++i) {
    const Job job = ended(ids->at(i));
    EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
    EXPECT_EQ(*queue_->log_tail(job.id, 0), std::to_string(i) + " " + folder_.path() + "\n");
    EXPECT_EQ(job.spec.payload["capture"], spec.payload["capture"]) << "the job alone shows all";
  }
}

TEST_F(AttemptsTest, a_job_from_before_is_found_by_its_run) {
  const std::unique_ptr<storage::SqlStore> old = storage::make_fake_sql();
  ASSERT_TRUE(old->migrate({kJobsMigration, kJobEventsMigration}).ok());
  ASSERT_TRUE(
      old->write([](storage::SqlTransaction& tx) -> Status {
           for (const char* row : {"('1', 't', 'p', '{\"run\": \"r1\"}'", "('2', 't', 'p', '{}'"}) {
             FALAJ_TRY(tx.execute(
                 "INSERT INTO jobs (id, type, project, payload, zone, attempts_max, status,"
                 " attempts, error, result, created_at, ended_at) VALUES " +
                 std::string(row) + ", 'ae', 1, 0, 0, '', 'null', 0, 0)"));
           }
           return {};
         })
          .ok());
  ASSERT_TRUE(old->migrate({kJobsMigration, kJobEventsMigration, kJobPayloadsMigration,
                            kJobDecisionsMigration})
                  .ok());
  const auto rows = storage::query(*old, "SELECT run FROM jobs ORDER BY id");
  EXPECT_EQ(rows->at(0).text(0), "r1");
  EXPECT_EQ(rows->at(1).text(0), "");
}

TEST_F(AttemptsTest, each_attempt_keeps_its_log) {
  queue_->start();
  JobSpec spec = spec_of("echo this is $FALAJ_ATTEMPT; exit 1");
  spec.attempts_max = 3;
  const JobId id = submit(spec);
  EXPECT_EQ(ended(id).status, JobStatus::kFailed);
  for (const int attempt : {1, 2, 3}) {
    EXPECT_EQ(*queue_->log_tail(id, attempt),
              "this is " + id.str() + "-" + std::to_string(attempt) + "\n");
  }
  EXPECT_EQ(*queue_->log_tail(id, 0), *queue_->log_tail(id, 3));
  EXPECT_EQ(queue_->log_tail(id, 4).error().code, Code::kNotFound);
  for (const Event& event : *queue_->events(id)) {
    EXPECT_TRUE(to_value(event)["detail"]["log"].is_null()) << "logs are no part of the events";
  }
}

TEST_F(AttemptsTest, what_a_dead_server_left_in_the_folder_is_swept) {
  queue_->start();
  const JobId id = submit(spec_of(gated("a") + "; test -d \"$PWD\""));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  queue_->stop();
  const std::filesystem::path jobs = folder_ / "jobs";
  const JobId gone(new_ulid(clock_.now()));
  for (const char* file : {"-1.log", "-1.log.tail", "-1.log.tail.old"}) {
    std::ofstream(jobs / (gone.str() + file)) << "left over\n";
  }
  std::filesystem::create_directories(jobs / (gone.str() + "-2/deep/down"));
  std::filesystem::create_directories(jobs / ".swept-half");
  std::ofstream(jobs / "README") << "not a job's\n";
  FolderChanges changes(jobs);
  reopen();
  queue_->start();
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << "what runs keeps its folder";
  const auto is_clean = [&] {
    const auto count = std::distance(std::filesystem::directory_iterator(jobs), {});
    return count == 1 && std::filesystem::exists(jobs / "README");
  };
  while (!is_clean() && changes.wait()) {
  }
  queue_->stop();
  EXPECT_TRUE(is_clean());
}

}  // namespace
}  // namespace falaj::jobs
