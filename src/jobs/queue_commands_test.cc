// Commands: from the submission to the end, over crashes of the server.
#include <algorithm>
#include <filesystem>
#include <map>

#include "exec/testing/processes.h"
#include "jobs/testing/commands_world.h"
#include "jobs/warden_executor.h"

namespace falaj::jobs {
namespace {

using testing::kGi;

// Does not hear that it is to stop something while it is told so.
class DeafExecutor final : public Executor {
 public:
  explicit DeafExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}
  std::atomic<bool> deaf{true};
  UsageCurve samples;  // What it says of everything that runs.

  Status start(const AttemptId& id, const Work& work) override { return inner_->start(id, work); }
  Status stop(const AttemptId& id) override {
    return deaf ? Status(Error(Code::kUnavailable, "what?")) : inner_->stop(id);
  }
  Result<std::vector<Attempt>> list() const override { return inner_->list(); }
  Result<UsageCurve> curve(const AttemptId&) const override { return samples; }
  Status forget(const AttemptId& id) override { return inner_->forget(id); }
  void when_changed(std::function<void()> changed) override {
    inner_->when_changed(std::move(changed));
  }

 private:
  std::unique_ptr<Executor> inner_;
};

class CommandsTest : public testing::CommandsWorld {
 protected:
  DeafExecutor& deafen() {
    auto deaf = std::make_unique<DeafExecutor>(std::move(executor_));
    DeafExecutor& out = *deaf;
    executor_ = std::move(deaf);
    reopen();
    return out;
  }
};

TEST_F(CommandsTest, a_command_runs_and_its_end_is_told) {
  queue_->start();
  const JobId id = submit(spec_of("echo hello $FALAJ_JOB; pwd"));
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.result.integer("exit_code", -1), 0);
  EXPECT_EQ(job.epoch, 1);
  const std::string log = *queue_->log_tail(id, 0);
  EXPECT_TRUE(log.starts_with("hello " + id.str() + "\n")) << log;
  EXPECT_NE(log.find("jobs/" + id.str() + "-1"), std::string::npos) << log;
  queue_->stop();  // Its worker cleans up after the end was written.
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "jobs")) << "its folder and log file are gone";
  EXPECT_TRUE(executor_->list()->empty());
  const std::vector<Event> events = *queue_->events(id);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, EventKind::kAdmitted);
  EXPECT_EQ(queue_->why(id)->code, "succeeded");
}

TEST_F(CommandsTest, how_it_used_the_machine_is_told_while_it_runs_and_after) {
  DeafExecutor& executor = deafen();
  executor.samples.resize(2);
  executor.samples[1].memory_bytes = 4711;
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  runs("a");
  const Value live = *queue_->curve(id);
  EXPECT_EQ(live["memory_bytes"].as_array().size(), 2u);
  EXPECT_EQ(live.text("status"), "running");
  clock_.advance(Duration::seconds(3));
  go("a");
  ended(id);
  const Value kept = *queue_->curve(id);
  EXPECT_EQ(kept["memory_bytes"], live["memory_bytes"]);
  EXPECT_EQ(kept.text("status"), "succeeded");
  EXPECT_EQ(kept.integer("memory_max"), kGi / 8);
  const JobId brief = submit(spec_of("true"));
  ended(brief);
  EXPECT_TRUE((*queue_->curve(brief))["memory_bytes"].as_array().empty());
  EXPECT_EQ(queue_->curve(JobId("none")).error().code, Code::kNotFound);
}

