#include "training/train_jobs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "crypto/testing/fake_random.h"
#include "features/testing/feature_world.h"
#include "security/identity/job_identities.h"
#include "security/testing/model_trust.h"
#include "training/testing/samples.h"

namespace falaj::training {
namespace {

constexpr Duration kPatience = Duration::seconds(120);

storage::Object declared(std::string_view spec) {
  storage::Object object;
  object.kind = "TrainJob";
  object.project = "pay";
  object.name = "fraud_train";
  object.spec = features::json(spec);
  return object;
}

TEST(TrainJobKind, reads_the_declaration) {
  const auto job = decode_train_job(declared(
      R"({"data":{"training_set":"fraud"},"engine":"lightgbm","params":{"rounds":40},
          "resources":{"threads":1,"memory":"1Gi","time_max":"5m"},
          "register":{"model":"fraud","verify_rows":200000}})"));
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job->training_set, "fraud");
  EXPECT_EQ(job->memory_bytes_max, std::int64_t{1} << 30);
  EXPECT_EQ(job->run_time_max, Duration::minutes(5));
  EXPECT_EQ(job->model, "fraud");
  EXPECT_EQ(job->verify_rows, 200'000);
  const auto references = kinds().front().check(declared(R"({"data":{"training_set":"fraud"}})"));
  ASSERT_EQ(references->size(), 1u);
  EXPECT_EQ(references->front().kind, "TrainingSet");
}

TEST(TrainJobKind, refuses_what_it_does_not_know) {
  const auto id = [](std::string_view spec) { return decode_train_job(declared(spec)).error().id; };
  EXPECT_EQ(id(R"({})"), ErrorId::kMissingField);
  EXPECT_EQ(id(R"({"data":{"training_set":"f"},"param":{}})"), ErrorId::kUnknownField);
  EXPECT_EQ(id(R"({"data":{"training_set":"f"},"params":{"leaves":3}})"), ErrorId::kUnknownField);
  EXPECT_EQ(id(R"({"data":{"training_set":"f"},"resources":{"memory":"1Ki"}})"),
            ErrorId::kOutOfRange);
  EXPECT_EQ(id(R"({"data":{"training_set":"f"},"register":{"verify_rows":100000}})"),
            ErrorId::kMissingField);
  EXPECT_EQ(id(R"({"data":{"training_set":"f"},"register":{"model":"m","verify_rows":99999}})"),
            ErrorId::kOutOfRange);
}

// Stores, a frozen training set and a queue; the program is this test, or a script.
class TrainJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(world_.sql
                    ->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               features::kFeaturesMigration, features::kReachMigration,
                               features::kErasureMigration, features::kProfilesMigration,
                               tracking::kTrackingMigration, registry::kRegistryMigration,
                               jobs::kJobsMigration, jobs::kJobEventsMigration,
                               jobs::kJobPayloadsMigration, jobs::kJobDecisionsMigration})
                    .ok());
    freeze();
    declare(R"("rounds": 8)");
    open(std::filesystem::read_symlink("/proc/self/exe").string());
  }

  void freeze() {
    world_.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    world_.apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
    world_.apply("FeatureView", "activity",
                 R"({"entity":"customer","source":"tx","features":[
                     {"name":"amount","type":"float64"},{"name":"visits","type":"int64"}]})");
    world_.apply("FeatureView", "labels",
                 R"({"entity":"customer","source":"tx","features":[
                     {"name":"is_fraud","type":"int64"}]})");
    world_.apply("FeatureService", "svc", R"({"features":["activity"]})");
    world_.apply("TrainingSet", "fraud",
                 R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"},
                     "split":{"by":"customer_id","valid":"25%"}})");
    std::mt19937 random(5);
    std::string activity = "customer_id,at,amount,visits\n";
    std::string labels = "customer_id,at,is_fraud\n";
    for (int i = 0; i < 1'500; ++i) {
      const auto amount = random() % 1'000;
      const auto visits = random() % 20;
      const std::string id = std::to_string(i);
      activity += id + ",2026-01-01T00:00:00Z," + std::to_string(amount) + "." +
                  std::to_string(random() % 100) + "," +
                  (i % 11 == 0 ? "" : std::to_string(visits)) + "\n";
      labels += id + ",2026-01-02T00:00:00Z," +
                (amount + 30 * visits + random() % 200 > 800 ? "1" : "0") + "\n";
    }
    const auto first = world_.append("activity", activity);
    ASSERT_TRUE(first.ok()) << first.error().message;
    ASSERT_TRUE(world_.append("labels", labels).ok());
    const auto manifest = world_.training_sets->freeze(world_.context, "fraud");
    ASSERT_TRUE(manifest.ok()) << manifest.error().message;
    manifest_ = *manifest;
  }

  void declare(const std::string& params, const std::string& resources = R"("threads": 1)") {
    world_.apply("TrainJob", "fraud_train",
                 R"({"data":{"training_set":"fraud"},"params":{)" + params + R"(},"resources":{)" +
                     resources + R"(},"register":{"model":"fraud","verify_rows":100000}})");
  }

  void open(const std::string& program) {
    queue_.reset();  // Its workers call the trainer.
    trainer_.reset();
    auto opened = jobs::Queue::open({folder_ / "jobs", 1, 10}, *world_.sql, world_.audit,
                                    world_.metrics, world_.clock);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    queue_ = std::move(*opened);
    TrainOptions options;
    options.program = program;
    options.code_version = "test";
    options.library_folders = {std::filesystem::path(FALAJ_LIGHTGBM).parent_path().string()};
    options.tokens.mint = [this](const JobId& job, std::vector<security::Scope> scopes) {
      return identities_.mint(job, std::move(scopes), world_.clock.now());
    };
    options.tokens.end = [this](const JobId& job) { identities_.end(job); };
    trainer_ = std::make_unique<TrainJobs>(options, *world_.sql, *world_.blobs,
                                           *world_.training_sets, runs_, models_, *queue_);
    queue_->handle("train", *trainer_);
  }

  // A program that does `body` instead of training. It leaves the result on descriptor 8, the model
  // on 6 and 7.
  std::string script(const std::string& body) {
    const std::string path = folder_ / "program.sh";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }

  TrainJobs::Started submit() {
    auto started = trainer_->run(world_.context, "fraud_train");
    EXPECT_TRUE(started.ok()) << started.error().message;
    return started.ok() ? *started : TrainJobs::Started{};
  }
  jobs::Job ended(const TrainJobs::Started& started) {
    return *queue_->wait(started.job, kPatience);
  }
  jobs::Job run_script(const std::string& body) {
    open(script(body));
    queue_->start();
    started_ = submit();
    return ended(started_);
  }

  features::FeatureWorld world_;
  storage::TempFolder folder_;
  tracking::Runs runs_{*world_.sql, world_.audit, world_.clock};
  security::TestModelTrust trust_;
  registry::Models models_{*world_.sql, *world_.blobs, world_.audit, trust_.get(), world_.clock};
  features::Manifest manifest_;
  crypto::testing::FakeRandom random_{5};
  security::JobIdentities identities_{random_};
  std::unique_ptr<TrainJobs> trainer_;
  std::unique_ptr<jobs::Queue> queue_;
  TrainJobs::Started started_;
};

