#include "net/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "net/internal/address.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

class ClientTest : public ServerFixture {
 protected:
  std::unique_ptr<Client> client() {
    ClientOptions options;
    options.base_url = url();
    options.headers = {{"X-Extra", "1"}};
    return Client::create(options).value();
  }
};

TEST_F(ClientTest, sends_and_reads) {
  add_on_pool(Method::kPost, "/echo", [](const Request& request) {
    EXPECT_EQ(find_header(request.headers, "Content-Type"), "text/csv");
    EXPECT_EQ(find_header(request.headers, "X-Extra"), "1");
    Response response = Response::text(request.body, 201);
    response.headers.emplace_back("X-Answer", "42");
    return response;
  });
  add_hello();
  start();
  const auto sender = client();
  const ClientReply reply = sender->send(Method::kPost, "/echo", "a,b\n", "text/csv").value();
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.body, "a,b\n");
  EXPECT_EQ(find_header(reply.headers, "x-answer"), "42");
  EXPECT_EQ(sender->send(Method::kHead, "/hello", "").value().body, "");
  EXPECT_EQ(sender->send(Method::kGet, "/hello", "").value().body, "hello");
  EXPECT_EQ(sender->send(Method::kGet, "/none", "").value().status, 404);
}

TEST_F(ClientTest, keeps_its_connection) {
  std::atomic<int> asked = 0;
  add_on_loop(Method::kGet, "/count",
              [&](const Request&) { return Response::text(std::to_string(++asked)); });
  options_.connections_max = 1;  // A second connection would be refused.
  start();
  const auto sender = client();
  for (int i = 1; i <= 50; ++i) {
    EXPECT_EQ(sender->send(Method::kGet, "/count", "").value().body, std::to_string(i));
  }
}

