#include "training/worker_jobs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "jobs/checkpoint/memory_folder.h"
#include "jobs/checkpoint/sealing.h"
#include "jobs/command.h"
#include "jobs/local_executor.h"
#include "jobs/testing/commands_world.h"
#include "security/keys/testing/key_world.h"
#include "security/residency/testing/zone_world.h"
#include "storage/objects.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::training {
namespace {

constexpr Duration kPatience = Duration::seconds(60);

// Instead of `falaj launch`: leaves a report and becomes the command.
constexpr const char* kLauncher = R"(#!/bin/sh
echo "$@" > words
while [ "$1" != -- ]; do
  if [ "$1" = --report ]; then report=$2; fi
  if [ "$1" = --memory-folder ]; then memory=$2; fi
  shift
done
shift
test -d "$memory/saves" || exit 9
echo '{"code": 0, "reason": "", "crashes": 1, "preemptions": 2, "attempts": [{}, {"world": 2}],
       "checkpoint": {"number": 3, "name": "step9", "bytes": 12}}' > "$report"
exec "$@"
)";

class WorkerJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               tracking::kTrackingMigration, jobs::kJobsMigration,
                               jobs::kJobEventsMigration, jobs::kJobPayloadsMigration,
                               jobs::kJobDecisionsMigration})
                    .ok());
    context_.principal.kind = security::PrincipalKind::kUser;
    context_.principal.id = "user:test";
    context_.project = ProjectName("pay");
    context_.zone = Zone("ae");
    const std::string program = folder_ / "launcher.sh";
    std::ofstream(program) << kLauncher;
    ::chmod(program.c_str(), 0755);
    jobs::QueueOptions options;
    options.work_folder = folder_ / "jobs";
    options.machine.cpu_milli = 4000;
    options.machine.memory_bytes = std::int64_t{4} << 30;
    queue_ = std::move(jobs::Queue::open(options, *sql_, audit_, metrics_, clock_)).value();
    jobs::CommandOptions commands;
    commands.processes_max = 0;
    queue_->run_commands(*executor_, commands);
    workers_ = std::make_unique<WorkerJobs>(WorkerOptions{program, folder_ / "checkpoints"}, runs_,
                                            *queue_);
    queue_->accompany(WorkerJobs::kName, *workers_);
  }
  void TearDown() override { queue_.reset(); }

  WorkerJobs::Started run(const std::string& script, const std::string& training_set = "") {
    WorkerPlan plan;
    if (!training_set.empty()) plan.capture["data"]["training_set"] = training_set;
    plan.submission.command = {"/bin/sh", "-c", script};
    plan.submission.request.resources = {2000, std::int64_t{256} << 20, 0};
    plan.workers_max = 8;
    Value params;
    params["lr"] = 0.1;
    auto started = workers_->run(context_, "fraud", plan, params);
    EXPECT_TRUE(started.ok()) << started.error().message;
    return started.ok() ? *started : WorkerJobs::Started{};
  }
  jobs::Job ended(const WorkerJobs::Started& started) {
    return queue_->wait(started.job, kPatience).value();
  }
  std::string memory_of(const RunId& run) const {
    return jobs::checkpoint::MemoryFolder::root_for((folder_ / "checkpoints/") + run.str() +
                                                    "/archive")
        .value();
  }

  storage::TempFolder folder_;
  jobs::testing::MovedClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  security::Audit audit_{*sql_, clock_};
  telemetry::Metrics metrics_;
  tracking::Runs runs_{*sql_, audit_, clock_};
  security::RequestContext context_;
  std::unique_ptr<jobs::Executor> executor_ = jobs::make_local_executor(clock_);
  std::unique_ptr<jobs::Queue> queue_;
  std::unique_ptr<WorkerJobs> workers_;
};

