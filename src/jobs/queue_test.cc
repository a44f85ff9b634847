#include "jobs/queue.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/mutex.h"
#include "jobs/exit_error.h"
#include "storage/objects.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs {
namespace {

constexpr Duration kPatience = Duration::seconds(60);

// Runs the payload's shell script; the outcome follows the exit.
class ScriptHandler final : public Handler {
 public:
  exec::Limits limits;
  bool retry_when_killed = true;

  Result<exec::ChildSpec> prepare(const Job& job, const std::string& work_dir) override {
    if (job.spec.payload.text("script").empty()) {
      return Error(Code::kInvalidArgument, "no script");
    }
    exec::ChildSpec spec;
    spec.argv = {job.spec.payload.text("program", "/bin/sh"), "-c",
                 job.spec.payload.text("script")};
    spec.env = {{"PATH", "/usr/bin:/bin"}};
    spec.work_dir = work_dir;
    spec.limits = limits;
    return spec;
  }
  void on_report(const Job&, const Value& report) override {
    MutexLock lock(mutex_);
    reports_.push_back(report);
    changed_.notify_all();
  }
  Outcome finish(const Job& job, const exec::ChildExit& exit, const std::string&) override {
    {
      MutexLock lock(mutex_);
      exits_.push_back(exit.reason);
    }
    const Status status = check_exit(exit, limits);
    if (!status.ok()) {
      return {status.error(), retry_when_killed && status.error().id == ErrorId::kJobKilled};
    }
    Value result;
    result["attempt"] = job.attempts;
    return {result, false};
  }
  void abandoned(const Job&, const Error& error) override {
    MutexLock lock(mutex_);
    abandoned_.push_back(error.message);
  }

  void wait_for_reports(std::size_t count) {
    MutexLock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(mutex_, std::chrono::nanoseconds(kPatience.nanos),
                                  [&] { return reports_.size() >= count; }));
  }
  std::vector<Value> reports() const {
    MutexLock lock(mutex_);
    return reports_;
  }
  std::vector<std::string> abandonments() const {
    MutexLock lock(mutex_);
    return abandoned_;
  }
  std::vector<exec::ExitReason> exits() const {
    MutexLock lock(mutex_);
    return exits_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Value> reports_;
  std::vector<exec::ExitReason> exits_;
  std::vector<std::string> abandoned_;
};

// A store whose writes fail while they are told to.
class BrokenSql final : public storage::SqlStore {
 public:
  explicit BrokenSql(storage::SqlStore& inner) : inner_(inner) {}
  void fail_writes(int count) { left_ = count; }

  Status read(const std::function<Status(storage::SqlTransaction&)>& body) override {
    return inner_.read(body);
  }
  Status write(const std::function<Status(storage::SqlTransaction&)>& body) override {
    if (left_ > 0) {
      --left_;
      return Error(Code::kInternal, "the disk said no");
    }
    return inner_.write(body);
  }
  Status migrate(const std::vector<storage::Migration>& migrations) override {
    return inner_.migrate(migrations);
  }

 private:
  storage::SqlStore& inner_;
  std::atomic<int> left_{0};
};

class QueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               kJobsMigration, kJobEventsMigration, kJobCurvesMigration,
                               kJobPayloadsMigration, kJobDecisionsMigration})
                    .ok());
    reopen();
  }
  void reopen(std::size_t waiting_max = 100) {
    queue_.reset();
    QueueOptions options{folder_ / "jobs", 1, waiting_max};
    options.writes_max = 3;
    options.write_wait = Duration::milliseconds(1);
    options.waits = {.each_max = 2, .all_max = 3};
    auto opened = Queue::open(options, broken_, audit_, metrics_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    queue_ = std::move(*opened);
    queue_->handle("script", handler_);
  }
  JobId submit(const std::string& script, int attempts_max = 3) {
    JobSpec spec;
    spec.type = "script";
    spec.payload["script"] = script;
    spec.attempts_max = attempts_max;
    auto id = queue_->submit(context_, spec);
    EXPECT_TRUE(id.ok()) << id.error().message;
    return id.ok() ? *id : JobId();
  }
  Job ended(const JobId& id) {
    auto job = queue_->wait(id, kPatience);
    EXPECT_TRUE(job.ok());
    return *job;
  }

  storage::TempFolder folder_;
  FakeClock clock_;
  telemetry::Metrics metrics_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  BrokenSql broken_{*sql_};
  security::Audit audit_{*sql_, clock_};
  ScriptHandler handler_;
  std::unique_ptr<Queue> queue_;
  const security::RequestContext context_ =
      security::system_context("user:dev", ProjectName("payments"), Zone("ae"));
};