TEST_F(TrainJobsTest, trains_proves_and_registers) {
  const auto started = submit();
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kQueued);
  queue_->start();
  const jobs::Job job = ended(started);
  ASSERT_EQ(job.status, jobs::JobStatus::kSucceeded) << job.error;
  const tracking::Run run = *runs_.get(started.run);
  EXPECT_EQ(run.status, tracking::RunStatus::kFinished);
  EXPECT_EQ(run.outputs["model"].integer("version"), 1);
  EXPECT_EQ(run.inputs["training_set"].text("id"), manifest_.id);
  EXPECT_GT(run.metrics.number("auc"), 0.8);
  EXPECT_EQ(runs_.history(started.run, "auc")->size(), 8u) << "one point a round";
  const auto version = models_.get(ProjectName("pay"), "fraud", 1);
  ASSERT_TRUE(version.ok()) << version.error().message;
  EXPECT_EQ(version->training_set, manifest_.id);
  EXPECT_EQ(version->feature_service, "svc");
  EXPECT_EQ(version->zone, "ae");
  EXPECT_EQ(version->signature.features, manifest_.features);
  EXPECT_GE(version->proof.integer("rows"), 100'000);
  EXPECT_EQ(version->proof.integer("mismatches", -1), 0);
  EXPECT_NE(world_.blobs->get(registry::owner_of(*version), version->onnx)
                ->find("TreeEnsembleClassifier"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / ("jobs/" + job.id.str() + "-1")));
  EXPECT_TRUE(world_.audit.verify().ok());
}

