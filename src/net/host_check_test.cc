#include "net/internal/host_check.h"

#include <gtest/gtest.h>

#include "net/address.h"

namespace falaj::net {
namespace {

TEST(HostWithoutPort, reads_names_and_addresses) {
  EXPECT_EQ(host_without_port("a.example:80"), "a.example");
  EXPECT_EQ(host_without_port("a.example"), "a.example");
  EXPECT_EQ(host_without_port("[::1]:7070"), "::1");
  EXPECT_EQ(host_without_port("[::1]"), "::1");
  EXPECT_EQ(host_without_port("[::1"), "");
  EXPECT_EQ(host_without_port("[::1]x"), "");
  EXPECT_EQ(host_without_port("a:80:90"), "");
  EXPECT_EQ(host_without_port("a:http"), "");
}

TEST(IsLoopbackHost, knows_only_loopback) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "10.0.0.1", "127.0.0.1.evil.example", "localhost.evil",
                           "::", "::2", "127.1", "0x7f.0.0.1"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(IsLoopbackAddress, takes_literal_addresses_only) {
  for (const char* text : {"127.0.0.1", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(is_loopback_address(text)) << text;
  }
  for (const char* text : {"", "localhost", "127.evil.example", "127.0.0.1.evil.example", "127.1",
                           "::1234", "::1:2", "[::1]", "[::1]:80", "127.0.0.1:80", "128.0.0.1"}) {
    EXPECT_FALSE(is_loopback_address(text)) << text;
  }
  EXPECT_FALSE(is_loopback_address(std::string_view("127.0.0.1\0.evil", 15)));
  EXPECT_FALSE(is_loopback_address(std::string(1000, '1')));
}

TEST(HostPolicy, answers_for_its_own_names_only) {
  const HostPolicy policy("192.0.2.7", {"falaj.bank.example"}, "https");
  EXPECT_TRUE(policy.allows_host("192.0.2.7:443"));
  EXPECT_TRUE(policy.allows_host("FALAJ.bank.example"));
  EXPECT_TRUE(policy.allows_host("localhost:1"));
  EXPECT_FALSE(policy.allows_host("evil.example"));
  EXPECT_FALSE(policy.allows_host("evil.example:443@localhost"));
  EXPECT_FALSE(policy.allows_host(""));
}

TEST(HostPolicy, demands_the_same_origin) {
  const HostPolicy policy("127.0.0.1", {}, "http");
  EXPECT_TRUE(policy.allows_origin("http://localhost:7070", "localhost:7070"));
  EXPECT_TRUE(policy.allows_origin("HTTP://LOCALHOST:7070", "localhost:7070"));
  EXPECT_FALSE(policy.allows_origin("https://localhost:7070", "localhost:7070"));
  EXPECT_FALSE(policy.allows_origin("http://localhost:7071", "localhost:7070"));
  EXPECT_FALSE(policy.allows_origin("http://127.0.0.1:7070", "localhost:7070"));
  EXPECT_FALSE(policy.allows_origin("null", "localhost:7070"));
  EXPECT_FALSE(policy.allows_origin("http://localhost:7070.evil", "localhost:7070"));
}

}  // namespace
}  // namespace falaj::net