TEST_F(QueueTest, runs_a_job_and_passes_its_reports_on) {
  queue_->start();
  const JobId id = submit(R"(echo '{"progress": 0.5}' >&3; echo '{"progress": 1}' >&3)");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.result.integer("attempt"), 1);
  EXPECT_EQ(to_value(job).text("code", "none"), "");
  ASSERT_EQ(handler_.reports().size(), 2u);
  EXPECT_DOUBLE_EQ(handler_.reports()[0].number("progress"), 0.5);
  EXPECT_EQ(queue_->list(ProjectName("payments"))->size(), 1u);
  security::AuditQuery query;
  query.action = "job.";
  EXPECT_EQ(audit_.list(query)->size(), 2u) << "submitted and ended";
}

TEST_F(QueueTest, a_project_has_no_more_jobs_in_flight_than_its_quota) {
  storage::Object project;
  project.kind = "Project";
  project.name = "payments";
  project.spec["quota"]["jobs"] = 2;
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(storage::put_object(tx, project, clock_.now()));
                    return {};
                  })
                  .ok());
  EXPECT_TRUE(queue_->room(context_.project).ok());
  const JobId first = submit("exit 0");
  submit("exit 0");
  JobSpec spec;
  spec.type = "script";
  spec.payload["script"] = "exit 0";
  const Error over = queue_->submit(context_, spec).error();
  EXPECT_EQ(over.id, ErrorId::kQuotaReached);
  EXPECT_EQ(over.code, Code::kResourceExhausted) << "it passes with time";
  EXPECT_EQ(queue_->room(context_.project).error().id, ErrorId::kQuotaReached);
  EXPECT_EQ(*queue_->in_flight(context_.project), 2);
  EXPECT_EQ(queue_->list(context_.project)->size(), 2u) << "nothing of it remains";
  auto other = context_;
  other.project = ProjectName("shop");
  EXPECT_TRUE(queue_->submit(other, spec).ok()) << "another project's is its own";
  ASSERT_TRUE(queue_->cancel(context_, first).ok());
  EXPECT_EQ(*queue_->in_flight(context_.project), 1);
  EXPECT_TRUE(queue_->submit(context_, spec).ok()) << "room again";
}

TEST_F(QueueTest, leaves_out_malformed_reports_and_counts_them) {
  queue_->start();
  const JobId id = submit(R"(printf 'not json\n{"a":\n[1]\n{"progress": 1}\n\377\376\n' >&3)");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(handler_.reports().size(), 1u);
  EXPECT_NE(metrics_.exposition().find("falaj_jobs_reports_malformed_total 4"), std::string::npos)
      << metrics_.exposition();
}

TEST_F(QueueTest, a_failure_carries_the_last_lines_of_the_log) {
  queue_->start();
  const JobId id = submit("for i in 1 2 3; do echo line $i; done; echo no such column >&2; exit 3");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.attempts, 1) << "what fails by itself fails again: not retried";
  EXPECT_NE(job.error.find("FJ-4001"), std::string::npos) << job.error;
  EXPECT_NE(job.error.find("code 3"), std::string::npos) << job.error;
  EXPECT_NE(job.error.find("no such column"), std::string::npos) << job.error;
}

TEST_F(QueueTest, a_killed_process_is_tried_again) {
  queue_->start();
  const std::string marker = folder_ / "once";
  const JobId id =
      submit("if [ -e " + marker + " ]; then exit 0; fi; touch " + marker + "; kill -9 $$");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.attempts, 2);
}

