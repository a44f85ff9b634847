// What beside the contract is true of a real Redis server: sign-in, TLS, its set-up, its death.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "app/redis_rows.h"
#include "redis_server.h"
#include "security/keys/testing/key_world.h"
#include "security/sealed/kv.h"
#include "storage/redis/connection.h"

namespace falaj::storage {
namespace {

const Owner kView{ProjectName("pay"), Zone("ae"), "FeatureView/v"};

class RedisContract : public testing::Test {
 protected:
  app::RedisSettings plain() {
    app::RedisSettings settings;
    settings.url = server_.url();
    settings.zone = "ae";
    return settings;
  }
  app::RedisSettings over_tls() {
    app::RedisSettings settings;
    settings.url = server_.tls_url();
    settings.zone = "ae";
    settings.ca_file = server_.folder() / "ca.pem";
    return settings;
  }
  Result<std::unique_ptr<redis::RedisRows>> open(const app::RedisSettings& settings) {
    return app::open_redis_rows(settings, *world_.tree, server_.folder() / "online");
  }
  std::string refusal(const app::RedisSettings& settings) {
    const auto opened = open(settings);
    EXPECT_FALSE(opened.ok());
    if (opened.ok()) return "";
    EXPECT_EQ(opened.error().id, ErrorId::kOnlineStoreRefused) << opened.error().message;
    return opened.error().message;
  }

  // Tells the server something, as its administrator.
  redis::RespValue tell(std::initializer_list<std::string_view> words) {
    redis::Options options;
    options.name = "test";
    options.prefix = "administrator:";
    options.durability = redis::Options::Durability::kVouchedFor;
    auto link = app::dial_redis(plain()).value()().value();
    auto connection = redis::Connection::open(std::move(link), options).value();
    const auto reply = connection->ask(words);
    EXPECT_TRUE(reply.ok()) << reply.error().message;
    return reply.value_or({});
  }
  std::string secret_file(const std::string& text) {
    const std::string path = server_.folder() / "password";
    std::ofstream(path) << text << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return path;
  }

  // How many of the server's files hold these bytes.
  int files_with(const std::string& bytes) const {
    int found = 0;
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(server_.folder().path())) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path(), std::ios::binary);
      const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      found += all.find(bytes) == std::string::npos ? 0 : 1;
    }
    return found;
  }

  RedisServer server_;
  security::keys::testing::KeyWorld world_;
};

