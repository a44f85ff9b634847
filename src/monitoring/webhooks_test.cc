#include "monitoring/webhooks.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "security/residency/testing/zone_world.h"

namespace falaj::monitoring {
namespace {

using security::residency::ZoneWorld;

class WebhooksTest : public ::testing::Test {
 protected:
  WebhooksTest() {
    EXPECT_TRUE(world_.sql
                    ->migrate({storage::kObjectsMigration, security::kAuditMigration,
                               security::residency::kResidencyMigration, kWebhooksMigration})
                    .ok());
  }

  static storage::Object hook(const std::string& url, const std::string& zone) {
    storage::Object object;
    object.kind = "Webhook";
    object.project = "p-ae";
    object.name = "ops";
    object.spec["url"] = url;
    object.spec["zone"] = zone;
    return object;
  }
  void alarm(std::int64_t id) {
    Monitors::Alarm made;
    made.id = id;
    made.project = "p-ae";
    made.monitor = "fraud";
    alarms_.insert(alarms_.begin(), made);  // Newest first.
  }
  Webhooks webhooks() {
    return Webhooks(
        *world_.sql, [this](const ProjectName&) { return Result(alarms_); }, *world_.exits,
        *world_.audit, world_.clock,
        [this](const std::string& url, const std::string& body) -> Result<int> {
          sent_.push_back(url + " " + body);
          return status_;
        });
  }

  ZoneWorld world_;
  std::vector<Monitors::Alarm> alarms_;
  std::vector<std::string> sent_;
  int status_ = 200;
};

TEST_F(WebhooksTest, each_alarm_is_sent_once_oldest_first) {
  world_.put(hook("https://ops.example/hook", "ae"));
  alarm(1);
  alarm(2);
  Webhooks hooks = webhooks();
  ASSERT_TRUE(hooks.tick().ok());
  ASSERT_TRUE(hooks.tick().ok());
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_NE(sent_[0].find(R"("id":"p-ae/1")"), std::string::npos);
  EXPECT_NE(sent_[1].find(R"("id":"p-ae/2")"), std::string::npos);
  EXPECT_EQ(world_.entries("webhook.deliver").size(), 2u);
}

TEST_F(WebhooksTest, nothing_is_sent_where_the_zone_does_not_reach) {
  world_.put(hook("https://ops.example/hook", "eu"));
  alarm(1);
  Webhooks hooks = webhooks();
  ASSERT_TRUE(hooks.tick().ok());
  ASSERT_TRUE(hooks.tick().ok());
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(world_.entries("residency.refuse").size(), 1u);
  ASSERT_EQ(world_.entries("webhook.deliver").size(), 1u);
  EXPECT_EQ(world_.entries("webhook.deliver")[0].detail.text("state"), "refused");
}

TEST_F(WebhooksTest, a_failing_receiver_is_tried_again_ever_later_and_given_up) {
  world_.put(hook("https://ops.example/hook", "ae"));
  alarm(1);
  status_ = 503;
  Webhooks hooks = webhooks();
  ASSERT_TRUE(hooks.tick().ok());
  ASSERT_TRUE(hooks.tick().ok());
  EXPECT_EQ(sent_.size(), 1u);  // Not before its time.
  for (int i = 0; i < 20; ++i) {
    world_.clock.advance(Duration::hours(1));
    ASSERT_TRUE(hooks.tick().ok());
  }
  EXPECT_EQ(sent_.size(), static_cast<std::size_t>(Webhooks::kAttemptsMax));
  EXPECT_EQ(world_.entries("webhook.deliver")[0].detail.text("state"), "failed");
}

TEST_F(WebhooksTest, only_plain_https_addresses_can_be_declared) {
  EXPECT_TRUE(decode_webhook(hook("https://ops.example:8443/a/b?c=d", "ae")).ok());
  for (const char* url : {"http://ops.example/",
                          "https://",
                          "https://user@ops.example/",
                          "https://ops.example/#x",
                          "https://ops.example\\@evil/",
                          "https://[::1]/",
                          "https://OPS.example/",
                          "ftp://x/",
                          "https://ops.example:/",
                          "https://ops.example:99999999/",
                          "https://ops.example/a b",
                          "file:///etc/passwd",
                          "https://%6cocalhost/",
                          "https://127.0.0.1/",
                          "https://2130706433/",
                          "https://0x7f000001/",
                          "https://169.254.169.254/latest",
                          "https://localhost/",
                          "https://a.localhost/",
                          "https://ops.example./"}) {
    EXPECT_FALSE(decode_webhook(hook(url, "ae")).ok()) << url;
  }
}

}  // namespace
}  // namespace falaj::monitoring