TEST_F(QueueTest, gives_up_after_the_last_attempt) {
  queue_->start();
  const Job job = ended(submit("kill -9 $$", 2));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.attempts, 2);
  EXPECT_NE(job.error.find("FJ-4002"), std::string::npos) << job.error;
}

TEST_F(QueueTest, a_process_that_hangs_meets_its_limit) {
  handler_.limits.run_time_max = Duration::milliseconds(100);
  handler_.limits.grace = Duration::milliseconds(50);
  queue_->start();
  const Job job = ended(submit("trap '' TERM; while true; do cat <&3; done"));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("FJ-4004"), std::string::npos) << job.error;
  EXPECT_NE(job.error.find("time_max"), std::string::npos) << job.error;
  EXPECT_EQ(to_value(job).text("code"), "FJ-4004");
}

TEST_F(QueueTest, a_process_that_eats_memory_is_told_apart) {
  handler_.limits.memory_bytes_max = std::int64_t{64} << 20;
  queue_->start();
  const Job job = ended(submit("exec tail /dev/zero"));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("FJ-4003"), std::string::npos) << job.error;
  EXPECT_NE(job.error.find("resources.memory"), std::string::npos) << job.error;
}

TEST_F(QueueTest, a_running_job_can_be_cancelled) {
  queue_->start();
  const JobId id = submit(R"(echo '{"ready": 1}' >&3; cat <&3)");
  handler_.wait_for_reports(1);
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  EXPECT_EQ(ended(id).status, JobStatus::kCancelled);
  EXPECT_EQ(handler_.exits(), std::vector{exec::ExitReason::kStopped});
  EXPECT_EQ(queue_->cancel(context_, id).error().code, Code::kConflict);
}

TEST_F(QueueTest, a_waiting_job_can_be_cancelled) {
  const JobId id = submit("exit 0");
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  EXPECT_EQ(ended(id).status, JobStatus::kCancelled);
  EXPECT_EQ(handler_.exits(), std::vector{exec::ExitReason::kStopped}) << "its handler is told";
  const JobId next = submit("exit 0");
  queue_->start();
  EXPECT_EQ(ended(next).status, JobStatus::kSucceeded);
  EXPECT_EQ(queue_->get(id)->attempts, 0);
}

TEST_F(QueueTest, says_when_it_is_full_or_does_not_know_the_type) {
  reopen(2);
  submit("exit 0");
  submit("exit 0");
  JobSpec spec;
  spec.type = "script";
  spec.payload["script"] = "exit 0";
  EXPECT_EQ(queue_->submit(context_, spec).error().id, ErrorId::kQueueFull);
  spec.type = "nonsense";
  EXPECT_EQ(queue_->submit(context_, spec).error().code, Code::kInvalidArgument);
  EXPECT_EQ(queue_->get(JobId("none")).error().code, Code::kNotFound);
}

TEST_F(QueueTest, what_cannot_be_prepared_or_started_fails_with_the_reason) {
  queue_->start();
  EXPECT_NE(ended(submit("")).error.find("no script"), std::string::npos);
  EXPECT_TRUE(handler_.exits().empty());
  EXPECT_EQ(handler_.abandonments(), std::vector<std::string>{"no script"});
  JobSpec spec;
  spec.type = "script";
  spec.payload["script"] = "x";
  spec.payload["program"] = "/no/such/program";
  const Job job = ended(*queue_->submit(context_, spec));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("/no/such/program"), std::string::npos) << job.error;
  EXPECT_EQ(handler_.abandonments().size(), 2u);
  EXPECT_NE(queue_->log_tail(job.id, 0)->find("/no/such/program"), std::string::npos);
}

TEST_F(QueueTest, a_folder_that_cannot_be_made_fails_the_job_and_tells_its_handler) {
  const JobId id = submit("exit 0");
  std::filesystem::remove(folder_ / "jobs");
  std::ofstream(folder_ / "jobs").put('x');
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("cannot create the job's folder"), std::string::npos) << job.error;
  ASSERT_EQ(handler_.abandonments().size(), 1u);
  EXPECT_NE(handler_.abandonments()[0].find("cannot create"), std::string::npos);
}

