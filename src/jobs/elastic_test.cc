// Jobs with workers: as many as there is room for, fewer for others, more when there is room again.
#include <bit>

#include "jobs/admission.h"
#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

using testing::kGi;

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

Workers workers(std::int64_t least, std::int64_t most, std::int64_t gpus = 0) {
  return {{1000, kGi / 8, gpus}, least, most};
}

Candidate elastic(std::uint64_t sequence, Workers wanted) {
  Candidate out;
  out.id = JobId("elastic" + std::to_string(sequence));
  out.sequence = sequence;
  out.project = "pay";
  out.request.workers = wanted;
  give_workers(out.request, wanted.min);
  out.queued_at = kNow - Duration::hours(1);
  out.run_max = Duration::hours(1);
  return out;
}

Candidate rigid(std::uint64_t sequence, std::int64_t cpu_milli) {
  Candidate out = elastic(sequence, workers(1, 1));
  out.id = JobId("rigid" + std::to_string(sequence));
  out.request.workers.reset();
  out.request.resources.cpu_milli = cpu_milli;
  return out;
}

Candidate running(Candidate job, std::int64_t count, Duration since, std::uint16_t gpus = 0) {
  job.stage = Stage::kRunning;
  job.started_at = kNow - since;
  job.workers = count;
  job.gpus = gpus;
  give_workers(job.request, count);
  return job;
}

Verdict judged(std::vector<Candidate> jobs, unsigned gpus = 0) {
  Scene scene;
  scene.machine = {4000, 4 * kGi, gpus, 1};
  scene.jobs = std::move(jobs);
  return judge(scene, kNow);
}

QueueSpec small_queue(std::int64_t cpu_milli) {
  QueueSpec queue;
  queue.project = "pay";
  queue.name = "small";
  queue.cpu = {cpu_milli, 0, kNoLimit};
  return queue;
}

TEST(Elastic, starts_with_as_many_workers_as_there_is_room_for) {
  const Verdict alone = judged({elastic(1, workers(1, 3))});
  ASSERT_EQ(alone.admit.size(), 1u);
  EXPECT_EQ(alone.admit[0].workers, 3);
  EXPECT_TRUE(alone.resize.empty());
  const Verdict beside =
      judged({running(rigid(1, 2000), 1, Duration::minutes(1)), elastic(2, workers(1, 3))});
  ASSERT_EQ(beside.admit.size(), 1u);
  EXPECT_EQ(beside.admit[0].workers, 2);
  const Verdict full =
      judged({running(rigid(1, 3000), 1, Duration::minutes(1)), elastic(2, workers(2, 3))});
  EXPECT_TRUE(full.admit.empty()) << "never fewer than the least";
}

// What is replayed is what was started: with so many workers, not with the least.
TEST(Elastic, a_replay_of_the_decision_gives_as_many_workers) {
  Scene scene;
  scene.machine = {7000, 4 * kGi, 0, 1};
  scene.jobs = {running(elastic(1, workers(1, 2)), 1, Duration::hours(1)),
                elastic(2, workers(1, 3)), elastic(3, workers(2, 4)), rigid(4, 1000)};
  const Verdict verdict = judge(scene, kNow, Telling::kRecorded);
  ASSERT_EQ(verdict.admit.size(), 3u);
  ASSERT_NE(verdict.record, nullptr);
  const DecisionRecord::Packed& packed = verdict.record->packed();
  const auto again = replay_decision(packed.body, packed.detail);
  ASSERT_TRUE(again.ok()) << again.error().message;
  const auto same = [&](const std::vector<Verdict::Place>& places, const Value& told) {
    ASSERT_EQ(told.as_array().size(), places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Value& one = told.as_array()[i];
      EXPECT_EQ(one.integer("number"), std::int64_t(scene.jobs[places[i].job].sequence));
      EXPECT_EQ(one.integer("workers"), places[i].workers);
    }
  };
  same(verdict.admit, (*again)["started"]);
  same(verdict.resize, (*again)["resized"]);
  std::int64_t given = 0;
  for (const auto* places : {&verdict.admit, &verdict.resize}) {
    for (const Verdict::Place& place : *places) given += place.workers;
  }
  EXPECT_EQ(given, 7) << "all that there is, in one decision";
}

TEST(Elastic, two_that_start_together_share_what_is_there) {
  const Verdict both = judged({elastic(1, workers(1, 4)), elastic(2, workers(1, 4))});
  ASSERT_EQ(both.admit.size(), 2u);
  EXPECT_EQ(both.admit[0].workers + both.admit[1].workers, 4);
}