TEST_F(WorkerJobsTest, several_roles_wait_as_one_and_are_launched_as_granted) {
  queue_->start();
  const Value spec = *parse_json(R"({"command": ["/bin/sh", "-c", "cat words; env"],
      "groups": [{"name": "chief", "cpu": 1, "memory": "64Mi"},
                 {"name": "worker", "max": 8, "cpu": 1, "memory": "64Mi"},
                 {"name": "ps", "cpu": 0.5, "memory": "64Mi", "command": ["/bin/true"]}]})");
  Fields fields(spec, "spec");
  const auto plan = decode_worker_plan(fields, Duration::minutes(1));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto started = workers_->run(context_, "vision", *plan, Value::object());
  ASSERT_TRUE(started.ok()) << started.error().message;
  const jobs::Job job = ended(*started);
  const std::string log = queue_->log_tail(started->job, 0).value();
  ASSERT_EQ(job.status, jobs::JobStatus::kSucceeded) << job.error << log;
  EXPECT_NE(log.find(R"("max":2,"min":1,"name":"worker")"), std::string::npos) << log;
  EXPECT_NE(log.find(R"({"command":["/bin/true"],"gpus":0,"max":1,"min":1,"name":"ps")"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find(" --slots 3 "), std::string::npos) << log;
  EXPECT_EQ(log.find("--servers"), std::string::npos) << log;
  EXPECT_EQ(log.find("\nOMP_NUM_THREADS="), std::string::npos) << "each group has its own";
  EXPECT_EQ(job.spec.request.groups.size(), 2u);
  const auto run = runs_.get(started->run);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->inputs["groups"].as_array().size(), 3u);
}

TEST_F(WorkerJobsTest, a_role_whose_program_is_not_there_is_refused_at_once) {
  const Value spec = *parse_json(R"({"command": ["/bin/true"],
      "groups": [{"name": "worker"}, {"name": "ps", "command": ["no-such-program"]}]})");
  Fields fields(spec, "spec");
  const auto plan = decode_worker_plan(fields, Duration::minutes(1));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto started = workers_->run(context_, "vision", *plan, Value::object());
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().id, ErrorId::kFileUnreadable) << started.error().message;
  EXPECT_NE(started.error().message.find("no-such-program"), std::string::npos);
}

TEST_F(WorkerJobsTest, a_run_has_what_its_workers_reported) {
  queue_->start();
  const auto started =
      run("echo '{\"metric\": \"loss\", \"step\": 1, \"value\": 0.25}' >> $FALAJ_METRICS; "
          "echo threads $OMP_NUM_THREADS params $FALAJ_PARAMS; cat words");
  const jobs::Job job = ended(started);
  const std::string log = queue_->log_tail(started.job, 0).value();
  ASSERT_EQ(job.status, jobs::JobStatus::kSucceeded) << job.error << log;
  EXPECT_EQ(job.spec.request.workers->max, 2) << "more never have room";
  EXPECT_NE(log.find("threads 2 params {\"lr\":0.1}\n"), std::string::npos) << log;
  EXPECT_NE(log.find("launch --run-id " + started.run.str() + " --workers 1:2"), std::string::npos)
      << log;
  const tracking::Run done = runs_.get(started.run).value();
  EXPECT_EQ(done.status, tracking::RunStatus::kFinished);
  EXPECT_EQ(done.metrics.number("loss"), 0.25);
  EXPECT_EQ(done.progress, 1);
  EXPECT_EQ(done.outputs["launch"].integer("crashes"), 1);
  EXPECT_EQ(done.outputs["launch"].integer("attempts"), 2);
  EXPECT_EQ(done.outputs["checkpoint"].text("name"), "step9");
  EXPECT_EQ(done.inputs["workers"].integer("max"), 2);
  EXPECT_EQ(done.outputs["launch"].integer("workers"), 2);
  EXPECT_FALSE(std::filesystem::exists(memory_of(started.run)));
}

TEST_F(WorkerJobsTest, a_run_names_the_set_that_its_command_says_to_learn_from) {
  EXPECT_EQ(runs_.get(run("exit 0", "fraud_2026").run)->inputs["training_set"].text("name"),
            "fraud_2026");
  EXPECT_FALSE(runs_.get(run("exit 0").run)->inputs.has("training_set"));
}

// A pipe that the command waits at: who writes into it lets it go on.
class Gate {
 public:
  explicit Gate(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  }
  std::string words() const { return "read go < " + path_ + "; "; }
  void pass() const { std::ofstream(path_) << "go\n"; }  // Waits until the command is there.

 private:
  const std::string path_;
};

std::string report_words(int step, const std::string& value) {
  return "echo '{\"metric\": \"loss\", \"step\": " + std::to_string(step) +
         ", \"value\": " + value + ", \"progress\": 0." + std::to_string(step) +
         "}' >> $FALAJ_METRICS; ";
}