TEST_F(QueueTest, a_store_that_fails_for_a_moment_loses_no_job) {
  const JobId id = submit("exit 0");
  broken_.fail_writes(2);
  queue_->start();
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
  EXPECT_TRUE(handler_.abandonments().empty());
}

TEST_F(QueueTest, a_job_that_cannot_begin_fails_visibly) {
  const JobId id = submit("exit 0");
  broken_.fail_writes(3);
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("the disk said no"), std::string::npos) << job.error;
  EXPECT_EQ(handler_.abandonments(), std::vector<std::string>{"the disk said no"});
}

TEST_F(QueueTest, an_end_that_cannot_be_written_is_written_later) {
  const JobId id = submit(R"(echo '{"ready": 1}' >&3; read -r go <)" + (folder_ / "go"));
  ASSERT_EQ(::mkfifo((folder_ / "go").c_str(), 0600), 0);
  queue_->start();
  handler_.wait_for_reports(1);
  broken_.fail_writes(7);  // More than are tried at one time.
  std::ofstream(folder_ / "go") << "go\n";
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.attempts, 1) << "it ran once";
  EXPECT_EQ(handler_.exits().size(), 1u);
}

TEST_F(QueueTest, a_waiting_job_whose_cancel_fails_is_still_waiting) {
  const JobId id = submit("exit 0");
  broken_.fail_writes(1);
  EXPECT_EQ(queue_->cancel(context_, id).error().code, Code::kInternal);
  EXPECT_TRUE(handler_.exits().empty());
  queue_->start();
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

TEST_F(QueueTest, a_job_that_no_worker_holds_can_be_cancelled) {
  // Recorded, but not in this server's memory.
  const JobId id = submit("exit 0");
  const std::unique_ptr<Queue> first = std::move(queue_);
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("UPDATE jobs SET status = 3"));
                    return {};
                  })
                  .ok());
  reopen();
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("UPDATE jobs SET status = 0"));
                    return {};
                  })
                  .ok());
  EXPECT_TRUE(queue_->cancel(context_, id).ok());
  EXPECT_EQ(queue_->get(id)->status, JobStatus::kCancelled);
}

TEST_F(QueueTest, a_cancel_that_a_dead_server_left_is_carried_out) {
  const JobId id = submit("exit 0");
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(
                        tx.execute("INSERT INTO job_events (job, sequence, at, kind, attempt,"
                                   " detail) VALUES (?, 2, 0, 4, 0, '{}')",
                                   {id.str()}));
                    return {};
                  })
                  .ok());
  reopen();
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kCancelled);
  EXPECT_EQ(job.attempts, 0);
  EXPECT_EQ(handler_.exits(), (std::vector<exec::ExitReason>{exec::ExitReason::kStopped}));
}

TEST_F(QueueTest, shows_what_a_process_printed) {
  EXPECT_EQ(queue_->log_tail(JobId("none"), 0).error().code, Code::kNotFound);
  const JobId id =
      submit("echo first; i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo line $i; done");
  EXPECT_EQ(*queue_->log_tail(id, 0), "");
  queue_->start();
  ASSERT_EQ(ended(id).status, JobStatus::kSucceeded);
  const std::string log = *queue_->log_tail(id, 0);
  EXPECT_TRUE(log.ends_with("line 8999\nline 9000\n"));
  EXPECT_TRUE(log.starts_with("line ")) << log.substr(0, 20);
  EXPECT_LE(log.size(), 64u * 1024);
  EXPECT_GT(log.size(), 63u * 1024);
}

TEST_F(QueueTest, a_stopped_server_takes_its_jobs_up_again) {
  queue_->start();
  const std::string marker = folder_ / "second";
  const JobId id =
      submit("if [ -e " + marker + R"( ]; then exit 0; fi; echo '{"ready": 1}' >&3; cat <&3)");
  const JobId behind = submit("exit 0");
  handler_.wait_for_reports(1);
  queue_->stop();
  EXPECT_EQ(queue_->get(id)->status, JobStatus::kQueued);
  EXPECT_EQ(queue_->get(id)->attempts, 0) << "a stop is not the job's fault";
  std::ofstream(marker).put('x');
  reopen();
  queue_->start();
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(ended(behind).status, JobStatus::kSucceeded);
}

