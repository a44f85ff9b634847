// One server after another on the same socket, without a client that notices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "net/grpc_server.h"
#include "net/http2/messages.h"
#include "net/http2/testing/grpc_client.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using testing::body_of;
using testing::RawSocket;
using testing::request_text;
using testing::status_of;

class HandoverTest : public testing::ServerFixture {
 protected:
  // What the running server leaves listening once it has stopped.
  int leave() {
    const Result<int> kept = server_->keep_listening();
    EXPECT_TRUE(kept.ok());
    server_->drain(Duration::seconds(20));
    server_.reset();
    return kept.value_or(-1);
  }
  static bool says_close(const std::string& reply) {
    return reply.find("Connection: close\r\n") != std::string::npos;
  }
};

TEST_F(HandoverTest, who_connects_between_two_servers_is_answered_by_the_second) {
  add_hello();
  start();
  const std::uint16_t before = port();
  options_.listening = leave();
  options_.port = before;
  RawSocket waiting(before);
  ASSERT_TRUE(waiting.connected());
  waiting.write(request_text("GET /hello"));
  start();
  EXPECT_EQ(port(), before);
  EXPECT_EQ(body_of(waiting.reply()), "hello");
  EXPECT_NE(::fcntl(options_.listening, F_GETFD) & FD_CLOEXEC, 0) << "no child may have it";
}

TEST_F(HandoverTest, a_socket_of_any_port_will_do_when_none_is_wanted) {
  add_hello();
  start();
  const std::uint16_t before = port();
  options_.listening = leave();
  start();
  EXPECT_EQ(port(), before);
}

TEST_F(HandoverTest, what_listens_elsewhere_or_is_no_socket_is_closed_and_another_made) {
  add_hello();
  start();
  const std::uint16_t elsewhere = port();
  options_.listening = leave();
  options_.host = "127.0.0.2";
  start();
  EXPECT_FALSE(RawSocket(elsewhere).connected()) << "the old address is given up";

  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  options_.listening = pipe[1];
  options_.host = "127.0.0.1";
  start();
  EXPECT_EQ(body_of(ask(request_text("GET /hello"))), "hello");
  char byte = 0;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 0) << "its other end is closed";
  ::close(pipe[0]);
}

TEST_F(HandoverTest, an_announcement_is_told_with_an_answer_and_nobody_is_cut) {
  add_hello();
  start();
  RawSocket kept(port());
  kept.write(request_text("GET /hello"));
  EXPECT_FALSE(says_close(kept.reply()));
  std::thread announcing([this] { server_->announce_drain(Duration::seconds(20)); });
  std::string reply;
  while (!says_close(reply)) {
    ASSERT_TRUE(kept.write(request_text("GET /hello")));
    reply = kept.reply();
    ASSERT_EQ(status_of(reply), 200);
  }
  EXPECT_EQ(kept.rest(), "");
  announcing.join();  // Nobody is left to be told.
  reply = ask(request_text("GET /hello"));
  EXPECT_EQ(status_of(reply), 200) << "it is still open to everyone";
  EXPECT_TRUE(says_close(reply));
}

TEST_F(HandoverTest, who_came_after_the_announcement_may_ask_once_and_the_silent_are_closed) {
  options_.silence_max = Duration::seconds(20);
  add_hello();
  start();
  RawSocket silent(port());
  silent.write(request_text("GET /hello"));
  EXPECT_EQ(status_of(silent.reply()), 200);
  server_->announce_drain(Duration::milliseconds(1));
  RawSocket fresh(port());
  ASSERT_EQ(status_of(ask(request_text("GET /hello"))), 200);  // The one before it was taken too.
  std::thread draining([this] { server_->drain(Duration::seconds(20)); });
  EXPECT_EQ(silent.rest(), "");
  fresh.write(request_text("GET /hello"));
  const std::string reply = fresh.reply();
  EXPECT_EQ(body_of(reply), "hello");
  EXPECT_TRUE(says_close(reply));
  draining.join();
}

TEST_F(HandoverTest, those_who_stay_silent_are_closed_in_the_end) {
  options_.silence_max = Duration::milliseconds(1);
  add_hello();
  start();
  server_->announce_drain(Duration::milliseconds(1));
  RawSocket fresh(port());
  ASSERT_EQ(status_of(ask(request_text("GET /hello"))), 200);
  std::thread draining([this] { server_->drain(Duration::hours(1)); });
  EXPECT_EQ(fresh.rest(), "");
  draining.join();
}

TEST(GrpcHandover, calls_between_two_servers_are_answered_by_the_second) {
  std::vector<GrpcMethod> methods;
  methods.emplace_back(
      "/t.T/Echo", GrpcMethod::Kind::kUnary, Permission::anyone(), Target::nothing(), "A test's.",
      [](Request&, std::string_view message, GrpcReply reply) { reply(std::string(message)); });
  const Gate gate = [](const Route&, Request&) { return Status(); };
  telemetry::Metrics metrics;
  GrpcOptions options;
  auto first = GrpcServer::start(options, methods, gate, metrics);
  ASSERT_TRUE(first.ok());
  options.port = (*first)->port();
  options.listening = (*first)->keep_listening().value();
  std::string message;
  append_message(message, "hello");

  testing::GrpcTestClient idle((*first)->port());
  EXPECT_EQ(idle.wait(idle.begin("/t.T/Echo", message)).status(), "0");
  (*first)->drain(Duration::seconds(20));
  idle.wait_for_close();
  EXPECT_TRUE(idle.was_sent_away()) << "a farewell comes before the end";
  first->reset();

  testing::GrpcTestClient waiting(options.port);
  const std::int32_t call = waiting.begin("/t.T/Echo", message);
  auto second = GrpcServer::start(options, methods, gate, metrics);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(waiting.wait(call).messages(), (std::vector<std::string>{"hello"}));
}

}  // namespace
}  // namespace falaj::net