TEST_F(WorkerJobsTest, what_workers_report_is_in_their_run_while_they_go_on) {
  const Gate first(folder_ / "first");
  const Gate second(folder_ / "second");
  const Gate last(folder_ / "last");
  queue_->start();
  const auto started =
      run(report_words(1, "0.5") + first.words() + report_words(2, "0.25") + second.words() +
          "printf '{\"metric\": \"loss\", \"step\": 3, ' "
          ">> $FALAJ_METRICS; " +
          last.words() + "printf '\"value\": 0.125}' >> $FALAJ_METRICS");
  const auto points = [&] { return runs_.history(started.run, "loss").value(); };
  first.pass();
  second.pass();  // Both lines are there; now it waits at the last gate, or writes half of a line.
  workers_->tick();
  ASSERT_EQ(points().size(), 2u);
  EXPECT_EQ(runs_.get(started.run)->progress, 0.2);
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kRunning);
  const Timestamp then = clock_.now();
  clock_.advance(Duration::seconds(5));
  workers_->tick();
  last.pass();
  ASSERT_EQ(ended(started).status, jobs::JobStatus::kSucceeded);
  ASSERT_EQ(points().size(), 3u);
  EXPECT_EQ(points()[0].at, then) << "each has the time at which it came";
  EXPECT_EQ(points()[2].at, then + Duration::seconds(5));
  EXPECT_EQ(runs_.get(started.run)->progress, 1);
}

TEST_F(WorkerJobsTest, a_server_that_comes_back_reads_on_without_changing_what_was_said) {
  const Gate first(folder_ / "first");
  const Gate second(folder_ / "second");
  queue_->start();
  const auto started =
      run(report_words(1, "0.5") + first.words() + report_words(2, "0.25") + second.words());
  first.pass();
  workers_->tick();
  const Timestamp then = clock_.now();
  clock_.advance(Duration::seconds(5));
  WorkerJobs later(WorkerOptions{"/bin/false", folder_ / "checkpoints"}, runs_, *queue_);
  later.adopt(started.run);
  later.tick();
  second.pass();
  ASSERT_EQ(ended(started).status, jobs::JobStatus::kSucceeded);
  later.tick();  // The run has ended, and takes no more.
  const auto points = runs_.history(started.run, "loss").value();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].at, then);
}

TEST_F(WorkerJobsTest, a_failure_and_a_cancel_end_the_run_too) {
  queue_->start();
  const auto failed = run("echo no luck; exit 3");
  EXPECT_EQ(ended(failed).status, jobs::JobStatus::kFailed);
  EXPECT_EQ(ended(failed).attempts, 1);
  const tracking::Run run_of_it = runs_.get(failed.run).value();
  EXPECT_EQ(run_of_it.status, tracking::RunStatus::kFailed);
  EXPECT_NE(run_of_it.error.find("code 3"), std::string::npos) << run_of_it.error;
  const auto cancelled = run("echo > " + (folder_ / "up") + "; exec sleep 1000");
  ASSERT_TRUE(queue_->cancel(context_, cancelled.job).ok());
  EXPECT_EQ(ended(cancelled).status, jobs::JobStatus::kCancelled);
  EXPECT_EQ(runs_.get(cancelled.run)->status, tracking::RunStatus::kStopped);
}

TEST_F(WorkerJobsTest, one_that_never_ran_ends_its_run) {
  const auto waiting = run("true");  // The queue was not started.
  ASSERT_TRUE(queue_->cancel(context_, waiting.job).ok());
  EXPECT_EQ(runs_.get(waiting.run)->status, tracking::RunStatus::kStopped);
}

TEST_F(WorkerJobsTest, its_post_mortem_names_the_worker_that_failed_first) {
  queue_->start();
  // The launcher before it in the same attempt said how it began; the worker says how it ended.
  const auto started = run(
      "printf '%s' '{\"reason\": \"used up\", \"crashes\": 1, \"attempts\": [{\"attempt\": 0,"
      " \"first_failure\": {\"rank\": 1, \"exit_code\": 7}}]}' > ${FALAJ_METRICS%/*}/report.json;"
      " exit 7");
  const jobs::Job job = ended(started);
  ASSERT_EQ(job.status, jobs::JobStatus::kFailed);
  const Value& workers = job.result["post_mortem"]["workers"];
  EXPECT_EQ(workers["first_failure"].integer("rank"), 1) << to_json(job.result);
  EXPECT_EQ(workers.text("reason"), "used up");
  EXPECT_EQ(runs_.get(started.run)->outputs["launch"].text("reason"), "used up");
}