// NVIDIA's library is played by exec/testing/fake_nvml.c.
TEST_F(CommandsTest, the_gpus_that_a_job_was_given_are_in_its_curve) {
  queue_->stop();
  queue_.reset();
  auto warden = make_warden_executor({folder_ / "warden",
                                      {"/usr/bin/env", "LD_LIBRARY_PATH=" FALAJ_FAKE_NVML,
                                       exec::testing::own_program(), "warden"}});
  ASSERT_TRUE(warden.ok()) << warden.error().message;
  executor_ = std::move(*warden);
  machine_.gpus = 2;
  reopen();
  queue_->start();
  JobSpec spec = spec_of(gated("a"));
  spec.request.resources.gpus = 2;
  const JobId id = submit(spec);
  runs("a");
  Value usage;
  exec::testing::Bell bell;
  EXPECT_TRUE(bell.wait_until([&] {
    usage = queue_->curve(id).value_or(Value());
    return usage["gpus"].is_array();
  }));
  ASSERT_FALSE(usage["gpus"].as_array().empty());
  EXPECT_EQ(usage["gpus"].as_array().back(), Value(1.05));
  EXPECT_EQ(usage["gpu_memory_bytes"].as_array().back(), Value(4 * kGi));
  EXPECT_EQ(usage.integer("gpus_max"), 2);
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

TEST_F(CommandsTest, a_failure_leaves_a_post_mortem_with_what_it_reported) {
  queue_->start();
  const JobId id = submit(
      spec_of("echo so far; echo '{\"crashes\":1,\"attempts\":[{\"attempt\":0,\"first_failure\":"
              "{\"process\":\"1\"}}]}' > $FALAJ_REPORT; kill -9 $$"));
  const Job job = ended(id);
  const Value& post_mortem = job.result["post_mortem"];
  EXPECT_EQ(post_mortem.text("signal_name"), "SIGKILL");
  EXPECT_EQ(post_mortem["last_lines"].as_array().back(), Value("so far"));
  EXPECT_EQ(post_mortem["workers"]["first_failure"].text("process"), "1");
  EXPECT_EQ(post_mortem["charged"].integer("attempts"), 1);
  EXPECT_TRUE(ended(submit(spec_of("true"))).result["post_mortem"].is_null());
}

TEST_F(CommandsTest, a_failure_is_tried_again_as_another_attempt) {
  queue_->start();
  JobSpec spec = spec_of("echo $FALAJ_ATTEMPT >> $FOLDER/tries; echo no luck; exit 7");
  spec.attempts_max = 2;
  const JobId id = submit(spec);
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("FJ-4001"), std::string::npos) << job.error;
  EXPECT_NE(job.error.find("no luck"), std::string::npos) << job.error;
  EXPECT_EQ(job.attempts, 2);
  std::ifstream tries(folder_ / "tries");
  std::string first;
  std::string second;
  tries >> first >> second;
  EXPECT_EQ(first, id.str() + "-1");
  EXPECT_EQ(second, id.str() + "-2");
}

TEST_F(CommandsTest, a_program_that_cannot_start_fails_its_job) {
  queue_->start();
  JobSpec spec = spec_of("");
  spec.payload["command"] = Value::array();
  spec.payload["command"].push("/no/such/program");
  const Job job = ended(submit(spec));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("/no/such/program"), std::string::npos) << job.error;
}

TEST_F(CommandsTest, cancelled_while_it_runs_and_while_it_waits) {
  queue_->start();
  JobSpec whole = spec_of(gated("a"));
  whole.request.resources.cpu_milli = 2000;
  const JobId running = submit(whole);
  EXPECT_EQ(runs("a"), running.str() + "-1");
  const JobId waiting = submit(spec_of("exit 0"));
  ASSERT_TRUE(queue_->cancel(context_, waiting).ok());
  EXPECT_EQ(ended(waiting).status, JobStatus::kCancelled);
  EXPECT_EQ(ended(waiting).epoch, 0);
  ASSERT_TRUE(queue_->cancel(context_, running).ok());
  EXPECT_EQ(ended(running).status, JobStatus::kCancelled);
  EXPECT_EQ(queue_->cancel(context_, running).error().code, Code::kConflict);
}

TEST_F(CommandsTest, a_job_that_waits_says_why) {
  queue_->start();
  JobSpec whole = spec_of(gated("a"));
  whole.request.resources.cpu_milli = 2000;
  const JobId first = submit(whole);
  runs("a");
  const JobId second = submit(spec_of("exit 0"));
  JobSpec later = spec_of("exit 0");
  later.request.after = {second};
  const JobId third = submit(later);
  const Why why = *queue_->why(third);
  EXPECT_EQ(why.code, "dependency") << why.text;
  EXPECT_EQ(why.text, "waits for job " + second.str() + ", which must succeed first");
  EXPECT_EQ(queue_->why(second)->code, "capacity") << queue_->why(second)->text;
  EXPECT_EQ(queue_->why(first)->code, "running");
  ASSERT_EQ(queue_->usage(context_.project)->size(), 1u);
  EXPECT_EQ(queue_->usage(context_.project)->front().id, first);
  go("a");
  EXPECT_EQ(ended(third).status, JobStatus::kSucceeded) << ended(third).error;
  EXPECT_EQ(ended(second).status, JobStatus::kSucceeded);
}