TEST_F(QueueTest, a_server_that_died_counts_the_attempt) {
  const JobId id = submit("exit 0", 2);
  const JobId last = submit("exit 0", 2);
  const auto died = [&](const JobId& job, std::int64_t attempts) {
    ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(tx.execute("UPDATE jobs SET status = 1, attempts = ? WHERE id = ?",
                                           {attempts, job.str()}));
                      return {};
                    })
                    .ok());
  };
  died(id, 1);
  died(last, 2);
  reopen();
  EXPECT_EQ(queue_->get(id)->status, JobStatus::kQueued);
  queue_->start();
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(ended(id).attempts, 2);
  const Job failed = ended(last);
  EXPECT_EQ(failed.status, JobStatus::kFailed);
  EXPECT_NE(failed.error.find("FJ-4002"), std::string::npos) << failed.error;
}

// What was told to those who wait, in order.
class Told {
 public:
  Queue::Then by(std::string name) {
    return [this, name = std::move(name)](const Result<Job>& job) {
      MutexLock lock(mutex_);
      told_.push_back(name + " " + std::string(job.ok() ? status_name(job->status) : "error"));
      changed_.notify_all();
    };
  }
  std::vector<std::string> all(std::size_t count) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, std::chrono::nanoseconds(kPatience.nanos),
                                  [&] { return told_.size() >= count; }));
    return told_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> told_;
};

TEST_F(QueueTest, tells_those_who_wait_without_holding_their_thread) {
  Told told;
  queue_->start();
  const JobId id = submit(R"(echo '{"ready": 1}' >&3; cat <&3)");
  handler_.wait_for_reports(1);
  ASSERT_TRUE(queue_->when_ended("a", id, kPatience, told.by("a")).ok());
  ASSERT_TRUE(queue_->when_ended("b", JobId("none"), kPatience, told.by("b")).ok());
  EXPECT_EQ(told.all(1), (std::vector<std::string>{"b error"}));
  ASSERT_TRUE(queue_->when_ended("b", id, Duration::milliseconds(1), told.by("b")).ok());
  EXPECT_EQ(told.all(2).back(), "b running") << "its time is over";
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  EXPECT_EQ(told.all(3).back(), "a cancelled");
  ASSERT_TRUE(queue_->when_ended("a", id, kPatience, told.by("a")).ok());
  EXPECT_EQ(told.all(4).back(), "a cancelled") << "it had ended already";
}

TEST_F(QueueTest, nobody_waits_beyond_their_share) {
  Told told;
  const JobId id = submit("exit 0");  // Not started.
  const auto wait = [&](const std::string& who) {
    const Status status = queue_->when_ended(who, id, kPatience, told.by(who));
    EXPECT_TRUE(status.ok() || status.error().code == Code::kResourceExhausted);
    return status.ok();
  };
  EXPECT_TRUE(wait("a"));
  EXPECT_TRUE(wait("a"));
  EXPECT_FALSE(wait("a"));
  EXPECT_TRUE(wait("b"));
  EXPECT_FALSE(wait("c")) << "all places are taken";
  queue_->stop();
  EXPECT_EQ(told.all(3), (std::vector<std::string>{"a queued", "a queued", "b queued"}));
}

TEST_F(QueueTest, places_to_wait_are_given_back) {
  Told told;
  const JobId id = submit("exit 0");
  for (std::size_t i = 1; i <= 10; ++i) {
    ASSERT_TRUE(queue_->when_ended("a", id, Duration{}, told.by("a")).ok()) << i;
    EXPECT_EQ(told.all(i).size(), i);
  }
}

TEST(LastLines, keeps_only_what_may_be_shown) {
  EXPECT_EQ(last_lines("", 3), "");
  EXPECT_EQ(last_lines("a\nb\nc\nd\n\n", 2), "c\nd");
  EXPECT_EQ(last_lines(std::string(10'000, 'x'), 2).size(), 4096u);
  EXPECT_EQ(last_lines("bad \xff\xfe text", 2), "bad ?? text");
}

}  // namespace
}  // namespace falaj::jobs
