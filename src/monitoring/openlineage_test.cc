#include "monitoring/openlineage.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "base/json.h"
#include "security/residency/testing/zone_world.h"

namespace falaj::monitoring {
namespace {

using security::AuditEntry;
using security::residency::ZoneWorld;

AuditEntry entry(std::string action, std::string object, std::string_view detail = "{}") {
  AuditEntry out;
  out.sequence = 7;
  out.at = Timestamp::from_seconds(1'780'000'000);
  out.project = "p-ae";
  out.action = std::move(action);
  out.object = std::move(object);
  out.detail = parse_json(detail).value();
  return out;
}

bool is_uuid(const std::string& text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) {
      return false;
    }
  }
  return text[14] == '8' && std::string("89ab").find(text[19]) != std::string::npos;
}

// What the specification requires of every run event and its datasets.
void expect_valid(const Value& event) {
  static const std::set<std::string> kTypes{"START", "COMPLETE", "FAIL", "ABORT"};
  EXPECT_TRUE(kTypes.contains(event.text("eventType"))) << to_json(event);
  EXPECT_TRUE(parse_timestamp(event.text("eventTime")).ok()) << to_json(event);
  EXPECT_TRUE(event.text("producer").starts_with("https://"));
  EXPECT_EQ(event.text("schemaURL"),
            "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent");
  EXPECT_TRUE(is_uuid(event["run"].text("runId"))) << to_json(event);
  EXPECT_FALSE(event["job"].text("namespace").empty());
  EXPECT_FALSE(event["job"].text("name").empty());
  for (const char* side : {"inputs", "outputs"}) {
    for (const Value& dataset : event[side].as_array()) {
      EXPECT_FALSE(dataset.text("namespace").empty());
      EXPECT_FALSE(dataset.text("name").empty());
    }
  }
}

TEST(OpenLineage, a_step_begins_and_ends_as_one_run_with_what_it_read_and_made) {
  const auto events =
      run_events(entry("features.ingest", "FeatureView/p-ae/orders"), {{"Source/payments"}, ""});
  ASSERT_EQ(events.size(), 2u);
  for (const Value& event : events) expect_valid(event);
  EXPECT_EQ(events[0].text("eventType"), "START");
  EXPECT_EQ(events[1].text("eventType"), "COMPLETE");
  EXPECT_EQ(events[0]["run"], events[1]["run"]);
  EXPECT_EQ(events[1]["job"].text("name"), "ingest/orders");
  EXPECT_EQ(to_json(events[1]["inputs"]),
            R"([{"name":"Source/payments","namespace":"falaj://p-ae"}])");
  EXPECT_EQ(to_json(events[1]["outputs"]),
            R"([{"name":"FeatureView/orders","namespace":"falaj://p-ae"}])");
  const auto failed = run_events(entry("features.reject", "FeatureView/p-ae/orders"), {});
  EXPECT_EQ(failed.at(1).text("eventType"), "FAIL");
}

TEST(OpenLineage, a_training_run_has_its_own_beginning_and_end) {
  const auto began =
      run_events(entry("run.create", "Run/p-ae/r1",
                       R"({"experiment":"fraud","inputs":{"training_set":{"name":"set"}}})"),
                 {});
  ASSERT_EQ(began.size(), 1u);
  expect_valid(began[0]);
  EXPECT_EQ(began[0]["inputs"].as_array().at(0).text("name"), "TrainingSet/set");
  for (const auto& [status, type] : {std::pair("finished", "COMPLETE"), std::pair("failed", "FAIL"),
                                     std::pair("stopped", "ABORT")}) {
    const auto ended = run_events(
        entry("run.end", "Run/p-ae/r1", std::string(R"({"status":")") + status + R"("})"),
        {{}, "fraud"});
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0]["job"], began[0]["job"]);
    expect_valid(ended[0]);
    EXPECT_EQ(ended[0].text("eventType"), type);
    EXPECT_EQ(ended[0]["run"], began[0]["run"]);
  }
}

TEST(OpenLineage, freezing_and_registering_are_steps_and_other_entries_are_none) {
  for (const char* action : {"training_set.freeze", "model.register"}) {
    const auto events = run_events(entry(action, "ModelVersion/p-ae/fraud/3"), {});
    ASSERT_EQ(events.size(), 2u) << action;
    for (const Value& event : events) expect_valid(event);
  }
  EXPECT_EQ(run_events(entry("model.register", "ModelVersion/p-ae/fraud/3"), {})
                .at(1)["job"]
                .text("name"),
            "register/fraud");
  EXPECT_TRUE(run_events(entry("object.apply", "FeatureView/p-ae/orders"), {}).empty());
  EXPECT_TRUE(run_events(entry("webhook.deliver", "Webhook/p-ae/ops"), {}).empty());
}

TEST(OpenLineage, what_will_be_refused_again_is_not_what_may_be_taken_later) {
  EXPECT_EQ(answer_of(201), Answer::kTaken);
  for (const int status : {400, 404, 422}) EXPECT_EQ(answer_of(status), Answer::kRefused);
  for (const int status : {302, 408, 429, 500, 503}) EXPECT_EQ(answer_of(status), Answer::kLater);
  EXPECT_EQ(answer_of(Error(Code::kUnavailable, "nobody")), Answer::kLater);
}

class LineageTest : public ::testing::Test {
 protected:
  LineageTest() {
    EXPECT_TRUE(world_.sql
                    ->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               security::residency::kResidencyMigration, kWebhooksMigration,
                               kLineageMigration})
                    .ok());
  }
  void hook(const std::string& zone) {
    storage::Object object;
    object.kind = "Webhook";
    object.project = "p-ae";
    object.name = "lineage";
    object.spec["url"] = "https://lineage.example/api/v1/lineage";
    object.spec["zone"] = zone;
    object.spec["events"] = "openlineage";
    world_.put(object);
    EXPECT_TRUE(webhooks().tick().ok());  // From here on.
  }
  void step(const std::string& action, const std::string& object) {
    const auto context = security::system_context("user:x", ProjectName("p-ae"), Zone("ae"));
    EXPECT_TRUE(world_.audit->record(context, {action, object, Value::object()}).ok());
  }
  Webhooks webhooks() {
    return Webhooks(
        *world_.sql, [](const ProjectName&) { return Result(std::vector<Monitors::Alarm>()); },
        *world_.exits, *world_.audit, world_.clock,
        [this](const std::string&, const std::string& body) -> Result<int> {
          ++asked_;
          if (status_ == 200) sent_.push_back(parse_json(body).value());
          EXPECT_TRUE(is_run_event(body));
          return status_;
        });
  }