TEST_F(TrainJobsTest, a_job_registers_as_itself) {
  queue_->start();
  const jobs::Job job = ended(submit());
  ASSERT_EQ(job.status, jobs::JobStatus::kSucceeded) << job.error;
  security::AuditQuery query;
  query.action = "model.";
  const auto entries = world_.audit.list(query).value();
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(entries.front().actor, "job:" + job.id.str());
}

TEST_F(TrainJobsTest, a_job_reads_only_the_frozen_set_that_it_was_started_on) {
  world_.apply("TrainingSet", "other",
               R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"}})");
  const auto other = world_.training_sets->freeze(world_.context, "other");
  ASSERT_TRUE(other.ok()) << other.error().message;
  const auto started = trainer_->run(world_.context, "fraud_train");
  ASSERT_TRUE(started.ok()) << started.error().message;
  // As if somebody had changed the order that waits in the queue.
  ASSERT_TRUE(world_.sql
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("UPDATE jobs SET payload = replace(payload, ?, ?)",
                                         {manifest_.id, other->id}));
                    return {};
                  })
                  .ok());
  queue_->start();
  EXPECT_EQ(ended(*started).status, jobs::JobStatus::kFailed);
  EXPECT_NE(runs_.get(started->run)->error.find("FJ-7063"), std::string::npos)
      << runs_.get(started->run)->error;
}

TEST_F(TrainJobsTest, training_again_gives_the_same_bytes) {
  queue_->start();
  const auto first = submit();
  const auto second = submit();
  ASSERT_EQ(ended(first).status, jobs::JobStatus::kSucceeded) << ended(first).error;
  ASSERT_EQ(ended(second).status, jobs::JobStatus::kSucceeded);
  const auto versions = models_.versions(ProjectName("pay"), "fraud");
  ASSERT_EQ(versions->size(), 2u);
  EXPECT_EQ((*versions)[0].onnx_sha256, (*versions)[1].onnx_sha256);
  EXPECT_EQ((*versions)[0].native_sha256, (*versions)[1].native_sha256);
}

TEST_F(TrainJobsTest, a_job_that_comes_back_after_a_crash_registers_once) {
  queue_->start();
  const auto started = submit();
  ASSERT_EQ(ended(started).status, jobs::JobStatus::kSucceeded);
  queue_->stop();
  // The server died after registering, before the job was written down as ended.
  ASSERT_TRUE(world_.sql
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("UPDATE jobs SET status = 1, ended_at = 0 WHERE id = ?",
                                         {started.job.str()}));
                    return {};
                  })
                  .ok());
  open(std::filesystem::read_symlink("/proc/self/exe").string());
  queue_->start();
  EXPECT_EQ(ended(started).status, jobs::JobStatus::kSucceeded) << ended(started).error;
  EXPECT_EQ(models_.versions(ProjectName("pay"), "fraud")->size(), 1u);
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kFinished);
}

TEST_F(TrainJobsTest, a_killed_process_is_tried_again_and_then_given_up) {
  const jobs::Job job = run_script("kill -9 $$");
  EXPECT_EQ(job.status, jobs::JobStatus::kFailed);
  EXPECT_EQ(job.attempts, 3);
  const tracking::Run run = *runs_.get(started_.run);
  EXPECT_EQ(run.status, tracking::RunStatus::kFailed);
  EXPECT_NE(run.error.find("FJ-4002"), std::string::npos) << run.error;
  EXPECT_TRUE(models_.models(ProjectName("pay"))->empty());
}

