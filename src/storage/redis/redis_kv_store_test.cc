// What the adapter does when the server does not behave; tests/contract has the real one.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "storage/redis/connection.h"
#include "storage/redis/redis.h"

namespace falaj::storage::redis {
namespace {

const Owner kOwner{ProjectName("pay"), Zone("ae"), "FeatureView/v"};
const std::string kSafe =
    "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
    "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n";
const std::string kMine = "+OK\r\n$2\r\nme\r\n";

// A server that answers the next thing it is sent with the next text of its script. An empty text
// is no answer in time; with the script's end it closes.
class FakeServer {
 public:
  Dial dial() {
    return [this]() -> Result<std::unique_ptr<Link>> {
      ++dialled;
      if (!up) return Error(ErrorId::kServerUnreachable, "no server answers at here:1");
      return std::unique_ptr<Link>(std::make_unique<FakeLink>(*this));
    };
  }
  Options options() {
    Options out;
    out.name = "redis://here:1/0";
    out.holder = "me";
    out.now = [this] { return now; };
    return out;
  }
  Result<std::unique_ptr<RedisRows>> open() { return open_redis(dial(), options()); }

  std::deque<std::string> script;
  std::string sent;
  bool up = true;
  int dialled = 0;
  std::int64_t now = 1'000;

 private:
  class FakeLink final : public Link {
   public:
    explicit FakeLink(FakeServer& server) : server_(server) {}
    Status write(std::string_view bytes, std::int64_t) override {
      server_.sent += bytes;
      if (server_.script.empty()) return {};
      answer_ += server_.script.front();
      silent_ = server_.script.front().empty();
      server_.script.pop_front();
      return {};
    }
    Result<std::size_t> read(std::span<char> into, std::int64_t) override {
      if (silent_) return Error(Code::kDeadlineExceeded, "no answer from here:1 in time");
      const std::size_t count = std::min(answer_.size(), std::min(into.size(), std::size_t{5}));
      std::memcpy(into.data(), answer_.data(), count);
      answer_.erase(0, count);
      return count;
    }
    bool is_stale() const override { return false; }

   private:
    FakeServer& server_;
    std::string answer_;
    bool silent_ = false;
  };
};

TEST(RedisKvStore, looks_at_the_server_before_it_trusts_it) {
  const ServerSettings good{"yes", "always", "0", "noeviction"};
  EXPECT_TRUE(check_durable(good).ok());
  EXPECT_TRUE(check_durable({"yes", "always", "100", "volatile-lru"}).ok());
  EXPECT_TRUE(check_durable({"yes", "always", "0", "allkeys-lru"}).ok()) << "it never evicts";
  const auto message = [](const ServerSettings& settings) {
    const Status status = check_durable(settings);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.error().id, ErrorId::kOnlineStoreRefused);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_NE(message({"no", "always", "0", "noeviction"}).find("set appendonly yes"), -1ul);
  EXPECT_NE(message({"yes", "everysec", "0", "noeviction"}).find("set appendfsync always"), -1ul);
  EXPECT_NE(message({"yes", "always", "100", "allkeys-lfu"}).find("noeviction"), -1ul);
  EXPECT_NE(message({"", "", "", ""}).find("appendonly is ''"), -1ul);
}

TEST(RedisKvStore, a_server_that_may_not_be_asked_must_be_vouched_for) {
  FakeServer server;
  const std::string denied = "-NOPERM this user has no permissions to run 'config|get'\r\n";
  server.script = {denied + denied + denied + denied};
  const auto refused = server.open();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kOnlineStoreRefused);
  EXPECT_NE(refused.error().message.find("storage.redis.durability=vouched"), -1ul);
  server.script = {kMine};
  Options options = server.options();
  options.durability = Options::Durability::kVouchedFor;
  EXPECT_TRUE(open_redis(server.dial(), options).ok());
}

TEST(RedisKvStore, rows_of_another_deployment_are_not_touched) {
  FakeServer server;
  server.script = {kSafe, "$-1\r\n$4\r\nthem\r\n"};
  const auto opened = server.open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().id, ErrorId::kOnlineStoreRefused);
  EXPECT_NE(opened.error().message.find("another deployment"), -1ul);
}