TEST_F(WorkerJobsTest, checkpoints_count_for_its_disk) {
  jobs::CommandOptions commands;
  commands.processes_max = 0;
  commands.disk_bytes_max = 4 << 20;
  queue_->run_commands(*executor_, commands);
  queue_->start();
  const auto started =
      run("head -c 3000000 /dev/zero > ${FALAJ_METRICS%/*}/one; "
          "head -c 3000000 /dev/zero > ${FALAJ_METRICS%/*}/two");
  const jobs::Job job = ended(started);
  ASSERT_EQ(job.status, jobs::JobStatus::kFailed);
  EXPECT_EQ(job.result.text("reason"), "out_of_disk") << job.error;
}

TEST_F(WorkerJobsTest, what_workers_put_in_place_of_their_files_is_not_followed) {
  queue_->start();
  std::ofstream(folder_ / "secret") << "{\"metric\": \"stolen\", \"step\": 1, \"value\": 1}\n";
  const auto started = run("ln -s " + (folder_ / "secret") + " $FALAJ_METRICS");
  EXPECT_EQ(ended(started).status, jobs::JobStatus::kSucceeded);
  EXPECT_FALSE(runs_.get(started.run)->metrics.has("stolen"));
}

TEST_F(WorkerJobsTest, what_could_never_start_is_refused_and_its_run_says_so) {
  WorkerPlan plan;
  plan.submission.command = {"/bin/true"};
  plan.submission.request.resources = {3000, std::int64_t{64} << 20, 0};
  plan.workers_min = plan.workers_max = 2;
  const auto refused = workers_->run(context_, "fraud", plan, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kOutOfRange) << refused.error().message;
  EXPECT_EQ(runs_.list(context_.project)->front().status, tracking::RunStatus::kFailed);
}

TEST(CheckpointVault, an_archive_keeps_its_key_until_that_is_shredded) {
  const storage::TempFolder folder;
  const std::string archive = folder / "archive";
  security::keys::testing::KeyWorld world;
  const CheckpointVault vault{world.tree.get(), nullptr};
  const storage::Owner owner = checkpoint_owner("pay", Zone("ae"), "fraud");
  const auto handed = [&]() -> std::string {
    EXPECT_TRUE(hand_over_key(vault, owner, archive, folder.path()).ok());
    const auto key = jobs::checkpoint::take_key(folder.path()).value();
    return key == nullptr ? "" : std::string(key->view());
  };
  const std::string first = handed();
  EXPECT_EQ(first.size(), crypto::kKeyBytes);
  EXPECT_EQ(handed(), first);
  std::ofstream(archive + "/00000001-sealed.json") << "sealed with it";
  ASSERT_TRUE(world.tree->shred({"pay", Zone("ae"), "TrainJob/fraud", "", ""}).ok());
  EXPECT_NE(handed(), first);
  EXPECT_FALSE(std::filesystem::exists(archive + "/00000001-sealed.json"));
  const auto elsewhere = checkpoint_owner("pay", Zone("eu"), "fraud");
  EXPECT_FALSE(hand_over_key(vault, elsewhere, archive, folder.path()).ok());
}

TEST(CheckpointVault, what_may_not_lie_here_is_refused_and_what_is_kept_counts) {
  const storage::TempFolder folder;
  security::residency::ZoneWorld zones;
  const CheckpointVault vault{nullptr, zones.exits.get()};
  const auto good = checkpoint_owner("p-ae", Zone("ae"), "fraud");
  EXPECT_TRUE(hand_over_key(vault, good, folder / "archive", folder.path()).ok());
  const auto nowhere = checkpoint_owner("p-ae", Zone(), "fraud");
  EXPECT_EQ(hand_over_key(vault, nowhere, folder / "archive", folder.path()).error().id,
            ErrorId::kZoneMissing);
  std::filesystem::create_directories(folder / "archive/00000001-sealed");
  std::ofstream(folder / "archive/00000001-sealed/a") << "12345";
  count_kept(vault, good, folder / "archive");
  std::int64_t bytes = 0;
  for (const auto& row : zones.exits->ledger("p-ae").value()) {
    if (row.exit == "write") bytes += row.bytes;
  }
  EXPECT_EQ(bytes, 5);
}

}  // namespace
}  // namespace falaj::training