TEST_F(RedisContract, a_server_that_would_lose_rows_is_refused) {
  tell({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_NE(refusal(plain()).find("appendfsync is 'everysec'"), -1ul);
  app::RedisSettings vouched = plain();
  vouched.durability = redis::Options::Durability::kVouchedFor;
  EXPECT_TRUE(open(vouched).ok());
  tell({"CONFIG", "SET", "appendfsync", "always"});
  tell({"CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"});
  EXPECT_NE(refusal(plain()).find("maxmemory-policy is 'allkeys-lru'"), -1ul);
  tell({"CONFIG", "SET", "maxmemory-policy", "noeviction", "appendonly", "no"});
  EXPECT_NE(refusal(plain()).find("appendonly is 'no'"), -1ul);
}

TEST_F(RedisContract, a_user_of_its_own_needs_no_more_than_the_guide_says) {
  tell({"ACL",         "SETUSER", "falaj",         "on",       ">hush hush", "~falaj:*",
        "+hmget",      "+hset",   "+hdel",         "+hgetall", "+unlink",    "+scan",
        "+multi",      "+exec",   "+set",          "+get",     "+select",    "+wait",
        "+config|get", "+info",   "+bgrewriteaof", "+bgsave"});
  app::RedisSettings settings = plain();
  settings.url = "redis://falaj@" + server_.url().substr(8) + "/3";
  EXPECT_NE(refusal(settings).find("storage.redis.password_file"), -1ul);
  settings.password_file = secret_file("wrong");
  EXPECT_NE(refusal(settings).find("WRONGPASS"), -1ul);
  std::filesystem::remove(settings.password_file);
  settings.password_file = secret_file("hush hush");
  auto store = open(settings).value();
  ASSERT_TRUE(store->write(kView, {{"a", "1"}, {"b", "2"}, {"c", std::nullopt}}).ok());
  EXPECT_EQ(store->get(kView, "a").value(), "1");
  EXPECT_TRUE(store->scan(kView, [](auto, auto) { return true; }).ok());
  EXPECT_TRUE(store->purge(kView).ok());
  EXPECT_TRUE(store->clear(kView).ok());
  settings.prefix = "other:";
  EXPECT_NE(refusal(settings).find("NOPERM"), -1ul);
  std::filesystem::permissions(settings.password_file, std::filesystem::perms::all);
  EXPECT_NE(refusal(settings).find("chmod 600"), -1ul);
}

TEST_F(RedisContract, tls_believes_its_authority_and_nobody_else) {
  auto store = open(over_tls());
  ASSERT_TRUE(store.ok()) << store.error().message;
  ASSERT_TRUE((*store)->write(kView, {{"a", "1"}}).ok());
  const TempFolder elsewhere;
  app::RedisSettings stranger = over_tls();
  stranger.ca_file = net::testing::TestAuthority().file_in(elsewhere.path());
  EXPECT_NE(refusal(stranger).find("is not believed"), -1ul);
  stranger.ca_file = "";
  EXPECT_NE(refusal(stranger).find("storage.redis.ca_file"), -1ul) << "not of the system's";
  // TLS to a port that speaks none, and the other way round.
  app::RedisSettings crossed = over_tls();
  crossed.url = "rediss" + server_.url().substr(5);
  crossed.timeout = Duration::seconds(2);
  EXPECT_EQ(open(crossed).error().code, Code::kUnavailable);
  crossed.url = "redis" + server_.tls_url().substr(6);
  EXPECT_EQ(open(crossed).error().code, Code::kUnavailable);
}

TEST_F(RedisContract, tls_shows_a_certificate_to_a_server_that_asks) {
  tell({"CONFIG", "SET", "tls-auth-clients", "yes"});
  EXPECT_FALSE(open(over_tls()).ok());
  app::RedisSettings settings = over_tls();
  settings.cert_file = server_.folder() / "client.pem";
  EXPECT_NE(refusal(settings).find("come together"), -1ul);
  settings.key_file = server_.folder() / "client.key";
  const auto store = open(settings);
  ASSERT_TRUE(store.ok()) << store.error().message;
}

TEST_F(RedisContract, plain_text_stays_on_this_machine) {
  app::RedisSettings settings;
  settings.url = "redis://cache.bank.example:6379/0";
  settings.zone = "ae";
  EXPECT_NE(refusal(settings).find("rediss://"), -1ul);
  settings.url = "";
  EXPECT_NE(refusal(settings).find("storage.redis.url"), -1ul);
}

TEST_F(RedisContract, two_deployments_do_not_share_a_prefix) {
  ASSERT_TRUE(open(plain()).ok());
  ASSERT_TRUE(open(plain()).ok()) << "the same again";
  tell({"SET", "falaj:holder", "somebody else"});
  EXPECT_NE(refusal(plain()).find("another deployment"), -1ul);
  app::RedisSettings settings = plain();
  settings.prefix = "falaj2:";
  EXPECT_TRUE(open(settings).ok());
}

TEST_F(RedisContract, rows_that_were_elsewhere_meanwhile_are_not_taken_for_new) {
  ASSERT_TRUE(open(plain()).value()->write(kView, {{"erased since", "1"}}).ok());
  std::filesystem::create_directory(server_.folder() / "online");
  EXPECT_EQ(open(plain()).value()->get(kView, "erased since").value(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(server_.folder() / "online"));
  ASSERT_TRUE(open(plain()).value()->write(kView, {{"a", "1"}}).ok());
  EXPECT_EQ(open(plain()).value()->get(kView, "a").value(), "1");
}

TEST_F(RedisContract, acknowledged_rows_survive_a_kill_and_calls_recover) {
  auto store = open(plain()).value();
  std::vector<KvWrite> batch;
  for (int i = 0; i < 1'000; ++i) batch.push_back({std::to_string(i), "value"});
  batch.push_back({"gone", std::nullopt});
  ASSERT_TRUE(store->write(kView, batch).ok());
  server_.kill();
  const auto dead = store->get(kView, "1");
  ASSERT_FALSE(dead.ok());
  EXPECT_EQ(dead.error().id, ErrorId::kOnlineStoreUnavailable) << dead.error().message;
  EXPECT_NE(dead.error().message.find(server_.url()), -1ul) << dead.error().message;
  EXPECT_EQ(store->write(kView, {{"x", "1"}}).error().id, ErrorId::kOnlineStoreUnavailable);
  server_.start();
  // The pause after a failure is short: it ends by itself.
  auto back = store->get(kView, "1");
  const std::int64_t limit = monotonic_nanos() + Duration::seconds(30).nanos;
  while (!back.ok() && monotonic_nanos() < limit) back = store->get(kView, "1");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, "value");
  int rows = 0;
  ASSERT_TRUE(store->scan(kView, [&](auto, auto) { return ++rows > 0; }).ok());
  EXPECT_EQ(rows, 1'000);
}

// Seen at any moment, and after a kill, a batch is there as a whole or not at all. It is larger
// than what the server reads at once, so that its commands do not come together by themselves.
TEST_F(RedisContract, a_batch_is_whole_to_readers_and_after_a_kill) {
  const std::string filler(1'000, 'x');
  const auto numbers = [](const KvStore& store) {
    std::set<std::string> seen;
    EXPECT_TRUE(store
                    .scan(kView,
                          [&](std::string_view, std::string_view value) {
                            seen.emplace(value.substr(0, value.find('x')));
                            return true;
                          })
                    .ok());
    return seen;
  };
  for (int round = 0; round < 3; ++round) {
    auto store = open(plain()).value();
    std::atomic<int> acknowledged{-1};
    std::thread writer([&] {
      for (int i = 0;; ++i) {
        const std::string text = std::to_string(i) + filler;
        std::vector<KvWrite> batch{{"gone", std::nullopt}};
        for (int row = 0; row < 1'000; ++row) batch.push_back({std::to_string(row), text});
        if (!store->write(kView, batch).ok()) return;
        acknowledged.store(i);
      }
    });
    while (acknowledged.load() < 10 + round) EXPECT_LE(numbers(*store).size(), 1u) << "torn";
    server_.kill();
    writer.join();
    server_.start();
    const std::set<std::string> seen = numbers(*open(plain()).value());
    ASSERT_EQ(seen.size(), 1u) << "torn";
    EXPECT_GE(std::stoi(*seen.begin()), acknowledged.load());
  }
}

TEST_F(RedisContract, what_was_deleted_is_in_no_file_after_a_purge) {
  auto store = open(plain()).value();
  tell({"CONFIG", "SET", "save", "3600 1000000"});
  ASSERT_TRUE(store->write(kView, {{"a", "CANARY-OF-FATIMA"}, {"b", "CANARY-OF-OMAR"}}).ok());
  tell({"SAVE"});
  ASSERT_TRUE(store->write(kView, {{"a", std::nullopt}}).ok());
  EXPECT_GE(files_with("CANARY-OF-FATIMA"), 2) << "or this proves nothing";
  const Status purged = store->purge(kView);
  ASSERT_TRUE(purged.ok()) << purged.error().message;
  // The files that were replaced are deleted by a thread of the server.
  const std::int64_t limit = monotonic_nanos() + Duration::seconds(10).nanos;
  while (files_with("CANARY-OF-FATIMA") > 0 && monotonic_nanos() < limit) {
  }
  EXPECT_EQ(files_with("CANARY-OF-FATIMA"), 0);
  EXPECT_EQ(store->get(kView, "b").value(), "CANARY-OF-OMAR");
}

TEST_F(RedisContract, sealed_rows_show_nothing_to_the_server) {
  auto store = security::sealed::seal_kv(open(plain()).value(), *world_.tree);
  ASSERT_TRUE(store->write(kView, {{"KEY-OF-FATIMA", "CANARY-OF-FATIMA"}}).ok());
  EXPECT_EQ(store->get(kView, "KEY-OF-FATIMA").value(), "CANARY-OF-FATIMA");
  for (const char* secret : {"KEY-OF-FATIMA", "CANARY-OF-FATIMA", "FeatureView", "pay"}) {
    EXPECT_EQ(files_with(secret), 0) << secret;
  }
  EXPECT_GT(files_with("falaj:rows:"), 0) << "or this proves nothing";
}

TEST_F(RedisContract, a_scan_may_ask_for_rows_while_it_runs_and_end_early) {
  auto store = open(plain()).value();
  std::vector<KvWrite> batch;
  for (int i = 0; i < 20'000; ++i) batch.push_back({std::to_string(i), std::string(100, 'v')});
  ASSERT_TRUE(store->write(kView, batch).ok());
  int seen = 0;
  ASSERT_TRUE(store
                  ->scan(kView,
                         [&](std::string_view key, std::string_view value) {
                           EXPECT_EQ(store->get(kView, key).value(), value);
                           return ++seen < 10;
                         })
                  .ok());
  EXPECT_EQ(seen, 10);
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back(std::to_string(i));
  const auto rows = store->get_many(kView, keys).value();
  EXPECT_EQ(std::count(rows.begin(), rows.end(), std::string(100, 'v')), 20'000);
}

}  // namespace
}  // namespace falaj::storage