TEST_F(TrainJobsTest, a_process_that_hangs_meets_its_limit) {
  declare(R"("rounds": 8)", R"("time_max": "200ms")");
  const jobs::Job job = run_script("cat <&3");
  EXPECT_EQ(job.status, jobs::JobStatus::kFailed);
  EXPECT_NE(runs_.get(started_.run)->error.find("FJ-4004"), std::string::npos) << job.error;
}

TEST_F(TrainJobsTest, a_process_without_memory_is_told_what_to_do) {
  declare(R"("rounds": 8)", R"("memory": "64Mi")");
  const jobs::Job job = run_script("exec tail /dev/zero");
  EXPECT_EQ(job.status, jobs::JobStatus::kFailed);
  const std::string error = runs_.get(started_.run)->error;
  EXPECT_NE(error.find("FJ-4003"), std::string::npos) << error;
  EXPECT_NE(error.find("resources.memory"), std::string::npos) << error;
}

TEST_F(TrainJobsTest, nothing_unproven_is_registered) {
  const std::string signature =
      R"("signature":{"inputs":[],"outputs":[],"features":["amount","visits"]})";
  const auto leave = [&](const std::string& proof) {
    return "echo x >&7; echo x >&6; echo '{\"metrics\":{},\"proof\":" + proof + "," + signature +
           "}' >&8";
  };
  for (const char* proof : {R"({"rows":100000,"mismatches":1})", R"({"rows":99999,"mismatches":0})",
                            R"({})", R"({"rows":100000})"}) {
    SCOPED_TRACE(proof);
    const jobs::Job job = run_script(leave(proof));
    EXPECT_EQ(job.status, jobs::JobStatus::kFailed);
    EXPECT_NE(job.error.find("FJ-4006"), std::string::npos) << job.error;
  }
  EXPECT_TRUE(models_.models(ProjectName("pay"))->empty());
  EXPECT_EQ(run_script(leave(R"({"rows":100000,"mismatches":0})")).status,
            jobs::JobStatus::kSucceeded)
      << "the script itself is sound";
}

TEST_F(TrainJobsTest, an_engine_error_keeps_its_code) {
  const jobs::Job job =
      run_script(R"(echo '{"code":"FJ-4006","message":"differs on 3 rows"}' >&8; exit 1)");
  EXPECT_NE(job.error.find("FJ-4006: differs on 3 rows"), std::string::npos) << job.error;
  EXPECT_EQ(job.attempts, 1);
}

TEST_F(TrainJobsTest, results_that_are_missing_or_malformed_are_refused) {
  EXPECT_NE(run_script("exit 0").error.find("no usable result"), std::string::npos);
  EXPECT_NE(run_script("echo '{' >&8").error.find("FJ-4001"), std::string::npos);
  EXPECT_TRUE(models_.models(ProjectName("pay"))->empty());
}

TEST_F(TrainJobsTest, the_process_can_make_no_file) {
  const jobs::Job job = run_script("echo x > file || echo refused; ls -A; exit 7");
  EXPECT_NE(job.error.find("refused"), std::string::npos) << job.error;
  EXPECT_EQ(job.error.find("\nfile"), std::string::npos) << job.error;
}

TEST_F(TrainJobsTest, a_cancelled_job_stops_its_run) {
  const auto started = submit();
  ASSERT_TRUE(queue_->cancel(world_.context, started.job).ok());
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kStopped);
}

TEST_F(TrainJobsTest, malformed_reports_do_not_hurt) {
  const jobs::Job job = run_script(
      R"(printf '{"metric":1,"value":2}\n{"metric":"auc","value":"x"}\n{"progress":7}\n?\n' >&3
         printf '{"metric":"auc","step":3,"value":0.5}\n' >&3; exit 4)");
  EXPECT_EQ(job.status, jobs::JobStatus::kFailed);
  const tracking::Run run = *runs_.get(started_.run);
  EXPECT_DOUBLE_EQ(run.metrics.number("auc"), 0.5);
  EXPECT_DOUBLE_EQ(run.progress, 0);
}