  ZoneWorld world_;
  std::vector<Value> sent_;
  int asked_ = 0;
  int status_ = 200;
};

TEST_F(LineageTest, steps_are_sent_in_order_and_not_again_after_a_restart) {
  step("features.ingest", "FeatureView/p-ae/before");
  hook("ae");
  step("features.ingest", "FeatureView/p-ae/orders");
  step("object.apply", "FeatureView/p-ae/orders");
  step("run.create", "Run/p-ae/r1");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(webhooks().tick().ok());
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(sent_[0]["job"].text("name"), "ingest/orders");
  EXPECT_EQ(sent_[2]["job"].text("name"), "train/run");
}

TEST_F(LineageTest, while_the_receiver_is_away_nothing_is_lost_and_the_waits_grow) {
  hook("ae");
  step("features.ingest", "FeatureView/p-ae/orders");
  step("features.ingest", "FeatureView/p-ae/later");
  status_ = 503;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(webhooks().tick().ok());
    ASSERT_TRUE(webhooks().tick().ok()) << "not before its time";
    EXPECT_EQ(asked_, i + 1);
    world_.clock.advance(Duration::seconds(std::int64_t{1} << (i + 1)));
  }
  status_ = 200;
  ASSERT_TRUE(webhooks().tick().ok());
  ASSERT_EQ(sent_.size(), 4u);
  EXPECT_EQ(sent_[0].text("eventType"), "START");
  EXPECT_EQ(sent_[3]["job"].text("name"), "ingest/later");
}

TEST_F(LineageTest, what_the_receiver_refuses_is_written_down_and_passed_over) {
  hook("ae");
  step("run.create", "Run/p-ae/r1");
  status_ = 422;
  ASSERT_TRUE(webhooks().tick().ok());
  EXPECT_EQ(world_.entries("webhook.deliver").size(), 1u);
  status_ = 200;
  step("run.create", "Run/p-ae/r2");
  ASSERT_TRUE(webhooks().tick().ok());
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(LineageTest, nothing_leaves_where_the_zone_does_not_reach) {
  hook("eu");
  step("features.ingest", "FeatureView/p-ae/orders");
  ASSERT_TRUE(webhooks().tick().ok());
  EXPECT_EQ(asked_, 0);
}

TEST_F(LineageTest, a_long_way_back_is_walked_in_pieces) {
  hook("ae");
  for (int i = 0; i < 50; ++i) step("features.ingest", "FeatureView/p-ae/orders");
  ASSERT_TRUE(webhooks().tick().ok());
  EXPECT_EQ(sent_.size(), static_cast<std::size_t>(LineageOutbox::kEventsPerCall));
  ASSERT_TRUE(webhooks().tick().ok());
  EXPECT_EQ(sent_.size(), 100u);
}

}  // namespace
}  // namespace falaj::monitoring