TEST(RedisKvStore, signs_in_first_and_never_repeats_the_password) {
  FakeServer server;
  server.script = {"-ERR unknown command `AUTH`, with args beginning with: `u` `hush` \r\n"};
  Options options = server.options();
  options.user = "u";
  options.password = "hush";
  options.database = 3;
  const auto refused = open_redis(server.dial(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message.find("hush"), -1ul) << refused.error().message;
  server.sent.clear();
  server.script = {"+OK\r\n", "+OK\r\n", kSafe, kMine};
  EXPECT_TRUE(open_redis(server.dial(), options).ok());
  EXPECT_TRUE(
      server.sent.starts_with("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$4\r\nhush\r\n"
                              "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"));
}

TEST(RedisKvStore, says_what_a_refusal_means) {
  const auto id = [](std::string_view reply) { return reply_error(reply, "here").id; };
  EXPECT_EQ(id("WRONGPASS invalid username-password pair"), ErrorId::kOnlineStoreRefused);
  EXPECT_EQ(id("READONLY You can't write against a read only replica."),
            ErrorId::kOnlineStoreRefused);
  EXPECT_EQ(id("MOVED 3999 127.0.0.1:6381"), ErrorId::kOnlineStoreRefused);
  EXPECT_EQ(id("LOADING Redis is loading the dataset in memory"), ErrorId::kOnlineStoreUnavailable);
  EXPECT_EQ(id("MISCONF Errors writing to the AOF file: No space left"),
            ErrorId::kOnlineStoreUnavailable);
  EXPECT_EQ(reply_error("OOM command not allowed", "here").code, Code::kResourceExhausted);
}

TEST(RedisKvStore, leaves_a_dead_server_alone_for_longer_each_time_and_comes_back) {
  const Duration least = Duration::milliseconds(100);
  const Duration most = Duration::seconds(5);
  EXPECT_EQ(backoff_after(1, least, most), least);
  EXPECT_EQ(backoff_after(3, least, most), Duration::milliseconds(400));
  EXPECT_EQ(backoff_after(1'000'000, least, most), most);

  FakeServer server;
  server.script = {kSafe, kMine, ""};
  auto store = server.open().value();
  EXPECT_EQ(store->write(kOwner, {{"a", "1"}}).error().id, ErrorId::kOnlineStoreUnavailable)
      << "no answer in time";
  server.up = false;
  EXPECT_FALSE(store->get(kOwner, "a").ok());
  EXPECT_EQ(server.dialled, 2);
  const auto soon = store->get(kOwner, "a");
  EXPECT_EQ(server.dialled, 2) << "not asked again at once";
  EXPECT_NE(soon.error().message.find("tried again in"), -1ul) << soon.error().message;
  server.now += least.nanos;
  EXPECT_FALSE(store->get(kOwner, "a").ok());
  server.now += least.nanos;
  EXPECT_FALSE(store->get(kOwner, "a").ok());
  EXPECT_EQ(server.dialled, 3) << "the pause has doubled";
  server.now += least.nanos;
  server.up = true;
  server.script = {kSafe, kMine, "*1\r\n$1\r\n1\r\n"};
  EXPECT_EQ(store->get(kOwner, "a").value(), "1");
}

TEST(RedisKvStore, a_read_is_asked_again_on_a_new_connection_and_a_write_is_not) {
  FakeServer server;
  server.script = {kSafe, kMine, "", kSafe, kMine, "*1\r\n$1\r\n1\r\n"};
  auto store = server.open().value();
  EXPECT_EQ(store->get(kOwner, "a").value(), "1");
  EXPECT_EQ(server.dialled, 2);
  server.script = {""};
  server.sent.clear();
  const Status written = store->write(kOwner, {{"a", "2"}});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(server.dialled, 2);
  EXPECT_EQ(server.sent.find("HSET"), server.sent.rfind("HSET"));
}

TEST(RedisKvStore, what_is_not_redis_is_said_to_be_so) {
  FakeServer server;
  server.script = {"HTTP/1.1 400 Bad Request\r\n"};
  const auto opened = server.open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().id, ErrorId::kOnlineStoreUnavailable);
  EXPECT_NE(opened.error().message.find("does not speak as Redis does"), -1ul);
}

TEST(RedisKvStore, counts_what_it_gets) {
  FakeServer server;
  server.script = {kSafe, kMine, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n",        "*3\r\n$1\r\na\r\n",
                   kSafe, kMine, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n"};
  auto store = server.open().value();
  EXPECT_FALSE(store->get(kOwner, "a").ok()) << "two answers for one key";
  const auto all = [](std::string_view, std::string_view) { return true; };
  EXPECT_FALSE(store->scan(kOwner, all).ok()) << "not in pairs";
  EXPECT_FALSE(store->write(kOwner, {{"a", "1"}, {"b", std::nullopt}}).ok()) << "not done";
}

TEST(RedisKvStore, a_write_waits_for_as_many_replicas_as_asked) {
  FakeServer server;
  server.script = {kSafe, kMine, ":1\r\n:1\r\n", ":1\r\n:2\r\n"};
  Options options = server.options();
  options.replicas_min = 2;
  auto store = open_redis(server.dial(), options).value();
  const Status few = store->write(kOwner, {{"a", "1"}});
  ASSERT_FALSE(few.ok());
  EXPECT_NE(few.error().message.find("1 of 2 replicas"), -1ul) << few.error().message;
  EXPECT_TRUE(store->write(kOwner, {{"a", "1"}}).ok());
}

TEST(RedisKvStore, a_failed_command_of_a_transaction_fails_it) {
  FakeServer server;
  server.script = {kSafe, kMine, "+OK\r\n-OOM command not allowed\r\n+QUEUED\r\n-EXECABORT x\r\n"};
  auto store = server.open().value();
  const Status written = store->write(kOwner, {{"a", "1"}, {"b", std::nullopt}});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace falaj::storage::redis