TEST_F(TrainJobsTest, names_what_is_not_declared_or_frozen) {
  EXPECT_EQ(trainer_->run(world_.context, "none").error().id, ErrorId::kObjectNotFound);
  EXPECT_FALSE(trainer_->run(world_.context, "fraud_train", "no-such-manifest").ok());
  EXPECT_TRUE(runs_.list(ProjectName("pay"))->empty());
}

TEST_F(TrainJobsTest, a_missing_engine_fails_the_run_by_name) {
  TrainOptions options;
  options.program = "/bin/true";
  options.library_folders = {folder_.path()};
  TrainJobs trainer(options, *world_.sql, *world_.blobs, *world_.training_sets, runs_, models_,
                    *queue_);
  queue_->handle("train", trainer);
  queue_->start();
  const auto started = trainer.run(world_.context, "fraud_train");
  EXPECT_NE(ended(*started).error.find("FJ-4007"), std::string::npos);
  EXPECT_EQ(runs_.get(started->run)->status, tracking::RunStatus::kFailed);
  queue_->stop();
}

TEST_F(TrainJobsTest, a_run_left_without_a_job_is_ended) {
  tracking::Run orphan;
  orphan.experiment = "fraud_train";
  const RunId id = runs_.create(world_.context, orphan)->id;
  const auto started = submit();
  ASSERT_TRUE(trainer_->recover().ok());
  EXPECT_EQ(runs_.get(id)->status, tracking::RunStatus::kFailed);
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kQueued);
}

TEST_F(TrainJobsTest, a_run_finds_its_job_behind_any_number_of_newer_ones) {
  const auto started = submit();
  ASSERT_TRUE(world_.sql
                  ->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                        " WHERE i < 1200)"
                        " INSERT INTO jobs (id, type, project, zone, payload, attempts_max, status,"
                        " attempts, error, result, created_at, ended_at)"
                        " SELECT 'Z' || (10000 + i), 'other', project, zone, '{}', 1, 2, 1, '',"
                        " 'null', created_at, created_at FROM jobs, n WHERE id = ?",
                        {started.job.str()}));
                    return {};
                  })
                  .ok());
  ASSERT_TRUE(trainer_->recover().ok());
  EXPECT_EQ(runs_.get(started.run)->status, tracking::RunStatus::kQueued);
  EXPECT_EQ(queue_->of_run(started.run)->value().id, started.job);
  EXPECT_FALSE(queue_->of_run(RunId("none"))->has_value());
}

TEST_F(TrainJobsTest, a_job_without_a_folder_fails_its_run) {
  const auto started = submit();
  std::filesystem::remove(folder_ / "jobs");
  std::ofstream(folder_ / "jobs").put('x');
  queue_->start();
  EXPECT_EQ(ended(started).status, jobs::JobStatus::kFailed);
  const tracking::Run run = *runs_.get(started.run);
  EXPECT_EQ(run.status, tracking::RunStatus::kFailed);
  EXPECT_NE(run.error.find("cannot create the job's folder"), std::string::npos) << run.error;
}

TEST_F(TrainJobsTest, a_job_that_cannot_be_prepared_fails_its_run) {
  const auto started = submit();
  jobs::Job job = *queue_->get(started.job);
  job.spec.payload["run"] = "no-such-run";
  EXPECT_FALSE(trainer_->prepare(job, folder_.path()).ok()) << "its run cannot be started";
  trainer_->abandoned(*queue_->get(started.job), Error(ErrorId::kDataFolderFull, "no space"));
  const tracking::Run run = *runs_.get(started.run);
  EXPECT_EQ(run.status, tracking::RunStatus::kFailed);
  EXPECT_NE(run.error.find("no space"), std::string::npos) << run.error;
}