TEST_F(CommandsTest, who_borrowed_makes_room_for_the_owner_and_loses_no_attempt) {
  storage::Object own;
  own.kind = "Queue";
  own.project = "payments";
  own.name = "own";
  own.spec["quota"]["cpu"]["nominal"] = 2;
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(storage::put_object(tx, own, clock_.now()));
                    return {};
                  })
                  .ok());
  queue_->start();
  JobSpec borrower = spec_of(gated("a"));
  borrower.request.resources.cpu_milli = 2000;
  const JobId first = submit(borrower);
  EXPECT_EQ(runs("a"), first.str() + "-1");
  clock_.advance(Duration::minutes(30));
  JobSpec owner = spec_of(gated("b"));
  owner.request.resources.cpu_milli = 2000;
  owner.request.queue = "own";
  const JobId second = submit(owner);
  EXPECT_EQ(runs("b"), second.str() + "-1");
  EXPECT_EQ(queue_->get(first)->status, JobStatus::kQueued);
  EXPECT_EQ(queue_->get(first)->error, "preempted");
  EXPECT_EQ(queue_->get(first)->attempts, 0);
  go("b");
  EXPECT_EQ(runs("a"), first.str() + "-2");
  go("a");
  EXPECT_EQ(ended(second).status, JobStatus::kSucceeded);
  EXPECT_EQ(ended(first).status, JobStatus::kSucceeded);
  EXPECT_EQ(ended(first).attempts, 1);
}

TEST_F(CommandsTest, a_job_whose_predecessor_failed_is_never_started) {
  queue_->start();
  const JobId first = submit(spec_of(gated("a") + "; exit 1"));
  JobSpec later = spec_of("touch $FOLDER/started");
  later.request.after = {first};
  const JobId second = submit(later);
  runs("a");
  go("a");
  EXPECT_EQ(ended(second).status, JobStatus::kCancelled);
  EXPECT_NE(ended(second).error.find(first.str()), std::string::npos) << ended(second).error;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
  EXPECT_EQ(queue_->submit(context_, later).error().code, Code::kConflict) << "it failed already";
}

TEST_F(CommandsTest, a_job_may_come_after_a_failure_or_after_any_end) {
  queue_->start();
  const JobId bad = submit(spec_of(gated("a") + "; exit 1"));
  JobSpec repair = spec_of("touch $FOLDER/repaired");
  repair.request.after = {{bad, AfterEnd::kFailed}};
  const JobId repairs = submit(repair);
  JobSpec cleanup = spec_of("touch $FOLDER/cleaned");
  cleanup.request.after = {{bad, AfterEnd::kAny}, {repairs, AfterEnd::kAny}};
  const JobId cleans = submit(cleanup);
  runs("a");
  EXPECT_EQ(queue_->why(repairs)->text,
            "waits for job " + bad.str() + ", after which it starts if that one fails");
  go("a");
  EXPECT_EQ(ended(bad).status, JobStatus::kFailed);
  EXPECT_EQ(ended(repairs).status, JobStatus::kSucceeded) << ended(repairs).error;
  EXPECT_EQ(ended(cleans).status, JobStatus::kSucceeded) << ended(cleans).error;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "repaired"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "cleaned"));
}

TEST_F(CommandsTest, who_waits_for_a_failure_ends_when_there_is_none) {
  queue_->start();
  const JobId good = submit(spec_of(gated("a")));
  JobSpec repair = spec_of("touch $FOLDER/repaired");
  repair.request.after = {{good, AfterEnd::kFailed}};
  const JobId repairs = submit(repair);
  JobSpec report = spec_of("exit 0");
  report.request.after = {{repairs, AfterEnd::kAny}};
  const JobId reports = submit(report);
  runs("a");
  go("a");
  EXPECT_EQ(ended(repairs).status, JobStatus::kCancelled);
  EXPECT_NE(ended(repairs).error.find(good.str() + ", which it comes after, succeeded"),
            std::string::npos)
      << ended(repairs).error;
  EXPECT_EQ(ended(reports).status, JobStatus::kSucceeded) << "that was an end";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "repaired"));
  EXPECT_EQ(queue_->submit(context_, repair).error().code, Code::kConflict) << "it succeeded";
}

