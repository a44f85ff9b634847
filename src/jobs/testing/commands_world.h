// jobs/testing/commands_world.h — a queue that runs commands, over restarts of its server.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>

#include "jobs/command.h"
#include "jobs/local_executor.h"
#include "jobs/queue.h"
#include "storage/objects.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::testing {

inline constexpr Duration kPatience = Duration::seconds(60);
inline constexpr std::int64_t kGi = std::int64_t{1} << 30;

// Moved while other threads look at it.
class MovedClock final : public Clock {
 public:
  Timestamp now() const override { return {nanos_.load()}; }
  void advance(Duration d) { nanos_ += d.nanos; }

 private:
  std::atomic<std::int64_t> nanos_{Timestamp::from_seconds(1'780'000'000).nanos};
};

// A queue with a real executor on a store in memory: 2 processors, 4 GiB, no devices. Whatever a
// test does, at its end the rows are what the events add up to.
class CommandsWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               kJobsMigration, kJobEventsMigration, kJobCurvesMigration,
                               kJobPayloadsMigration, kJobDecisionsMigration})
                    .ok());
    executor_ = make_local_executor(clock_);
    reopen();
  }
  // Whatever happened, the rows are what the events add up to.
  void TearDown() override {
    queue_->stop();
    const auto jobs = queue_->list(context_.project);
    for (const Job& job : *jobs) {
      const auto folded = fold(*queue_->events(job.id));
      ASSERT_TRUE(folded.ok()) << folded.error().message;
      EXPECT_EQ(*folded, (Progress{job.status, job.attempts, job.epoch, job.error, job.result,
                                   job.ended_at}));
    }
  }
  void reopen() {
    queue_.reset();
    options_.work_folder = folder_ / "jobs";
    options_.write_wait = Duration::milliseconds(1);
    options_.machine = machine_;
    auto opened = Queue::open(options_, *sql_, audit_, metrics_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    queue_ = std::move(*opened);
    CommandOptions commands;
    commands.memory_bytes_max = 2 * kGi;
    commands.time_max = Duration::minutes(5);
    commands.network = network_;
    commands.network_zone = Zone("lan");
    commands.identity = identity_;
    commands.departs = departs_;
    queue_->run_commands(*executor_, commands);
  }
  JobSpec spec_of(const std::string& script) {
    JobSpec spec;
    spec.type = kCommandType;
    Submission submission;
    submission.command = {"sh", "-c", script};
    submission.env = {{"FOLDER", folder_.path()}};
    spec.payload = payload_of(submission);
    spec.attempts_max = 1;
    spec.request.resources = {1000, kGi / 8, 0};
    return spec;
  }
  JobId submit(const JobSpec& spec) {
    auto id = queue_->submit(context_, spec);
    EXPECT_TRUE(id.ok()) << id.error().message;
    return id.ok() ? *id : JobId();
  }
  Job ended(const JobId& id) {
    auto job = queue_->wait(id, kPatience);
    EXPECT_TRUE(job.ok());
    return *job;
  }
  // A script that says that it runs and goes on when told to.
  std::string gated(const std::string& name) {
    EXPECT_EQ(::mkfifo((folder_ / (name + ".ran")).c_str(), 0600), 0);
    EXPECT_EQ(::mkfifo((folder_ / (name + ".go")).c_str(), 0600), 0);
    return "echo $FALAJ_ATTEMPT > $FOLDER/" + name + ".ran; read -r go < $FOLDER/" + name + ".go";
  }
  std::string runs(const std::string& name) {
    std::string attempt;
    while (attempt.empty()) {  // The writer before may not have closed its end yet.
      std::ifstream ran(folder_ / (name + ".ran"));
      std::getline(ran, attempt);
    }
    return attempt;
  }
  void go(const std::string& name) { std::ofstream(folder_ / (name + ".go")) << "go\n"; }

  storage::TempFolder folder_;
  MovedClock clock_;
  telemetry::Metrics metrics_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  security::Audit audit_{*sql_, clock_};
  std::unique_ptr<Executor> executor_;
  QueueOptions options_;
  CommandIdentity identity_;  // None; see reopen().
  bool network_ = false;
  decltype(CommandOptions::departs) departs_;  // Nobody minds.
  Machine machine_{2000, 4 * kGi, 0, 1};
  std::unique_ptr<Queue> queue_;
  const security::RequestContext context_ =
      security::system_context("user:dev", ProjectName("payments"), Zone("ae"));
};

}  // namespace falaj::jobs::testing
