#include "storage/redis/url.h"

#include <gtest/gtest.h>

namespace falaj::storage::redis {
namespace {

TEST(RedisUrl, reads_its_parts) {
  const Url url = parse_url("rediss://falaj@cache.bank.example:6380/2").value();
  EXPECT_EQ(url.scheme, Url::Scheme::kTls);
  EXPECT_EQ(url.user, "falaj");
  EXPECT_EQ(url.host, "cache.bank.example");
  EXPECT_EQ(url.port, 6380);
  EXPECT_EQ(url.database, 2);
  EXPECT_EQ(url.shown(), "rediss://cache.bank.example:6380/2");
}

TEST(RedisUrl, has_defaults_and_takes_addresses) {
  EXPECT_EQ(parse_url("redis://localhost")->shown(), "redis://localhost:6379/0");
  EXPECT_EQ(parse_url("redis://localhost/")->shown(), "redis://localhost:6379/0");
  EXPECT_EQ(parse_url("redis://[::1]:7/3")->shown(), "redis://[::1]:7/3");
  EXPECT_EQ(parse_url("redis://[::1]")->host, "::1");
}

TEST(RedisUrl, refuses_the_rest_with_an_example) {
  for (const char* text : {"",
                           "localhost:6379",
                           "http://localhost",
                           "REDIS://localhost",
                           "redis://",
                           "redis://:6379",
                           "redis://h:0",
                           "redis://h:65536",
                           "redis://h:6379x",
                           "redis://h/x",
                           "redis://h/0/1",
                           "redis://h/-1",
                           "redis://h/65536",
                           "redis://[::1",
                           "redis://[::1]x",
                           "redis://h h",
                           "redis://h?x=1",
                           "redis://h#x",
                           "redis://@h",
                           "redis://a@b@h",
                           "redis://h\n"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_NE(url.error().message.find("rediss://cache"), std::string::npos) << text;
  }
}

TEST(RedisUrl, a_password_is_refused_and_not_repeated) {
  for (const char* text :
       {"redis://u:hush@h", "redis://:hush@h", "u:hush@h", "redis://u:hu@sh@h"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.error().message.find("hu"), std::string::npos) << url.error().message;
    EXPECT_NE(url.error().message.find("password_file"), std::string::npos);
  }
}

}  // namespace
}  // namespace falaj::storage::redis