TEST_F(CommandsTest, impossible_requests_are_refused_at_once) {
  const auto refused = [&](const JobSpec& spec) {
    const auto id = queue_->submit(context_, spec);
    EXPECT_FALSE(id.ok());
    return id.ok() ? ErrorId::kInternal : id.error().id;
  };
  JobSpec large = spec_of("exit 0");
  large.request.resources.cpu_milli = 3000;
  EXPECT_EQ(refused(large), ErrorId::kOutOfRange);
  JobSpec memory = spec_of("exit 0");
  memory.request.resources.memory_bytes = 3 * kGi;
  EXPECT_EQ(refused(memory), ErrorId::kOutOfRange) << "past what a job may have";
  JobSpec slow = spec_of("exit 0");
  slow.request.time_max = Duration::hours(1);
  EXPECT_EQ(refused(slow), ErrorId::kOutOfRange);
  JobSpec queue = spec_of("exit 0");
  queue.request.queue = "nowhere";
  EXPECT_EQ(refused(queue), ErrorId::kObjectNotFound);
  JobSpec program = spec_of("");
  program.payload["command"] = Value::array();
  program.payload["command"].push("no-such-program");
  EXPECT_EQ(refused(program), ErrorId::kFileUnreadable);
  JobSpec after = spec_of("exit 0");
  after.request.after = {JobId("none")};
  EXPECT_EQ(queue_->submit(context_, after).error().code, Code::kNotFound);
  auto other = context_;
  other.project = ProjectName("shop");
  const JobId mine = submit(spec_of("exit 0"));
  after.request.after = {mine};
  EXPECT_EQ(queue_->submit(other, after).error().code, Code::kNotFound) << "not its project's";
  EXPECT_EQ(queue_->list(context_.project)->size(), 1u) << "nothing else was written";
}

TEST_F(CommandsTest, a_zone_that_may_not_be_computed_on_here_is_refused) {
  options_.admits = [](const security::RequestContext& context) -> Status {
    if (context.zone == Zone("ae")) return Error(ErrorId::kZoneRefused, "not here");
    return {};
  };
  reopen();
  EXPECT_EQ(queue_->submit(context_, spec_of("exit 0")).error().id, ErrorId::kZoneRefused);
}

TEST_F(CommandsTest, a_burst_past_the_limit_is_refused_and_loses_nothing) {
  options_.waiting_max = 5;
  reopen();
  std::vector<JobId> taken;
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    const auto id = queue_->submit(context_, spec_of("exit 0"));
    if (id.ok()) {
      taken.push_back(*id);
    } else {
      ++refused;
      EXPECT_EQ(id.error().id, ErrorId::kQueueFull);
      EXPECT_EQ(id.error().code, Code::kResourceExhausted);
    }
  }
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(refused, 45);
  queue_->start();
  for (const JobId& id : taken) EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

TEST_F(CommandsTest, a_command_outlives_the_server_where_its_executor_does) {
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  reopen();
  EXPECT_EQ(queue_->get(id)->status, JobStatus::kRunning);
  queue_->start();
  go("a");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.epoch, 1) << "the same attempt";
}

TEST_F(CommandsTest, an_end_that_came_while_the_server_was_away_is_found) {
  queue_->start();
  const JobId id = submit(spec_of(gated("a") + "; exit 5"));
  runs("a");
  queue_.reset();
  go("a");
  reopen();
  queue_->start();
  EXPECT_EQ(ended(id).result.integer("exit_code"), 5);
}

TEST_F(CommandsTest, what_was_lost_is_tried_again_and_costs_nothing) {
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  queue_->stop();
  executor_ = make_local_executor(clock_);  // The old one dies with its process.
  reopen();
  queue_->start();
  EXPECT_EQ(runs("a"), id.str() + "-2") << "never under the same attempt";
  go("a");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.attempts, 1);
  EXPECT_EQ(job.epoch, 2);
}

TEST_F(CommandsTest, what_was_stopped_from_outside_is_tried_again_and_costs_nothing) {
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  ASSERT_TRUE(executor_->stop({id, 1}).ok());
  EXPECT_EQ(runs("a"), id.str() + "-2");
  go("a");
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error;
  EXPECT_EQ(job.attempts, 1);
}

TEST_F(CommandsTest, who_did_not_hear_of_a_cancel_is_asked_again) {
  DeafExecutor& executor = deafen();
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  runs("a");
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  executor.deaf = false;
  EXPECT_EQ(ended(id).status, JobStatus::kCancelled);
}

TEST_F(CommandsTest, a_cancel_is_remembered_after_a_restart) {
  DeafExecutor& executor = deafen();
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  runs("a");
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  queue_->stop();
  executor.deaf = false;
  reopen();
  EXPECT_EQ(queue_->get(id)->status, JobStatus::kRunning);
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kCancelled);
  EXPECT_EQ(job.epoch, 1) << "it was not begun again";
}