TEST_F(ClientTest, connects_again_when_the_server_closed_meanwhile) {
  add_on_pool(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
  start();
  const auto sender = client();
  EXPECT_EQ(sender->send(Method::kPost, "/echo", "1").value().body, "1");
  options_.port = port();
  server_.reset();  // Closes the idle connection.
  start();
  EXPECT_EQ(sender->send(Method::kPost, "/echo", "2").value().body, "2");
}

// A server of one connection after the other that behaves as told, to show what a client does.
class ScriptedServer {
 public:
  // Each script gets the accepted socket after a request's head has come; then it is closed.
  explicit ScriptedServer(std::vector<std::function<void(int)>> scripts)
      : socket_(listen_on("127.0.0.1", 0).value()), thread_([this, scripts] {
          for (const auto& script : scripts) {
            pollfd waiting{socket_, POLLIN, 0};
            if (::poll(&waiting, 1, 20'000) <= 0) return;
            const int accepted = ::accept(socket_, nullptr, nullptr);
            script(accepted);
            ::close(accepted);
          }
        }) {}
  ~ScriptedServer() {
    thread_.join();
    ::close(socket_);
  }
  std::string url() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    return "http://127.0.0.1:" + std::to_string(address_port(address));
  }

 private:
  int socket_;
  std::thread thread_;
};

void read_head(int socket) {
  std::string head;
  char byte = 0;
  while (!head.ends_with("\r\n\r\n") && ::recv(socket, &byte, 1, 0) == 1) head += byte;
}

void answer(int socket, std::string_view text) {
  read_head(socket);
  ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

constexpr std::string_view kFine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

std::unique_ptr<Client> client_of(const ScriptedServer& server) {
  ClientOptions options;
  options.base_url = server.url();
  return Client::create(options).value();
}

TEST(ClientRetry, asks_again_once_when_an_old_connection_dies_under_a_get) {
  ScriptedServer server({[](int socket) {
                           answer(socket, kFine);
                           read_head(socket);  // Takes the second request and closes.
                         },
                         [](int socket) { answer(socket, kFine); }});
  const auto sender = client_of(server);
  EXPECT_EQ(sender->send(Method::kGet, "/", "").value().body, "ok");
  EXPECT_EQ(sender->send(Method::kGet, "/", "").value().body, "ok");
}

TEST(ClientRetry, never_sends_a_post_twice) {
  ScriptedServer server({[](int socket) {
    answer(socket, kFine);
    read_head(socket);
  }});
  const auto sender = client_of(server);
  EXPECT_EQ(sender->send(Method::kGet, "/", "").value().body, "ok");
  const auto reply = sender->send(Method::kPost, "/", "");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
}

TEST(ClientReplies, refuses_what_is_no_sound_reply) {
  for (const char* text :
       {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", ""}) {
    ScriptedServer server({[&](int socket) { answer(socket, text); }});
    EXPECT_FALSE(client_of(server)->send(Method::kPost, "/", "").ok()) << text;
  }
}

TEST(ClientReplies, passes_over_100_continue) {
  ScriptedServer server({[](int socket) {
    answer(socket, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  }});
  EXPECT_EQ(client_of(server)->send(Method::kPut, "/", "x").value().body, "ok");
}

TEST(ClientReplies, gives_up_after_its_limit) {
  Event release;
  ScriptedServer server({[&](int) { release.wait(); }});
  ClientOptions options;
  options.base_url = server.url();
  options.request_timeout = Duration::milliseconds(30);
  const auto reply = Client::create(options).value()->send(Method::kGet, "/", "");
  release.set();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, Code::kDeadlineExceeded);
}

TEST_F(ClientTest, says_where_nobody_answers) {
  add_hello();
  start();
  const std::string address = "127.0.0.1:" + std::to_string(port());
  const auto sender = client();
  server_.reset();
  const auto reply = sender->send(Method::kGet, "/hello", "");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().id, ErrorId::kServerUnreachable);
  EXPECT_NE(reply.error().message.find(address), std::string::npos);
}

TEST_F(ClientTest, streams_a_file_as_the_body) {
  options_.make_spool = make_memory_spool;
  Route made = route(Method::kPut, "/file", [](const Request& request) {
    const std::string content = read_whole(*request.body_file).value();
    return Response::text(std::to_string(hash64(content)));
  });
  made.body_to = BodyTo::kFile;
  made.body_bytes_max = 8 << 20;
  router_.add(std::move(made));
  start();
  std::string content(5'000'001, 'x');
  for (std::size_t i = 0; i < content.size(); i += 3) content[i] = static_cast<char>(i % 255);
  const std::string path = folder_.path() + "/body";
  std::ofstream(path, std::ios::binary) << content;
  const auto sender = client();
  EXPECT_EQ(sender->send_file(Method::kPut, "/file", path, "text/csv").value().body,
            std::to_string(hash64(content)));
  const auto missing = sender->send_file(Method::kPut, "/file", path + "-none", "text/csv");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_FALSE(sender->send_file(Method::kPut, "/file", folder_.path(), "text/csv").ok());
}

TEST_F(ClientTest, reads_the_refusal_of_a_body_it_is_still_sending) {
  add_on_pool(Method::kPost, "/small", [](const Request&) { return Response{}; });
  start();
  const auto sender = client();
  for (int i = 0; i < 3; ++i) {
    const auto reply = sender->send(Method::kPost, "/small", std::string(32 << 20, 'x'));
    ASSERT_TRUE(reply.ok()) << reply.error().message;
    EXPECT_EQ(reply->status, 413);
  }
}

TEST_F(ClientTest, reads_events_until_told_or_until_the_end) {
  add_on_pool(Method::kGet, "/events", [](const Request&) {
    Response response;
    response.content_type = "text/event-stream";
    response.on_stream = [](const std::shared_ptr<Stream>& stream) {
      for (int i = 0; i < 5; ++i) stream->send("data: " + std::to_string(i) + "\n\n");
      stream->close();
    };
    return response;
  });
  add_hello();
  start();
  const auto sender = client();
  std::string seen;
  EXPECT_TRUE(sender
                  ->stream("/events",
                           [&](std::string_view data) {
                             seen += data;
                             return true;
                           })
                  .ok());
  EXPECT_EQ(seen, "01234");
  seen.clear();
  EXPECT_TRUE(sender
                  ->stream("/events",
                           [&](std::string_view data) {
                             seen += data;
                             return seen.size() < 2;
                           })
                  .ok());
  EXPECT_EQ(seen, "01");
  EXPECT_EQ(sender->send(Method::kGet, "/hello", "").value().body, "hello");
  const Status none = sender->stream("/none", [](std::string_view) { return true; });
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kNotFound);
}

TEST(ClientCreate, refuses_what_is_no_address) {
  ClientOptions options;
  options.base_url = "localhost:7070";
  EXPECT_FALSE(Client::create(options).ok());
}

TEST_F(ClientTest, refuses_targets_and_headers_that_would_split_the_request) {
  add_hello();
  start();
  EXPECT_FALSE(client()->send(Method::kGet, "/a b", "").ok());
  EXPECT_FALSE(client()->send(Method::kGet, "/a\r\nX: 1", "").ok());
  EXPECT_FALSE(client()->send(Method::kGet, "hello", "").ok());
  ClientOptions options;
  options.base_url = url();
  options.headers = {{"A", "b\r\nC: d"}};
  EXPECT_FALSE(Client::create(options).value()->send(Method::kGet, "/hello", "").ok());
}

}  // namespace
}  // namespace falaj::net
