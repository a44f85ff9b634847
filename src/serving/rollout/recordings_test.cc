#include "serving/rollout/recordings.h"

#include <gtest/gtest.h>

#include "serving/testing/serving_world.h"

namespace falaj::serving::rollout {
namespace {

using testing::ServingWorld;

EntityKeys customer(std::int64_t id) { return {{"customer_id", features::KeyPart(id)}}; }

class RecordingsTest : public ::testing::Test {
 protected:
  void SetUp() override { declare(R"("record":{"share":"100%","requests":100,"age":"1h"})"); }

  void declare(const std::string& record) {
    world_.apply("Deployment", "fraud",
                 R"({"model":"fraud")" + (record.empty() ? "" : "," + record) + "}");
    storage::Object object;
    ASSERT_TRUE(world_.sql
                    ->read([&](storage::SqlTransaction& tx) -> Status {
                      object = FALAJ_TRY(storage::get_object(tx, "Deployment", "pay", "fraud"));
                      return {};
                    })
                    .ok());
    rule_ = decode_deployment(object).value().record;
  }
  std::shared_ptr<Recorder> recorder(const std::string& zone = "ae") {
    return recordings_.recorder({"pay", "fraud", zone}, rule_);
  }
  void offer(int count) {
    const auto into = recorder();
    for (int i = 0; i < count; ++i) into->offer(std::vector<EntityKeys>{customer(next_++)});
  }
  void tick() {
    const Status ticked = recordings_.tick();
    ASSERT_TRUE(ticked.ok()) << ticked.error().message;
  }
  std::int64_t count() const { return recordings_.count("pay", "fraud").value(); }
  std::vector<BlobId> files(const std::string& zone = "ae") const {
    return world_.blobs->list({ProjectName("pay"), Zone(zone), "Deployment/fraud"}).value();
  }
  // Which customers, oldest first.
  std::vector<std::int64_t> read() {
    std::vector<std::int64_t> ids;
    for (const Recorded& request : recordings_.read("pay", "fraud").value()) {
      const auto& entities = std::get<std::vector<EntityKeys>>(request.asked);
      ids.push_back(std::get<std::int64_t>(entities.at(0).at(0).second));
    }
    return ids;
  }