TEST_F(CommandsTest, a_cancelled_command_that_was_lost_is_not_tried_again) {
  deafen();
  queue_->start();
  const JobId id = submit(spec_of(gated("a")));
  runs("a");
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  queue_->stop();
  executor_ = make_local_executor(clock_);  // The old one dies with its process.
  reopen();
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kCancelled);
  EXPECT_EQ(job.epoch, 1);
}

TEST_F(CommandsTest, a_job_cannot_say_which_devices_it_has_nor_which_job_it_is) {
  Job job;
  job.id = JobId("one");
  job.spec = spec_of("exit 0");
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "FALAJ_JOB"}) {
    job.spec.payload["env"][name] = "all";
  }
  const Work work = command_work({}, job, attempt_files(folder_.path(), {job.id, 1}), 0b101);
  const std::multimap<std::string, std::string> env(work.env.begin(), work.env.end());
  for (const auto& [name, text] :
       {std::pair("CUDA_VISIBLE_DEVICES", "0,2"), std::pair("NVIDIA_VISIBLE_DEVICES", "0,2"),
        std::pair("FALAJ_JOB", "one")}) {
    ASSERT_EQ(env.count(name), 1u) << name;
    EXPECT_EQ(env.find(name)->second, text);
  }
}

TEST_F(CommandsTest, a_job_may_open_the_devices_that_it_was_given) {
  Job job;
  job.id = JobId("one");
  job.spec = spec_of("exit 0");
  CommandOptions options;
  options.device_folder = "/nodes";
  const AttemptFiles files = attempt_files(folder_.path(), {job.id, 1});
  const auto opens = [&](std::uint16_t gpus, const std::string& path) {
    const Work work = command_work(options, job, files, gpus);
    const std::vector<std::string>& all = work.sandbox.read_write;
    return std::find(all.begin(), all.end(), path) != all.end();
  };
  EXPECT_TRUE(opens(0b101, "/nodes/nvidia0"));
  EXPECT_FALSE(opens(0b101, "/nodes/nvidia1"));
  EXPECT_TRUE(opens(0b101, "/nodes/nvidia2"));
  EXPECT_TRUE(opens(0b101, "/nodes/nvidiactl"));
  EXPECT_FALSE(opens(0, "/nodes/nvidiactl")) << "without a GPU there is nothing to control";
}

TEST_F(CommandsTest, what_nobody_asked_for_is_stopped_and_forgotten) {
  Work work;
  work.argv = {"/bin/sh", "-c", "exec sleep 1000"};
  work.work_dir = folder_.path();
  work.log_path = folder_ / "stale.log";
  work.limits.grace = Duration::milliseconds(100);
  ASSERT_TRUE(executor_->start({JobId("unknown"), 3}, work).ok());
  queue_->start();
  const JobId id = submit(spec_of("exit 0"));
  ended(id);
  for (int i = 0; i < 3000 && !executor_->list()->empty(); ++i) {
    const JobId next = submit(spec_of("exit 0"));
    ended(next);
  }
  EXPECT_TRUE(executor_->list()->empty());
}

TEST_F(CommandsTest, a_log_can_be_read_on_from_where_one_was) {
  queue_->start();
  const JobId id = submit(spec_of("echo one; echo two; " + gated("a") + "; echo three"));
  runs("a");
  LogPart part = *queue_->log_from(id, 0, 0);
  for (int i = 0; i < 3000 && part.text != "one\ntwo\n"; ++i) {
    (void)queue_->wait(id, Duration::milliseconds(10));  // What it printed is on its way.
    part = *queue_->log_from(id, 0, 0);
  }
  EXPECT_EQ(part.text, "one\ntwo\n");
  EXPECT_EQ(part.attempt, 1);
  EXPECT_EQ(queue_->log_from(id, 1, part.next)->text, "");
  go("a");
  ended(id);
  part = *queue_->log_from(id, 1, part.next);
  EXPECT_EQ(part.text, "three\n");
  EXPECT_EQ(part.status, JobStatus::kSucceeded);
  EXPECT_EQ(queue_->log_from(id, 1, part.next)->text, "");
  EXPECT_EQ(queue_->log_from(id, 0, 0)->text, "one\ntwo\nthree\n") << "from the beginning";
  EXPECT_EQ(queue_->log_from(JobId("none"), 0, 0).error().code, Code::kNotFound);
}

