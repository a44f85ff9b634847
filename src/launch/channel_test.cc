#include "launch/channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

namespace falaj::launch {
namespace {

ChannelOptions patient() {
  ChannelOptions options;
  options.secret = "a secret of sixteen and more";
  options.silence_max = Duration::seconds(30);
  options.handshake_max = Duration::seconds(30);
  return options;
}

struct Ends {
  Result<std::unique_ptr<Channel>> listener = Error(Code::kInternal, "not yet");
  Result<std::unique_ptr<Channel>> joiner = Error(Code::kInternal, "not yet");
};

Ends open_both(const ChannelOptions& listener, const ChannelOptions& joiner) {
  Ends ends;
  auto listening = listen_at({"127.0.0.1", 0});
  EXPECT_TRUE(listening.ok());
  std::thread other([&] {
    auto socket = connect_to({"127.0.0.1", listening->port}, Duration::seconds(30));
    if (socket.ok()) {
      ends.joiner = Channel::open(std::move(socket).value(), Side::kJoiner, joiner);
    }
  });
  Descriptor socket(::accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ends.listener = Channel::open(std::move(socket), Side::kListener, listener);
  other.join();
  return ends;
}

Value text(const std::string& what) {
  Value value = Value::object();
  value["what"] = what;
  return value;
}

TEST(Channel, carries_messages_both_ways_among_signs_of_life) {
  ChannelOptions lively = patient();
  lively.beat = Duration::microseconds(50);
  Ends ends = open_both(lively, lively);
  ASSERT_TRUE(ends.listener.ok()) << ends.listener.error().message;
  ASSERT_TRUE(ends.joiner.ok());
  EXPECT_EQ((*ends.joiner)->own_address(), "127.0.0.1");
  EXPECT_EQ((*ends.listener)->peer_address(), "127.0.0.1");
  ASSERT_TRUE((*ends.joiner)->send(text("one")).ok());
  ASSERT_TRUE((*ends.joiner)->send(text(std::string(100'000, 'x'))).ok());
  ASSERT_TRUE((*ends.listener)->send(text("back")).ok());
  EXPECT_EQ((*ends.listener)->receive()->text("what"), "one");
  EXPECT_EQ((*ends.listener)->receive()->text("what").size(), 100'000u);
  EXPECT_EQ((*ends.joiner)->receive()->text("what"), "back");
  EXPECT_EQ((*ends.joiner)->send(text(std::string(17 << 20, 'x'))).error().code,
            Code::kResourceExhausted);
}

TEST(Channel, refuses_who_does_not_know_the_secret) {
  ChannelOptions other = patient();
  other.secret = "another secret of sixteen and more";
  Ends ends = open_both(patient(), other);
  ASSERT_FALSE(ends.listener.ok());
  EXPECT_EQ(ends.listener.error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(ends.joiner.ok());
}

TEST(Channel, refuses_a_short_secret) {
  ChannelOptions options = patient();
  options.secret = "short";
  EXPECT_EQ(Channel::open(Descriptor(), Side::kJoiner, options).error().code,
            Code::kInvalidArgument);
}

TEST(Channel, refuses_what_is_no_node) {
  auto listening = listen_at({"127.0.0.1", 0});
  ASSERT_TRUE(listening.ok());
  auto stranger = connect_to({"127.0.0.1", listening->port}, Duration::seconds(30));
  ASSERT_TRUE(stranger.ok());
  const std::string request = "GET / HTTP/1.1\r\nHost: falaj\r\nAccept: everything\r\n\r\n";
  ASSERT_EQ(::send(stranger->get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  Descriptor socket(::accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(Channel::open(std::move(socket), Side::kListener, patient()).error().code,
            Code::kUnavailable);
}

TEST(Channel, takes_no_long_frame_before_the_secret_is_proved) {
  auto listening = listen_at({"127.0.0.1", 0});
  ASSERT_TRUE(listening.ok());
  auto stranger = connect_to({"127.0.0.1", listening->port}, Duration::seconds(30));
  ASSERT_TRUE(stranger.ok());
  // A greeting, and the length of a frame that would be waited for: 64 KiB.
  const std::string begun = "FALAJLN1" + std::string(32, 'n') + std::string("\0\1\0\0", 4);
  ASSERT_EQ(::send(stranger->get(), begun.data(), begun.size(), 0),
            static_cast<ssize_t>(begun.size()));
  Descriptor socket(::accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(Channel::open(std::move(socket), Side::kListener, patient()).error().code,
            Code::kFailedPrecondition);
}

TEST(Channel, tells_the_end_at_once) {
  Ends ends = open_both(patient(), patient());
  ASSERT_TRUE(ends.listener.ok() && ends.joiner.ok());
  ends.joiner = Error(Code::kInternal, "gone");
  EXPECT_EQ((*ends.listener)->receive().error().code, Code::kUnavailable);
}

TEST(Channel, tells_silence_after_a_while) {
  ChannelOptions silent = patient();
  silent.beat = Duration::hours(1);
  ChannelOptions listener = patient();
  listener.silence_max = Duration::milliseconds(200);
  Ends ends = open_both(listener, silent);
  ASSERT_TRUE(ends.listener.ok() && ends.joiner.ok());
  EXPECT_EQ((*ends.listener)->receive().error().code, Code::kDeadlineExceeded);
}

TEST(Endpoint, is_an_address_and_a_port) {
  EXPECT_EQ(parse_endpoint("10.0.0.1:7075")->host, "10.0.0.1");
  EXPECT_EQ(parse_endpoint("10.0.0.1:7075")->port, 7075);
  for (const char* wrong :
       {"", "10.0.0.1", ":7", "10.0.0.1:", "10.0.0.1:70000", "host:1", "10.0.0.1:7x", "::1:7"}) {
    EXPECT_FALSE(parse_endpoint(wrong).ok()) << wrong;
  }
}

TEST(Endpoint, says_when_nobody_answers) {
  auto listening = listen_at({"127.0.0.1", 0});
  ASSERT_TRUE(listening.ok());
  EXPECT_EQ(listen_at({"127.0.0.1", listening->port}).error().id, ErrorId::kPortInUse);
  // Bound, so that nobody else gets the port, and not listened at.
  const Descriptor bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(bound.get(), any, size), 0);
  ASSERT_EQ(::getsockname(bound.get(), any, &size), 0);
  EXPECT_EQ(connect_to({"127.0.0.1", ntohs(address.sin_port)}, {}).error().code,
            Code::kUnavailable);
}

}  // namespace
}  // namespace falaj::launch