TEST(Elastic, who_grows_and_who_starts_are_not_given_the_same) {
  const Verdict verdict = judged(
      {running(elastic(1, workers(1, 4)), 1, Duration::hours(1)), elastic(2, workers(1, 4))});
  ASSERT_EQ(verdict.admit.size(), 1u);
  const std::int64_t grown = verdict.resize.empty() ? 1 : verdict.resize[0].workers;
  EXPECT_EQ(verdict.admit[0].workers + grown, 4);
}

TEST(Elastic, gives_up_workers_for_who_could_not_start_otherwise) {
  const Verdict verdict =
      judged({running(elastic(1, workers(1, 4)), 4, Duration::minutes(1)), rigid(2, 2000)});
  EXPECT_TRUE(verdict.preempt.empty());
  ASSERT_EQ(verdict.resize.size(), 1u);
  EXPECT_EQ(verdict.resize[0].job, 0u);
  EXPECT_EQ(verdict.resize[0].workers, 2);
  ASSERT_EQ(verdict.claim.size(), 1u);
  EXPECT_EQ(verdict.claim[0].job, 1u);
}

TEST(Elastic, gives_up_quota_too) {
  Scene scene;
  scene.machine = {8000, 8 * kGi, 0, 1};
  scene.queues = {small_queue(2000)};
  scene.policy.policy.preemption.min_run = {};
  scene.jobs = {running(elastic(1, workers(1, 2)), 2, Duration::minutes(1)), rigid(2, 1000)};
  for (Candidate& job : scene.jobs) job.request.queue = "small";
  const Verdict verdict = judge(scene, kNow);
  EXPECT_TRUE(verdict.preempt.empty());
  ASSERT_EQ(verdict.resize.size(), 1u);
  EXPECT_EQ(verdict.resize[0].workers, 1);
}

TEST(Elastic, grows_only_after_the_least_time_between_preemptions) {
  EXPECT_TRUE(judged({running(elastic(1, workers(1, 3)), 1, Duration::minutes(9))}).resize.empty());
  const Verdict verdict = judged({running(elastic(1, workers(1, 3)), 1, Duration::minutes(11))});
  ASSERT_EQ(verdict.resize.size(), 1u);
  EXPECT_EQ(verdict.resize[0].workers, 3);
}

TEST(Elastic, every_worker_has_devices_of_its_own) {
  const Verdict verdict =
      judged({running(rigid(1, 1000), 1, Duration::minutes(1)), elastic(2, workers(1, 3, 2))}, 5);
  ASSERT_EQ(verdict.admit.size(), 1u);
  EXPECT_EQ(verdict.admit[0].workers, 2);
  EXPECT_EQ(std::popcount(verdict.admit[0].gpus), 4);
  const Verdict next =
      judged({running(elastic(1, workers(1, 3, 2)), 2, Duration::minutes(20), 0b01111),
              elastic(2, workers(1, 1, 1))},
             5);
  ASSERT_EQ(next.admit.size(), 1u);
  EXPECT_EQ(next.admit[0].gpus, 0b10000);
}

TEST(Elastic, is_possible_when_its_least_is) {
  Scene scene;
  scene.machine = {4000, 4 * kGi, 0, 1};
  scene.queues = {small_queue(1000)};
  Candidate job = elastic(1, workers(1, 4));
  job.request.queue = "small";
  EXPECT_TRUE(check_possible(scene, job).ok());
  scene.jobs = {job};
  const Verdict verdict = judge(scene, kNow);
  ASSERT_EQ(verdict.admit.size(), 1u);
  EXPECT_EQ(verdict.admit[0].workers, 1) << "its queue has no more";
  job.request.workers->min = 2;
  give_workers(job.request, 2);
  EXPECT_EQ(check_possible(scene, job).error().id, ErrorId::kOutOfRange);
}

TEST(Elastic, what_it_asks_for_survives_the_store) {
  Request request = elastic(1, workers(2, 5, 1)).request;
  give_workers(request, 3);
  const Request read = request_from_stored(to_value(request));
  EXPECT_EQ(read.workers, request.workers);
  EXPECT_EQ(read.resources.cpu_milli, 3000);
  EXPECT_EQ(read.resources.gpus, 3);
}