TEST(Events, cannot_follow_in_any_order) {
  const auto event = [](std::int64_t sequence, EventKind kind, int attempt) {
    Event out;
    out.sequence = sequence;
    out.kind = kind;
    out.attempt = attempt;
    out.detail["attempts"] = attempt;
    out.detail["status"] = "succeeded";
    return out;
  };
  const Event submitted = event(1, EventKind::kSubmitted, 0);
  const Event admitted = event(2, EventKind::kAdmitted, 1);
  EXPECT_EQ(fold({submitted, admitted})->status, JobStatus::kRunning);
  EXPECT_FALSE(fold({submitted, admitted, event(3, EventKind::kAdmitted, 2)}).ok())
      << "it runs already";
  EXPECT_FALSE(fold({submitted, event(3, EventKind::kAdmitted, 1)}).ok()) << "one is missing";
  EXPECT_FALSE(fold({submitted, event(2, EventKind::kAdmitted, 2)}).ok()) << "not its number";
  EXPECT_FALSE(fold({submitted, admitted, event(3, EventKind::kRequeued, 1),
                     event(4, EventKind::kAdmitted, 1)})
                   .ok())
      << "an attempt's number is never used again";
  EXPECT_FALSE(
      fold({submitted, admitted, event(3, EventKind::kEnded, 1), event(4, EventKind::kEnded, 1)})
          .ok())
      << "it has ended";
}

// The order by what queues have used, over a restart: the ledger is made anew from the events.
TEST_F(CommandsTest, what_a_queue_has_used_is_remembered_by_the_next_server) {
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    for (const char* name : {"greedy", "modest"}) {
                      storage::Object queue;
                      queue.kind = "Queue";
                      queue.project = "payments";
                      queue.name = name;
                      queue.spec = Value::object();
                      FALAJ_TRY(storage::put_object(tx, queue, clock_.now()));
                    }
                    storage::Object policy;
                    policy.kind = "SchedulingPolicy";
                    policy.name = "default";
                    policy.spec["order"]["share"] = 1000;
                    FALAJ_TRY(storage::put_object(tx, policy, clock_.now()));
                    return {};
                  })
                  .ok());
  const auto in_queue = [&](const std::string& queue, const std::string& script) {
    JobSpec spec = spec_of(script);
    spec.request.queue = queue;
    spec.request.resources.cpu_milli = 2000;
    return spec;
  };
  queue_->start();
  const JobId past = submit(in_queue("greedy", gated("past")));
  runs("past");
  clock_.advance(Duration::minutes(2));
  go("past");
  EXPECT_EQ(ended(past).status, JobStatus::kSucceeded);
  reopen();
  const JobId first = submit(in_queue("greedy", gated("first")));
  const JobId second = submit(in_queue("modest", gated("second")));
  queue_->start();
  EXPECT_EQ(runs("second"), second.str() + "-1");
  EXPECT_EQ(queue_->get(first)->status, JobStatus::kQueued);
  go("second");
  runs("first");
  go("first");
  EXPECT_EQ(ended(first).status, JobStatus::kSucceeded);
}

// The wall clock is set back by a day and then on by two, while a job runs and others come and go.
// Limits of run time are counted by another clock.
TEST_F(CommandsTest, a_clock_that_jumps_ends_nobody_and_holds_nobody_up) {
  queue_->start();
  const JobId runs_on = submit(spec_of(gated("a")));
  EXPECT_EQ(runs("a"), runs_on.str() + "-1");
  const JobId before = submit(spec_of("true"));
  EXPECT_EQ(ended(before).status, JobStatus::kSucceeded);
  clock_.advance(Duration{} - Duration::days(1));
  EXPECT_EQ(ended(submit(spec_of("true"))).status, JobStatus::kSucceeded);
  EXPECT_EQ(queue_->get(runs_on)->status, JobStatus::kRunning);
  clock_.advance(Duration::days(2));
  EXPECT_EQ(ended(submit(spec_of("true"))).status, JobStatus::kSucceeded);
  EXPECT_EQ(queue_->get(runs_on)->status, JobStatus::kRunning);
  clock_.advance(Duration{} - Duration::days(2));
  reopen();
  queue_->start();
  go("a");
  EXPECT_EQ(ended(runs_on).status, JobStatus::kSucceeded);
}

}  // namespace
}  // namespace falaj::jobs