  ServingWorld world_{{kRecordingsMigration}};
  Recordings recordings_{*world_.sql, *world_.blobs, world_.clock};
  RecordRule rule_;
  std::int64_t next_ = 0;
};

TEST_F(RecordingsTest, keeps_what_was_asked_in_order) {
  offer(3);
  EXPECT_EQ(count(), 0) << "it waits";
  world_.clock.advance(Duration::seconds(5));
  tick();
  EXPECT_EQ(count(), 3);
  offer(1);
  EXPECT_EQ(read(), (std::vector<std::int64_t>{0, 1, 2, 3})) << "what waits is read too";
  const std::vector<Tensor> inputs{{"x", "FP32", {1, 1}, std::string("\0\0\x80\x3f", 4)}};
  recorder()->offer(inputs);
  const auto requests = recordings_.read("pay", "fraud").value();
  const auto& kept = std::get<std::vector<Tensor>>(requests.back().asked);
  EXPECT_EQ(kept.at(0).bytes, inputs[0].bytes);
  EXPECT_EQ(kept.at(0).shape, inputs[0].shape);
}

TEST_F(RecordingsTest, is_bounded_in_number) {
  for (int i = 0; i < 20; ++i) {
    offer(64);
    tick();
    EXPECT_LT(count(), 100 + 64);
  }
  EXPECT_EQ(count(), 128);
  EXPECT_EQ(files().size(), 2U) << "what is not kept is not on disk";
  EXPECT_EQ(read().back(), 20 * 64 - 1) << "the newest stay";
}

TEST_F(RecordingsTest, is_bounded_in_age) {
  offer(64);
  tick();
  world_.clock.advance(Duration::minutes(59));
  tick();
  EXPECT_EQ(count(), 64);
  world_.clock.advance(Duration::minutes(1));
  tick();
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(files().empty());
}

TEST_F(RecordingsTest, draws_the_share_that_is_declared) {
  declare(R"("record":{"share":"10%","requests":10000})");
  for (int i = 0; i < 100; ++i) {
    offer(100);
    recordings_.read("pay", "fraud").value();
  }
  EXPECT_NEAR(static_cast<double>(count()), 1000, 120);  // Four standard deviations.
}

TEST_F(RecordingsTest, leaves_out_what_is_too_large) {
  const std::vector<Tensor> large{{"x", "UINT8", {65537}, std::string(kMirroredBytesMax + 1, 'x')}};
  recorder()->offer(large);
  recorder()->offer(std::vector<EntityKeys>(kMirroredEntitiesMax + 1, customer(1)));
  EXPECT_TRUE(read().empty());
}

TEST_F(RecordingsTest, forgets_when_the_deployment_records_no_more) {
  offer(64);
  tick();
  ASSERT_EQ(files().size(), 1U);
  declare("");
  EXPECT_EQ(recorder(), nullptr);
  tick();
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(count(), 0);
}

TEST_F(RecordingsTest, an_erasure_takes_all_of_the_project) {
  offer(64);
  tick();
  offer(3);
  ASSERT_TRUE(recordings_.erase(ProjectName("other")).ok());
  EXPECT_EQ(count(), 64);
  ASSERT_TRUE(recordings_.erase(ProjectName("pay")).ok());
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(read().empty()) << "what waited is gone too";
}

TEST_F(RecordingsTest, belongs_to_the_zone_of_what_answered) {
  offer(64);
  tick();
  const auto ours = recorder();
  recorder("eu")->offer(std::vector<EntityKeys>{customer(7)});
  EXPECT_EQ(recorder(), ours) << "a candidate of another zone takes nobody's place";
  EXPECT_EQ(read().size(), 65U);
  EXPECT_EQ(files("eu").size(), 1U);
  EXPECT_EQ(files("ae").size(), 1U);
}

TEST_F(RecordingsTest, removes_what_a_crash_left) {
  const storage::Owner owner{ProjectName("pay"), Zone("ae"), "Deployment/fraud"};
  ASSERT_TRUE(world_.blobs->put(owner, "written, and not entered").ok());
  const auto held = recorder();
  tick();
  EXPECT_TRUE(files().empty());
}

TEST_F(RecordingsTest, leaves_no_bytes_that_could_not_be_entered) {
  const auto execute = [this](const char* text) {
    const Status done = world_.sql->write([text](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute(text));
      return {};
    });
    ASSERT_TRUE(done.ok()) << done.error().message;
  };
  execute(
      "CREATE TRIGGER refuse BEFORE INSERT ON recorded_requests"
      " BEGIN SELECT RAISE(ABORT, 'the disk is full'); END");
  const auto held = recorder();
  offer(64);
  EXPECT_FALSE(recordings_.tick().ok());
  EXPECT_TRUE(files().empty());
  execute("DROP TRIGGER refuse");
  offer(64);
  tick();
  EXPECT_EQ(count(), 64);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(RecordingsTest, an_erasure_takes_what_no_row_names) {
  const storage::Owner owner{ProjectName("pay"), Zone("ae"), "Deployment/fraud"};
  const storage::Owner others{ProjectName("other"), Zone("ae"), "Deployment/fraud"};
  world_.apply("Zone", "ae", "{}");
  for (const storage::Owner& each : {owner, others}) {
    ASSERT_TRUE(world_.blobs->put(each, "written, and not entered").ok());
  }
  ASSERT_TRUE(recordings_.erase(ProjectName("pay")).ok());
  EXPECT_TRUE(files().empty()) << "nobody records for it";
  EXPECT_EQ(world_.blobs->list(others)->size(), 1U);
  ASSERT_TRUE(world_.blobs->put(owner, "written, and not entered").ok());
  world_.remove("Deployment", "fraud");
  world_.remove("Zone", "ae");
  ASSERT_TRUE(recordings_.erase(ProjectName("pay")).ok());
  EXPECT_TRUE(files().empty()) << "nor is it declared any more";
}

TEST(RecordedCodec, refuses_what_it_did_not_write) {
  Recorded entities{{5}, std::vector<EntityKeys>{customer(1), {{"name", std::string("x")}}}};
  Recorded tensors{{6}, std::vector<Tensor>{{"x", "FP32", {1, 2}, std::string(8, 'b')}}};
  const std::string bytes = encode_recorded({entities, tensors});
  const auto again = decode_recorded(bytes).value();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].at.nanos, 5);
  EXPECT_EQ(std::get<0>(again[0].asked), std::get<0>(entities.asked));
  EXPECT_EQ(encode_recorded(again), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_recorded(std::string_view(bytes).substr(0, size)).error().id,
              ErrorId::kDataLoss)
        << size;
  }
  EXPECT_FALSE(decode_recorded(bytes + "x").ok());
}

}  // namespace
}  // namespace falaj::serving::rollout