// A chief of two processors and two parameter servers beside one to three workers.
Candidate grouped(std::uint64_t sequence) {
  Candidate out = elastic(sequence, workers(1, 3));
  out.request.workers->group = "worker";
  out.request.groups = {{"chief", {2000, kGi / 8, 0}, 1}, {"ps", {500, kGi / 8, 0}, 2}};
  give_workers(out.request, 1);
  return out;
}

Verdict judged_on(std::int64_t cpu_milli, std::vector<Candidate> jobs) {
  Scene scene;
  scene.machine = {cpu_milli, 8 * kGi, 0, 1};
  scene.jobs = std::move(jobs);
  return judge(scene, kNow);
}

TEST(Groups, start_together_or_not_at_all) {
  EXPECT_EQ(grouped(1).request.resources.cpu_milli, 4000);
  const Verdict all = judged_on(8000, {grouped(1)});
  ASSERT_EQ(all.admit.size(), 1u);
  EXPECT_EQ(all.admit[0].workers, 3);
  const Verdict least = judged_on(5000, {grouped(1)});
  ASSERT_EQ(least.admit.size(), 1u);
  EXPECT_EQ(least.admit[0].workers, 2) << "what the others leave";
  const Verdict none =
      judged_on(4000, {running(rigid(1, 500), 1, Duration::minutes(1)), grouped(2)});
  EXPECT_TRUE(none.admit.empty());
  ASSERT_EQ(none.hold.size(), 1u);
  EXPECT_NE(none.hold[0].second.text.find("0.500 cpu more must be free"), std::string::npos)
      << none.hold[0].second.text;
}

TEST(Groups, are_refused_when_all_of_them_are_more_than_there_is) {
  Scene scene;
  scene.machine = {3000, 8 * kGi, 0, 1};
  const Status status = check_possible(scene, grouped(1));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().id, ErrorId::kOutOfRange);
  EXPECT_NE(status.error().message.find("asks for 4 cpu"), std::string::npos)
      << status.error().message;
  scene.machine.cpu_milli = 4000;
  EXPECT_TRUE(check_possible(scene, grouped(1)).ok());
}

TEST(Groups, give_up_workers_alone) {
  const Verdict verdict =
      judged_on(6000, {running(grouped(1), 3, Duration::minutes(1)), rigid(2, 2000)});
  EXPECT_TRUE(verdict.preempt.empty());
  ASSERT_EQ(verdict.resize.size(), 1u);
  EXPECT_EQ(verdict.resize[0].workers, 1);
  const Verdict kept =
      judged_on(6000, {running(grouped(1), 3, Duration::minutes(1)), rigid(2, 3000)});
  EXPECT_TRUE(kept.resize.empty()) << "without the others it would be nothing";
  EXPECT_TRUE(kept.claim.empty());
}

TEST(Groups, have_devices_of_their_own) {
  Candidate job = grouped(1);
  job.request.workers->each.gpus = 1;
  job.request.groups[0].each.gpus = 2;
  give_workers(job.request, 1);
  EXPECT_EQ(job.request.resources.gpus, 3);
  Scene scene;
  scene.machine = {8000, 8 * kGi, 4, 1};
  scene.jobs = {job};
  const Verdict verdict = judge(scene, kNow);
  ASSERT_EQ(verdict.admit.size(), 1u);
  EXPECT_EQ(verdict.admit[0].workers, 2);
  EXPECT_EQ(std::popcount(verdict.admit[0].gpus), 4);
  scene.jobs = {running(job, 1, Duration::minutes(1), 0b0111), elastic(2, workers(1, 1, 1))};
  const Verdict next = judge(scene, kNow);
  ASSERT_EQ(next.admit.size(), 1u);
  EXPECT_EQ(next.admit[0].gpus, 0b1000);
}

TEST(Groups, survive_the_store_and_are_told) {
  const Request request = grouped(1).request;
  const Request read = request_from_stored(to_value(request));
  EXPECT_EQ(read.groups, request.groups);
  EXPECT_EQ(read.workers, request.workers);
  EXPECT_EQ(workers_text(read, 2), "2 worker, 1 chief, 2 ps");
  EXPECT_EQ(workers_text(elastic(1, workers(1, 3)).request, 2), "2 workers");
}

TEST(Groups, of_other_sizes_are_other_shapes) {
  Candidate larger = grouped(2);
  larger.request.groups[1].count = 3;
  give_workers(larger.request, 1);
  const Verdict verdict = judged_on(8000, {grouped(1), larger});
  ASSERT_EQ(verdict.admit.size(), 1u);
  EXPECT_EQ(verdict.admit[0].job, 0u);
}

