#include "jobs/decision_record.h"

#include <gtest/gtest.h>

#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

using testing::kGi;

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

Scene two_of_three_start() {
  Scene scene;
  scene.machine = {2000, 4 * kGi, 0, 1};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Candidate job;
    job.id = JobId("job" + std::to_string(i));
    job.sequence = i;
    job.project = "pay";
    job.request.resources = {1000, kGi, 0};
    job.queued_at = kNow - Duration::minutes(10);
    scene.jobs.push_back(job);
  }
  return scene;
}

TEST(DecisionRecord, is_made_when_somebody_starts_and_gives_the_same_decision_again) {
  Scene scene = two_of_three_start();
  EXPECT_EQ(judge(scene, kNow).record, nullptr) << "nobody asked for it";
  const Verdict verdict = judge(scene, kNow, Telling::kRecorded);
  ASSERT_NE(verdict.record, nullptr);
  const DecisionRecord::Packed& packed = verdict.record->packed();
  const auto again = replay_decision(packed.body, packed.detail);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->integer("admitted"), 2);
  EXPECT_EQ(again->integer("held"), 1);
  EXPECT_LT(packed.body.size(), 4096u);
  scene.jobs.resize(1);
  scene.jobs[0].unmet = 1;
  EXPECT_EQ(judge(scene, kNow, Telling::kRecorded).record, nullptr) << "nothing came of it";
}

TEST(DecisionRecord, what_was_changed_since_is_not_confirmed) {
  const Verdict verdict = judge(two_of_three_start(), kNow, Telling::kRecorded);
  const DecisionRecord::Packed& packed = verdict.record->packed();
  for (const char* digest : {"id", "snapshot", "policy", "decisions"}) {
    Value detail = packed.detail;
    detail[digest] = sha256_hex("another");
    const auto again = replay_decision(packed.body, detail);
    ASSERT_FALSE(again.ok()) << digest;
    EXPECT_EQ(again.error().code, Code::kDataLoss) << digest;
  }
  const Verdict later =
      judge(two_of_three_start(), kNow + Duration::seconds(1), Telling::kRecorded);
  EXPECT_FALSE(replay_decision(later.record->packed().body, packed.detail).ok());
  EXPECT_FALSE(replay_decision(packed.body.substr(0, 40), packed.detail).ok());
  EXPECT_FALSE(replay_decision("", packed.detail).ok());
}

class Decided : public testing::CommandsWorld {
 protected:
  std::vector<security::AuditEntry> entries() {
    security::AuditQuery query;
    query.action = "scheduler.decide";
    return *audit_.list(query);
  }
};

TEST_F(Decided, every_start_names_its_decision_and_the_log_replays_it) {
  queue_->start();
  const JobId id = submit(spec_of("true"));
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  std::string decision;
  for (const Event& event : *queue_->events(id)) {
    if (event.kind == EventKind::kAdmitted) decision = event.detail.text("decision");
  }
  const auto found = entries();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].detail.text("id"), decision);
  EXPECT_EQ(found[0].object, "Decision/" + decision);
  const auto again = queue_->replay_decision(found[0]);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->integer("admitted"), 1);
  security::AuditEntry other = found[0];
  other.action = "job.end";
  EXPECT_EQ(queue_->replay_decision(other).error().id, ErrorId::kOutOfRange);
  ASSERT_TRUE(sql_->write([](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("UPDATE job_decisions SET body = substr(body, 2)"));
                    return {};
                  })
                  .ok());
  EXPECT_FALSE(queue_->replay_decision(found[0]).ok());
}

TEST_F(Decided, who_must_leave_is_written_down_before_it_is_told) {
  storage::Object queue;
  queue.kind = "Queue";
  queue.project = "payments";
  queue.name = "own";
  queue.spec["quota"]["cpu"]["nominal"] = 2;
  ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(storage::put_object(tx, queue, clock_.now()));
                    return {};
                  })
                  .ok());
  queue_->start();
  JobSpec guest = spec_of(gated("guest"));
  guest.request.resources.cpu_milli = 2000;
  const JobId pushed = submit(guest);
  EXPECT_EQ(runs("guest"), pushed.str() + "-1");
  clock_.advance(Duration::hours(1));
  JobSpec owner = spec_of("true");
  owner.request.queue = "own";
  owner.request.resources.cpu_milli = 2000;
  EXPECT_EQ(ended(submit(owner)).status, JobStatus::kSucceeded);
  bool told = false;
  for (const security::AuditEntry& entry : entries()) {
    if (entry.detail.integer("preempted") == 0) continue;
    told = true;
    EXPECT_EQ(entry.detail["leaving"].as_array().front().as_string(), pushed.str());
    EXPECT_TRUE(queue_->replay_decision(entry).ok());
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(runs("guest"), pushed.str() + "-2");
  go("guest");
  EXPECT_EQ(ended(pushed).status, JobStatus::kSucceeded);
}

// A class counts what it stood for when the job was submitted.
TEST_F(Decided, a_named_priority_is_the_policys_number) {
  const auto declare = [&](std::int64_t urgent) {
    storage::Object policy;
    policy.kind = "SchedulingPolicy";
    policy.name = "default";
    policy.spec["priorities"]["urgent"] = urgent;
    return sql_->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, policy, clock_.now()));
      return {};
    });
  };
  JobSpec named = spec_of("true");
  named.request.priority_class = "urgent";
  EXPECT_EQ(queue_->submit(context_, named).error().id, ErrorId::kObjectNotFound);
  ASSERT_TRUE(declare(500).ok());
  const JobId first = submit(named);
  ASSERT_TRUE(declare(700).ok());
  const JobId second = submit(named);
  EXPECT_EQ(queue_->get(first)->spec.request.priority, 500);
  EXPECT_EQ(queue_->get(second)->spec.request.priority, 700);
  EXPECT_EQ(queue_->get(second)->spec.request.priority_class, "urgent");
  named.request.priority_class = "urgnt";
  const auto refused = queue_->submit(context_, named);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("did you mean urgent?"), std::string::npos);
}

TEST_F(Decided, what_is_kept_stays_within_its_bounds) {
  options_.decisions_bytes_max = 2000;
  reopen();
  queue_->start();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(ended(submit(spec_of("true"))).status, JobStatus::kSucceeded);
  }
  const auto rows =
      storage::query(*sql_, "SELECT SUM(length(CAST(body AS BLOB))) FROM job_decisions");
  EXPECT_GT(rows->at(0).integer(0), 0);
  EXPECT_LE(rows->at(0).integer(0), 2000);
  const auto found = entries();
  ASSERT_EQ(found.size(), 12u) << "the log keeps them all";
  EXPECT_TRUE(queue_->replay_decision(found.front()).ok());
  EXPECT_EQ(queue_->replay_decision(found.back()).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace falaj::jobs
