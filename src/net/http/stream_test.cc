// Streamed replies and the graceful end of a server.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "net/server.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

class StreamTest : public ServerFixture {
 protected:
  void add_stream() {
    add_on_pool(Method::kGet, "/events", [this](const Request&) {
      Response response;
      response.content_type = "text/event-stream";
      response.on_stream = [this](std::shared_ptr<Stream> stream) {
        stream_ = std::move(stream);
        opened_.set();
      };
      return response;
    });
  }

  // Connections accepted from now on hold little in the kernel, so that a client that does not read
  // is felt at once: finds the server's listening socket in this process and shrinks its buffer.
  void shrink_send_buffers() {
    for (int socket = 3; socket < 1024; ++socket) {
      int listens = 0;
      socklen_t size = sizeof listens;
      if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) continue;
      const int small = 32 << 10;
      if (listens != 0) ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
  }

  std::shared_ptr<Stream> stream_;
  Event opened_;
};

TEST_F(StreamTest, sends_chunks_as_they_are_made_and_keeps_the_connection) {
  add_stream();
  add_hello();
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /events"));
  const std::string head = socket.until("\r\n\r\n");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(head.find("Content-Type: text/event-stream\r\n"), std::string::npos);
  ASSERT_TRUE(opened_.wait());
  EXPECT_TRUE(stream_->send("data: 1\n\n"));
  EXPECT_EQ(socket.until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(stream_->send("data: 2\n\n"));
  EXPECT_EQ(socket.until("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  socket.write(request_text("GET /hello"));  // Waits for its turn.
  stream_->close();
  EXPECT_EQ(socket.until("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_FALSE(stream_->open());
  EXPECT_FALSE(stream_->send("more"));
  EXPECT_EQ(body_of(socket.reply()), "hello");
}

TEST_F(StreamTest, is_plain_and_ends_by_closing_for_http_1_0) {
  add_stream();
  start();
  RawSocket socket(port());
  socket.write("GET /events HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(opened_.wait());
  stream_->send("one");
  stream_->close();
  EXPECT_EQ(body_of(socket.rest()), "one");
}

TEST_F(StreamTest, takes_events_from_many_threads) {
  add_stream();
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /events"));
  ASSERT_TRUE(opened_.wait());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(stream_->send("x"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream_->close();
  std::string text = body_of(socket.until("0\r\n\r\n"));
  std::size_t events = 0;
  for (std::size_t at = 0; (at = text.find("1\r\nx\r\n", at)) != std::string::npos; ++at) ++events;
  EXPECT_EQ(events, 800u);
}

TEST_F(StreamTest, the_producer_learns_that_the_client_has_gone) {
  add_stream();
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /events"));
  ASSERT_TRUE(opened_.wait());
  EXPECT_TRUE(stream_->open());
  socket.close();
  while (stream_->open()) std::this_thread::yield();  // The test's limit bounds it.
  EXPECT_FALSE(stream_->send("x"));
}

TEST_F(StreamTest, a_client_that_pauses_gets_everything) {
  add_stream();
  start();
  shrink_send_buffers();
  RawSocket socket(port());
  socket.write(request_text("GET /events"));
  ASSERT_TRUE(opened_.wait());
  socket.until("\r\n\r\n");
  ASSERT_TRUE(stream_->send(std::string(900'000, 'x')));
  ASSERT_EQ(socket.until("\r\n"), "dbba0\r\n");  // On its way, and more than fits.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream_->send(std::string(100'000, 'y')));
  stream_->close();
  const std::string text = socket.until("0\r\n\r\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 900'000);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'y'), 500'000);
}

TEST_F(StreamTest, drops_a_client_that_does_not_read) {
  add_stream();
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /events"));
  ASSERT_TRUE(opened_.wait());
  const std::string event(100'000, 'x');
  std::size_t sent = 0;
  while (stream_->send(event)) sent += event.size();
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, std::size_t{256} << 20);
  socket.rest();  // The connection was closed.
}

TEST_F(StreamTest, a_head_request_gets_no_stream) {
  add_stream();
  start();
  RawSocket socket(port());
  socket.write(request_text("HEAD /events") + request_text("GET /events"));
  EXPECT_EQ(status_of(socket.reply(RawSocket::Expect::kHeadOnly)), 200);
  EXPECT_EQ(status_of(socket.until("\r\n\r\n")), 200);
  ASSERT_TRUE(opened_.wait());
  stream_->close();
}

TEST_F(StreamTest, draining_lets_requests_finish_and_closes_the_rest) {
  add_stream();
  add_hello();
  Event running;
  Event release;
  add_on_pool(Method::kGet, "/slow", [&](const Request&) {
    running.set();
    release.wait();
    return Response::text("finished");
  });
  start();
  RawSocket idle(port());
  idle.write(request_text("GET /hello"));
  ASSERT_EQ(status_of(idle.reply()), 200);
  RawSocket streaming(port());
  streaming.write(request_text("GET /events"));
  ASSERT_TRUE(opened_.wait());
  streaming.until("\r\n\r\n");
  RawSocket slow(port());
  slow.write(request_text("GET /slow"));
  ASSERT_TRUE(running.wait());

  std::thread draining([this] { server_->drain(Duration::seconds(20)); });
  EXPECT_EQ(idle.rest(), "");                // Closed at once.
  EXPECT_EQ(streaming.rest(), "0\r\n\r\n");  // Ended in order.
  EXPECT_FALSE(RawSocket(port()).connected() && !RawSocket(port()).rest().empty());
  release.set();
  const std::string reply = slow.rest();
  EXPECT_TRUE(reply.ends_with("finished"));
  EXPECT_NE(reply.find("Connection: close\r\n"), std::string::npos);
  draining.join();
  EXPECT_FALSE(RawSocket(port()).connected());
  server_->drain(Duration::seconds(1));  // Again: nothing happens.
}

TEST_F(StreamTest, draining_cuts_what_outlives_its_limit) {
  Event running;
  Event release;
  add_on_pool(Method::kGet, "/slow", [&](const Request&) {
    running.set();
    release.wait();
    return Response::text("finished");
  });
  start();
  RawSocket slow(port());
  slow.write(request_text("GET /slow"));
  ASSERT_TRUE(running.wait());
  std::thread draining([this] { server_->drain(Duration::milliseconds(1)); });
  EXPECT_EQ(slow.rest(), "");  // Closed without an answer.
  release.set();
  draining.join();
}

}  // namespace
}  // namespace falaj::net