class ElasticQueue : public testing::CommandsWorld {
 protected:
  JobSpec elastic_spec(const std::string& script) {
    JobSpec spec = spec_of(script);
    spec.request.workers = workers(1, 2);
    give_workers(spec.request, 1);
    return spec;
  }
  // How many workers each attempt was admitted with.
  std::vector<std::int64_t> admitted(const JobId& id) {
    std::vector<std::int64_t> out;
    for (const Event& event : *queue_->events(id)) {
      if (event.kind == EventKind::kAdmitted) out.push_back(event.detail.integer("workers"));
    }
    return out;
  }
  // The log's decisions, made again, start it with as many.
  void expect_replays(const JobId& id) {
    security::AuditQuery query;
    query.action = "scheduler.decide";
    std::map<std::string, security::AuditEntry> decisions;
    for (const auto& entry : *audit_.list(query)) decisions[entry.detail.text("id")] = entry;
    for (const Event& event : *queue_->events(id)) {
      if (event.kind != EventKind::kAdmitted) continue;
      const auto again = queue_->replay_decision(decisions[event.detail.text("decision")]);
      ASSERT_TRUE(again.ok()) << again.error().message;
      std::int64_t workers = 0;
      for (const Value& one : (*again)["started"].as_array()) {
        if (one.integer("number") == event.detail.integer("number")) {
          workers = one.integer("workers");
        }
      }
      EXPECT_EQ(workers, event.detail.integer("workers"));
    }
  }
};

TEST_F(ElasticQueue, starts_with_what_is_free_and_grows_when_there_is_more) {
  queue_->start();
  const JobId other = submit(spec_of(gated("b")));
  runs("b");
  const JobId id = submit(elastic_spec(gated("a")));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  EXPECT_EQ(admitted(id), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(queue_->why(id)->text, "runs as attempt 1 with 1 workers");
  go("b");
  ended(other);
  EXPECT_EQ(queue_->get(id)->epoch, 1) << "not before it has run for a while";
  clock_.advance(Duration::minutes(11));
  EXPECT_EQ(runs("a"), id.str() + "-2");
  EXPECT_EQ(admitted(id), (std::vector<std::int64_t>{1, 2}));
  expect_replays(id);
  EXPECT_EQ(queue_->events(id)->at(2).detail.text("error"), "stopped to go on with 2 workers");
  EXPECT_EQ(queue_->usage(context_.project)->front().request.resources.cpu_milli, 2000);
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
  EXPECT_EQ(ended(id).attempts, 1) << "it lost none";
}

TEST_F(ElasticQueue, says_with_how_many_of_each_group_it_runs) {
  queue_->start();
  JobSpec spec = elastic_spec(gated("a"));
  spec.request.workers->group = "worker";
  spec.request.groups = {{"ps", {500, kGi / 8, 0}, 2}};
  give_workers(spec.request, 1);
  const JobId id = submit(spec);
  runs("a");
  EXPECT_EQ(queue_->why(id)->text, "runs as attempt 1 with 1 worker, 2 ps");
  EXPECT_EQ(queue_->usage(context_.project)->front().request.resources.cpu_milli, 2000);
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
}

TEST_F(ElasticQueue, shrinks_for_another_and_both_run) {
  queue_->start();
  const JobId id = submit(elastic_spec(gated("a")));
  EXPECT_EQ(runs("a"), id.str() + "-1");
  EXPECT_EQ(admitted(id), (std::vector<std::int64_t>{2}));
  const JobId other = submit(spec_of(gated("b")));
  EXPECT_EQ(runs("b"), other.str() + "-1");
  EXPECT_EQ(runs("a"), id.str() + "-2");
  EXPECT_EQ(admitted(id), (std::vector<std::int64_t>{2, 1}));
  go("b");
  ended(other);
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
  EXPECT_EQ(ended(id).attempts, 1);
}

TEST_F(ElasticQueue, a_server_that_comes_back_knows_how_many_run) {
  queue_->start();
  const JobId id = submit(elastic_spec(gated("a")));
  runs("a");
  queue_->stop();
  reopen();
  queue_->start();
  const auto usage = queue_->usage(context_.project);
  ASSERT_EQ(usage->size(), 1u);
  EXPECT_EQ(usage->front().request.resources.cpu_milli, 2000);
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

}  // namespace
}  // namespace falaj::jobs
