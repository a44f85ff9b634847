// What the server refuses, and how it says so.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/json.h"
#include "net/server.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

class LimitsTest : public ServerFixture {
 protected:
  void add_upload(std::int64_t bytes_max) {
    Route made = route(Method::kPost, "/upload", [](const Request& r) {
      return Response::text(std::to_string(r.body.size()));
    });
    made.body_bytes_max = bytes_max;
    router_.add(std::move(made));
  }
  std::string code_of(std::string_view reply) {
    const Result<Value> body = parse_json(body_of(reply));
    return body.ok() ? body->text("code") : "";
  }
};

TEST_F(LimitsTest, refuses_a_head_over_the_limit) {
  options_.header_bytes_max = 1000;
  add_hello();
  start();
  EXPECT_EQ(status_of(ask(request_text("GET /hello", "A: " + std::string(500, 'a') + "\r\n"))),
            200);
  for (const std::string& text :
       {request_text("GET /hello", "A: " + std::string(2000, 'a') + "\r\n"),
        request_text("GET /" + std::string(2000, 'a')), "GET /" + std::string(100'000, 'a')}) {
    RawSocket socket(port());
    socket.write(text);
    EXPECT_EQ(status_of(socket.rest()), 431);
  }
}

TEST_F(LimitsTest, refuses_a_body_over_the_routes_limit) {
  add_upload(1000);
  start();
  EXPECT_EQ(body_of(ask(request_text("POST /upload", "", std::string(1000, 'x')))), "1000");
  RawSocket announced(port());  // Refused by its Content-Length alone; nothing was sent.
  announced.write(request_text("POST /upload", "Content-Length: 1001\r\n"));
  const std::string reply = announced.reply();
  EXPECT_EQ(status_of(reply), 413);
  EXPECT_EQ(code_of(reply), "FJ-1009");
  RawSocket chunked(port());
  chunked.write(request_text("POST /upload", "Transfer-Encoding: chunked\r\n") + "3e8\r\n" +
                std::string(1000, 'x') + "\r\n1\r\ny");
  EXPECT_EQ(status_of(chunked.reply()), 413);
}

TEST_F(LimitsTest, a_client_says_how_long_it_waits) {
  router_.add(route(Method::kGet, "/left", [](const Request& r) {
    if (r.deadline == Timestamp::max()) return Response::text("for ever");
    const Duration left = r.deadline - SystemClock().now();
    return Response::text(left > Duration::seconds(20) && left <= Duration::seconds(30) ? "30s"
                                                                                        : "other");
  }));
  start();
  EXPECT_EQ(body_of(ask(request_text("GET /left"))), "for ever");
  EXPECT_EQ(body_of(ask(request_text("GET /left", "X-Falaj-Timeout: 30s\r\n"))), "30s");
  for (const std::string wrong : {"0s", "-1s", "30", "soon", "25h"}) {
    const std::string reply = ask(request_text("GET /left", "X-Falaj-Timeout: " + wrong + "\r\n"));
    EXPECT_EQ(status_of(reply), 400) << wrong;
    EXPECT_EQ(code_of(reply), "FJ-1006") << wrong;
  }
}

TEST_F(LimitsTest, the_sender_of_a_large_body_can_read_the_refusal) {
  add_upload(1000);
  start();
  RawSocket socket(port());
  socket.write(request_text("POST /upload", "Content-Length: 20000000\r\n"));
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 19 && socket.write(part); ++i) {
  }
  EXPECT_EQ(status_of(socket.reply()), 413);
}

TEST_F(LimitsTest, says_continue_only_when_the_body_is_welcome) {
  add_upload(1000);
  gate_ = [](const Route&, Request& request) -> Status {
    if (find_header(request.headers, "Authorization").empty()) {
      return Error(Code::kUnauthenticated, "who are you?");
    }
    return {};
  };
  start();
  const std::string expect = "Expect: 100-continue\r\nContent-Length: 5\r\n";
  RawSocket welcome(port());
  welcome.write(request_text("POST /upload", expect + "Authorization: a\r\n"));
  EXPECT_EQ(welcome.reply(), "HTTP/1.1 100 Continue\r\n\r\n");
  welcome.write("12345");
  EXPECT_EQ(body_of(welcome.reply()), "5");
  RawSocket denied(port());
  denied.write(request_text("POST /upload", expect));
  EXPECT_EQ(status_of(denied.reply()), 401);
  RawSocket other(port());
  other.write(request_text("POST /upload", "Expect: a-pony\r\nContent-Length: 5\r\n"));
  EXPECT_EQ(status_of(other.reply()), 417);
}

TEST_F(LimitsTest, cuts_a_client_that_sends_its_head_slowly) {
  options_.header_timeout = Duration::milliseconds(40);
  add_hello();
  start();
  RawSocket socket(port());
  socket.write("GET /hello HTTP/1.1\r\nHost: loc");
  EXPECT_EQ(status_of(socket.rest()), 408);  // Returns when the server has closed.
  RawSocket silent(port());                  // Not one byte: another limit, the idle one.
  silent.write(request_text("GET /hello"));
  EXPECT_EQ(status_of(silent.reply()), 200);
}

TEST_F(LimitsTest, a_trickle_of_bytes_does_not_move_the_limit) {
  options_.header_timeout = Duration::milliseconds(60);
  add_hello();
  start();
  RawSocket socket(port());
  socket.write("GET /hello HTTP/1.1\r\n");
  // A byte whenever the socket has stayed silent for a millisecond, until the server has enough.
  pollfd waiting{socket.descriptor(), POLLIN, 0};
  int sent = 0;
  while (::poll(&waiting, 1, 1) == 0 && sent < 20'000 && socket.write("a")) ++sent;
  EXPECT_EQ(status_of(socket.rest()), 408);
  EXPECT_LT(sent, 10'000);
}

TEST_F(LimitsTest, cuts_a_client_that_sends_its_body_slowly) {
  options_.body_timeout = Duration::milliseconds(40);
  add_upload(1000);
  start();
  RawSocket socket(port());
  socket.write(request_text("POST /upload", "Content-Length: 100\r\n") + "abc");
  EXPECT_EQ(status_of(socket.rest()), 408);
}

TEST_F(LimitsTest, closes_idle_connections_without_a_word) {
  options_.idle_timeout = Duration::milliseconds(40);
  add_hello();
  start();
  RawSocket silent(port());
  EXPECT_EQ(silent.rest(), "");
  RawSocket used(port());
  used.write(request_text("GET /hello"));
  EXPECT_EQ(status_of(used.reply()), 200);
  EXPECT_EQ(used.rest(), "");
}

TEST_F(LimitsTest, cuts_a_client_that_does_not_read) {
  options_.idle_timeout = Duration::milliseconds(100);
  add_on_loop(Method::kGet, "/large",
              [](const Request&) { return Response::text(std::string(64 << 20, 'x')); });
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /large"));
  // Waits, without reading, until the server has given the connection up.
  pollfd gone{socket.descriptor(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&gone, 1, 20'000), 1);
  EXPECT_LT(socket.rest().size(), std::size_t{64} << 20);
}

TEST_F(LimitsTest, refuses_connections_over_the_limit_and_recovers) {
  options_.connections_max = 2;
  add_hello();
  start();
  auto first = std::make_unique<RawSocket>(port());
  RawSocket second(port());
  for (RawSocket* socket : {first.get(), &second}) {
    socket->write(request_text("GET /hello"));
    ASSERT_EQ(status_of(socket->reply()), 200);
  }
  RawSocket third(port());
  const std::string refused = third.rest();
  EXPECT_EQ(status_of(refused), 503);
  first.reset();
  // The server notices the free place by itself: ask until it has.
  int status = 0;
  for (int i = 0; i < 10'000 && status != 200; ++i) {
    RawSocket again(port());
    again.write(request_text("GET /hello"));
    status = status_of(again.reply());
  }
  EXPECT_EQ(status, 200);
}

TEST_F(LimitsTest, answers_malformed_requests_with_400_and_closes) {
  add_hello();
  start();
  for (const std::string& text :
       {std::string("\r\n\r\n"), std::string("nonsense\r\n\r\n"),
        std::string("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 11),
        std::string("GET /hello HTTP/1.1\r\n\r\n"),  // No Host.
        std::string("GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
        request_text("GET /a%00b"), request_text("GET /a%zz"), request_text("GET /../etc/passwd"),
        request_text("GET /%2e%2e/etc/passwd"), request_text("GET hello"),
        request_text("POST /hello", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        request_text("POST /hello", "Content-Length: 5\r\nContent-Length: 5\r\n"),
        request_text("POST /hello", "Transfer-Encoding: gzip\r\n")}) {
    RawSocket socket(port());
    socket.write(text + request_text("GET /hello"));
    const std::string reply = socket.rest();
    EXPECT_EQ(status_of(reply), 400) << text;
    EXPECT_EQ(reply.find("HTTP/1.1 200"), std::string::npos) << text;
  }
  EXPECT_EQ(status_of(ask("BREW /hello HTTP/1.1\r\nHost: localhost\r\n\r\n")), 501);
  EXPECT_EQ(status_of(ask("GET /hello HTTP/2.0\r\nHost: localhost\r\n\r\n")), 400);
}

TEST_F(LimitsTest, answers_only_for_its_own_hosts) {
  options_.allowed_hosts = {"falaj.bank.example"};
  add_hello();
  start();
  const auto asked_as = [&](const std::string& host) {
    return ask("GET /hello HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* host : {"localhost", "127.0.0.1:7070", "[::1]:1", "falaj.bank.example:443"}) {
    EXPECT_EQ(status_of(asked_as(host)), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "10.0.0.1", "a b"}) {
    const std::string reply = asked_as(host);
    EXPECT_EQ(status_of(reply), 403) << host;
    EXPECT_EQ(code_of(reply), "FJ-1014") << host;
  }
  // The absolute form names the host that counts.
  EXPECT_EQ(status_of(ask("GET http://evil.example/hello HTTP/1.1\r\nHost: localhost\r\n\r\n")),
            403);
  EXPECT_EQ(status_of(ask("GET http://localhost/hello HTTP/1.1\r\nHost: localhost\r\n\r\n")), 200);
}

TEST_F(LimitsTest, refuses_pages_of_other_origins) {
  add_hello();
  start();
  const std::string own = "localhost:" + std::to_string(port());
  const auto asked_from = [&](const std::string& origin) {
    return ask("GET /hello HTTP/1.1\r\nHost: " + own + "\r\nOrigin: " + origin + "\r\n\r\n");
  };
  EXPECT_EQ(status_of(asked_from("http://" + own)), 200);
  for (const std::string& origin : {"https://" + own, std::string("http://localhost:1"),
                                    std::string("http://evil.example"), std::string("null")}) {
    const std::string reply = asked_from(origin);
    EXPECT_EQ(status_of(reply), 403) << origin;
    EXPECT_EQ(code_of(reply), "FJ-1014");
  }
}

TEST_F(LimitsTest, lets_pages_of_named_origins_ask_for_predictions_alone) {
  add_hello();
  std::string cookie = "unset";
  net::Route infer(Method::kPost, "/v2/models/{model}/infer", Permission("serving.predict"),
                   Target::qualified("Deployment", "model"), "", [&](const Request& request) {
                     cookie = find_header(request.headers, "Cookie");
                     return Response::json("{}");
                   });
  infer.dialect = "inference";
  router_.add(std::move(infer));
  options_.cors_origins = parse_origins("https://app.example, http://localhost:3000").value();
  start();
  const auto sent = [&](const std::string& line, const std::string& origin,
                        const std::string& more = "") {
    return ask(line + " HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin + "\r\n" + more + "\r\n");
  };
  const std::string asks = "OPTIONS /v2/models/m/infer";
  const std::string post = "Access-Control-Request-Method: POST\r\n";
  const std::string allowed = sent(asks, "https://app.example", post);
  EXPECT_EQ(status_of(allowed), 204);
  for (const char* header :
       {"Access-Control-Allow-Origin: https://app.example\r\n", "Vary: Origin\r\n",
        "Access-Control-Allow-Methods: POST\r\n", "Access-Control-Allow-Headers: Authorization"}) {
    EXPECT_NE(allowed.find(header), std::string::npos) << header;
  }
  EXPECT_EQ(allowed.find("Access-Control-Allow-Credentials"), std::string::npos);

  const std::string empty = "Content-Length: 0\r\nCookie: session=secret\r\n";
  const std::string answered = sent("POST /v2/models/m/infer", "http://localhost:3000", empty);
  EXPECT_EQ(status_of(answered), 200);
  EXPECT_NE(answered.find("Access-Control-Allow-Origin: http://localhost:3000\r\n"),
            std::string::npos);
  EXPECT_EQ(answered.find("Access-Control-Allow-Credentials"), std::string::npos);
  EXPECT_EQ(cookie, "") << "who is signed in here is nobody there";

  for (const char* origin : {"https://evil.example", "https://app.example.evil", "null",
                             "http://app.example", "https://app.example:444"}) {
    const std::string reply = sent("POST /v2/models/m/infer", origin, empty);
    EXPECT_EQ(status_of(reply), 403) << origin;
    EXPECT_EQ(reply.find("Access-Control"), std::string::npos) << origin;
    EXPECT_EQ(status_of(sent(asks, origin, post)), 403) << origin;
  }
  EXPECT_EQ(status_of(sent("GET /hello", "https://app.example")), 403) << "no prediction";
  EXPECT_EQ(status_of(sent("OPTIONS /hello", "https://app.example",
                           "Access-Control-Request-Method: GET\r\n")),
            403);
  EXPECT_EQ(
      status_of(sent(asks, "https://app.example", "Access-Control-Request-Method: DELETE\r\n")),
      403);
  EXPECT_EQ(status_of(sent(asks, "https://app.example")), 403) << "asks for no method";
}

TEST_F(LimitsTest, opens_no_other_route_of_the_inference_dialect_to_pages) {
  const std::pair<Method, const char*> closed[] = {
      {Method::kPost, "/v2/repository/index"},
      {Method::kPost, "/v2/repository/models/{model}/load"},
      {Method::kPost, "/v2/repository/models/{model}/unload"},
      {Method::kGet, "/v2/models/stats"},
      {Method::kGet, "/v2/models/{model}/stats"}};
  const std::pair<Method, const char*> open[] = {{Method::kPost, "/v2/models/{model}/infer"},
                                                 {Method::kPost, "/v1/models/{model}:predict"},
                                                 {Method::kGet, "/v2/models/{model}"},
                                                 {Method::kGet, "/v1/models/{model}"}};
  const auto add = [&](const std::pair<Method, const char*>& each) {
    Route made = route(each.first, each.second, [](const Request&) { return Response{}; });
    made.dialect = "inference";
    router_.add(std::move(made));
  };
  for (const auto& each : closed) add(each);
  for (const auto& each : open) add(each);
  options_.cors_origins = parse_origins("https://app.example").value();
  start();
  const auto asked = [&](const std::pair<Method, const char*>& each, bool preflight) {
    std::string path = each.second;
    if (const auto at = path.find("{model}"); at != std::string::npos) path.replace(at, 7, "m");
    const std::string method(method_name(each.first));
    return status_of(ask((preflight ? "OPTIONS" : method) + " " + path +
                         " HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n" +
                         "Access-Control-Request-Method: " + method +
                         "\r\nContent-Length: 0\r\n\r\n"));
  };
  for (const auto& each : closed) {
    EXPECT_EQ(asked(each, false), 403) << each.second;
    EXPECT_EQ(asked(each, true), 403) << each.second;
  }
  for (const auto& each : open) {
    EXPECT_EQ(asked(each, false), 200) << each.second;
    EXPECT_EQ(asked(each, true), 204) << each.second;
  }
}

TEST_F(LimitsTest, tells_caches_that_answers_depend_on_the_page) {
  add_hello();
  options_.cors_origins = parse_origins("https://app.example").value();
  start();
  const std::string reply = ask("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(status_of(reply), 200);
  EXPECT_NE(reply.find("Vary: Origin\r\n"), std::string::npos) << reply;
  EXPECT_EQ(reply.find("Access-Control"), std::string::npos) << reply;
}

TEST(Origins, are_whole_and_have_no_wildcard) {
  EXPECT_TRUE(parse_origins("")->empty());
  EXPECT_EQ(parse_origins("https://a.example:8443,http://[::1]:3000")->size(), 2U);
  for (const char* wrong : {"*", "https://*", "https://a.example/", "a.example", "null", "https://",
                            "https://A.example", "https://a.example,,", "ftp://a.example",
                            "https://a.example:port", "https://u@a.example"}) {
    EXPECT_FALSE(parse_origins(wrong).ok()) << wrong;
  }
}

TEST_F(LimitsTest, says_which_port_is_taken) {
  add_hello();
  start();
  ServerOptions same = options_;
  same.port = port();
  const auto second = Server::start(same, router_, nullptr, metrics_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kPortInUse);
  EXPECT_NE(second.error().message.find(std::to_string(port())), std::string::npos);
}

TEST_F(LimitsTest, does_not_listen_beyond_loopback_in_the_clear) {
  add_hello();
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1"}) {
    options_.host = host;
    const auto server = Server::start(options_, router_, nullptr, metrics_);
    ASSERT_FALSE(server.ok()) << host;
    EXPECT_EQ(server.error().id, ErrorId::kUnsafeListen);
  }
}

TEST_F(LimitsTest, refuses_to_start_without_a_folder_for_uploads) {
  Route made = route(Method::kPut, "/a", [](const Request&) { return Response{}; });
  made.body_to = BodyTo::kFile;
  router_.add(std::move(made));
  const auto server = Server::start(options_, router_, nullptr, metrics_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("/a"), std::string::npos);
}

}  // namespace
}  // namespace falaj::net
