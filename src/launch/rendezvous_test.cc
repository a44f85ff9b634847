#include "launch/rendezvous.h"

#include <gtest/gtest.h>

#include "net/client.h"

namespace falaj::launch {
namespace {

TEST(Rendezvous, speaks_as_horovods_gloo_client_expects) {
  Keys keys;
  auto server = Rendezvous::start(access_to(keys));
  ASSERT_TRUE(server.ok()) << server.error().message;
  net::ClientOptions options;
  options.base_url = "http://127.0.0.1:" + std::to_string((*server)->port());
  auto client = net::Client::create(options);
  ASSERT_TRUE(client.ok());
  const auto ask = [&](net::Method method, const std::string& path, const std::string& body = "") {
    auto reply = (*client)->send(method, path, body, "application/octet-stream");
    EXPECT_TRUE(reply.ok());
    return reply.ok() ? std::move(reply).value() : net::ClientReply{};
  };
  const std::string binary("\0\xff\n key", 7);
  EXPECT_EQ(ask(net::Method::kGet, "/global/0").status, 404);
  EXPECT_EQ(ask(net::Method::kPut, "/global/0", binary).status, 200);
  EXPECT_EQ(ask(net::Method::kGet, "/global/0").status, 200);
  EXPECT_EQ(ask(net::Method::kGet, "/global/0").body, binary);
  EXPECT_EQ(ask(net::Method::kGet, "/local_127.0.0.1/0").status, 404);
  EXPECT_EQ(ask(net::Method::kDelete, "/global/0").status, 200);
  EXPECT_EQ(ask(net::Method::kGet, "/global/0").status, 404);
  EXPECT_EQ(ask(net::Method::kDelete, "/global/0").status, 200);
  EXPECT_EQ(ask(net::Method::kPut, "/global/1", std::string(2 << 20, 'x')).status, 413);
}

TEST(Rendezvous, keys_are_bounded_and_forgotten_together) {
  Keys keys;
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(keys.put(std::to_string(i), large).ok());
  EXPECT_EQ(keys.put("one more", "x").error().code, Code::kResourceExhausted);
  EXPECT_TRUE(keys.put("0", "small").ok());  // Takes the place of a large one.
  EXPECT_TRUE(keys.put("one more", "x").ok());
  keys.erase("one more");
  EXPECT_FALSE(keys.get("one more").has_value());
  EXPECT_EQ(keys.get("0"), "small");
  keys.clear();
  EXPECT_FALSE(keys.get("0").has_value());
}

}  // namespace
}  // namespace falaj::launch