TEST_F(TrainJobsTest, a_run_takes_the_end_of_its_job_when_a_crash_came_between) {
  const auto crashed = [&](int status, const std::string& result) {
    const auto started = submit();
    EXPECT_TRUE(world_.sql
                    ->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(
                          tx.execute("UPDATE jobs SET status = ?, error = 'FJ-4002: killed',"
                                     " result = ? WHERE id = ?",
                                     {std::int64_t{status}, result, started.job.str()}));
                      return {};
                    })
                    .ok());
    EXPECT_TRUE(trainer_->recover().ok());
    return *runs_.get(started.run);
  };
  EXPECT_EQ(crashed(4, "null").status, tracking::RunStatus::kStopped);
  const tracking::Run failed = crashed(3, "null");
  EXPECT_EQ(failed.status, tracking::RunStatus::kFailed);
  EXPECT_EQ(failed.error, "FJ-4002: killed");
  const tracking::Run finished = crashed(2, R"({"rounds":8,"metrics":{"auc":1}})");
  EXPECT_EQ(finished.status, tracking::RunStatus::kFinished);
  EXPECT_EQ(finished.outputs.integer("rounds"), 8);
  EXPECT_EQ(crashed(1, "null").status, tracking::RunStatus::kQueued) << "the queue takes it up";
}

TEST_F(TrainJobsTest, the_process_has_an_identity_of_its_own_for_as_long_as_it_runs) {
  const auto started = submit();
  const jobs::Job job = *queue_->get(started.job);
  const auto spec = trainer_->prepare(job, folder_.path());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  std::string token;
  for (const auto& [name, value] : spec->env) token = name == "FALAJ_TOKEN" ? value : token;
  const auto parsed = security::parse_token_text(token);
  ASSERT_TRUE(parsed.ok()) << token;
  const auto principal = identities_.check(*parsed, world_.clock.now());
  ASSERT_TRUE(principal.ok());
  const std::string project = world_.context.project.str();
  EXPECT_EQ((*principal)->id, "job:" + started.job.str());
  const auto may = [&](std::string_view action, const std::string& object) {
    return security::within_scopes(**principal, action, project, object);
  };
  EXPECT_TRUE(may("features.read", "TrainingSet/fraud"));
  EXPECT_TRUE(may("models.write", "Model/fraud"));
  EXPECT_TRUE(may("models.read", "Run/" + started.run.str()));
  EXPECT_FALSE(may("features.read", "TrainingSet/other"));
  EXPECT_FALSE(may("models.write", "Model/other"));
  EXPECT_FALSE(may("models.read", "Run/other"));
  EXPECT_FALSE(may("objects.write", "TrainingSet/fraud"));
  exec::ChildExit killed;
  killed.reason = exec::ExitReason::kSignalled;
  (void)trainer_->finish(job, killed, folder_.path());
  EXPECT_EQ(identities_.check(*parsed, world_.clock.now()).error().id, ErrorId::kCredentialRefused)
      << "gone with the process";
  ASSERT_TRUE(trainer_->prepare(job, folder_.path()).ok());
  EXPECT_EQ(identities_.size(), 1u);
  trainer_->abandoned(job, Error{Code::kInternal, "no"});
  EXPECT_EQ(identities_.size(), 0u);
}

TEST_F(TrainJobsTest, the_process_finds_what_the_server_found) {
  const auto started = submit();
  const auto spec = trainer_->prepare(*queue_->get(started.job), folder_.path());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const std::pair<std::string, std::string> wanted{
      "FALAJ_LIBRARY_DIR", std::filesystem::path(FALAJ_LIGHTGBM).parent_path().string()};
  EXPECT_EQ(std::count(spec->env.begin(), spec->env.end(), wanted), 1);
  EXPECT_EQ(spec->sandbox.required,
            (std::vector<std::string>{"no_new_privs", "netns", "landlock", "seccomp"}));
  EXPECT_GT(spec->limits.file_bytes_max, 0);
}

TEST_F(TrainJobsTest, a_sandbox_at_best_effort_requires_nothing) {
  TrainOptions options;
  options.program = "/bin/true";
  options.library_folders = {std::filesystem::path(FALAJ_LIGHTGBM).parent_path().string()};
  options.sandbox = SandboxPolicy::kBestEffort;
  TrainJobs trainer(options, *world_.sql, *world_.blobs, *world_.training_sets, runs_, models_,
                    *queue_);
  const auto spec = trainer.prepare(*queue_->get(submit().job), folder_.path());
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->sandbox.enabled);
  EXPECT_TRUE(spec->sandbox.required.empty());
}

}  // namespace
}  // namespace falaj::training
