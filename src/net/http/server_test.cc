#include "net/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/hash.h"
#include "base/json.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

class HttpServerTest : public ServerFixture {};

TEST_F(HttpServerTest, answers_on_the_loop_and_on_the_pool) {
  add_hello();
  std::thread::id pool_thread;
  add_on_pool(Method::kPost, "/api/v1/deployments/{name}:predict", [&](const Request& request) {
    pool_thread = std::this_thread::get_id();
    EXPECT_EQ(request.peer, "127.0.0.1");
    return Response::json("{\"" + request.params.at("name") + "\":" + request.body + "}", 201);
  });
  start();
  EXPECT_EQ(body_of(ask(request_text("GET /hello"))), "hello");
  const std::string reply =
      ask(request_text("POST /api/v1/deployments/fraud:predict?x=1", "", "[7]"));
  EXPECT_EQ(status_of(reply), 201);
  EXPECT_EQ(body_of(reply), "{\"fraud\":[7]}");
  EXPECT_NE(pool_thread, std::this_thread::get_id());
}

TEST_F(HttpServerTest, keeps_the_connection_and_answers_pipelined_requests_in_order) {
  add_on_loop(Method::kGet, "/loop/{n}",
              [](const Request& request) { return Response::text(request.params.at("n")); });
  add_on_pool(Method::kGet, "/pool/{n}",
              [](const Request& request) { return Response::text(request.params.at("n")); });
  start();
  RawSocket socket(port());
  std::string all;
  for (int i = 0; i < 300; ++i) {
    all += request_text("GET /" + std::string(i % 3 == 0 ? "pool/" : "loop/") + std::to_string(i));
  }
  ASSERT_TRUE(socket.write(all));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(body_of(socket.reply()), std::to_string(i));
}

TEST_F(HttpServerTest, takes_a_request_byte_by_byte) {
  add_on_loop(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
  start();
  RawSocket socket(port());
  for (const char c : request_text("POST /echo", "", "abc")) {
    ASSERT_TRUE(socket.write(std::string_view(&c, 1)));
  }
  EXPECT_EQ(body_of(socket.reply()), "abc");
}

TEST_F(HttpServerTest, reads_chunked_bodies) {
  add_on_pool(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
  start();
  RawSocket socket(port());
  const std::string text = request_text("POST /echo", "Transfer-Encoding: chunked\r\n") +
                           "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n" +
                           request_text("POST /echo");
  socket.write(text);
  EXPECT_EQ(body_of(socket.reply()), "hello world");
  EXPECT_EQ(status_of(socket.reply()), 200);
}

TEST_F(HttpServerTest, sends_large_bodies_whole) {
  std::string large(5 << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>('a' + i % 26);
  add_on_loop(Method::kGet, "/owned", [&](const Request&) { return Response::text(large); });
  add_on_loop(Method::kGet, "/static", [&](const Request&) {
    Response response = Response::text("");
    response.static_body = large;
    return response;
  });
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /owned") + request_text("GET /static") +
               request_text("GET /owned"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(body_of(socket.reply()), large);
}

TEST_F(HttpServerTest, answers_head_like_get_without_the_body) {
  add_hello();
  start();
  RawSocket socket(port());
  socket.write(request_text("HEAD /hello") + request_text("GET /hello"));
  const std::string head = socket.reply(RawSocket::Expect::kHeadOnly);
  EXPECT_NE(head.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(body_of(socket.reply()), "hello");
}

TEST_F(HttpServerTest, says_not_found_and_wrong_method_in_the_dialect_of_the_path) {
  add_hello();
  add_on_loop(Method::kGet, "/v2/models/{m}", [](const Request&) { return Response{}; });
  start();
  const std::string unknown = ask(request_text("GET /hello/"));
  EXPECT_EQ(status_of(unknown), 404);
  const Value problem_body = parse_json(body_of(unknown)).value();
  EXPECT_EQ(problem_body.text("code"), "FJ-0004");
  EXPECT_EQ(problem_body.integer("status"), 404);
  const std::string wrong = ask(request_text("DELETE /hello"));
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_NE(wrong.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
  EXPECT_EQ(body_of(ask(request_text("GET /v2/nothing"))), R"({"error":"Not Found"})");
  EXPECT_EQ(body_of(ask(request_text("PUT /v2/models/a"))), R"({"error":"Method Not Allowed"})");
  EXPECT_EQ(status_of(ask(request_text("PUT /v2/models/a"))), 405);
}

TEST_F(HttpServerTest, a_refused_body_ends_the_connection) {
  add_hello();
  start();
  RawSocket socket(port());
  // Were the body taken for a request, "/hello" would be answered.
  socket.write(request_text("POST /nothing", "", request_text("GET /hello")));
  EXPECT_EQ(status_of(socket.reply()), 404);
  EXPECT_EQ(socket.rest(), "");
}

TEST_F(HttpServerTest, closes_after_http_1_0_and_after_connection_close) {
  add_hello();
  start();
  for (const char* text : {"GET /hello HTTP/1.0\r\n\r\n",
                           "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}) {
    RawSocket socket(port());
    socket.write(text);
    const std::string reply = socket.rest();
    EXPECT_TRUE(reply.ends_with("\r\n\r\nhello")) << reply;
    EXPECT_NE(reply.find("\r\nConnection: close\r\n"), std::string::npos);
  }
}

TEST_F(HttpServerTest, answers_a_client_that_has_finished_writing) {
  add_on_pool(Method::kGet, "/hello", [](const Request&) { return Response::text("hello"); });
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /hello"));
  socket.finish_writing();
  EXPECT_TRUE(socket.rest().ends_with("hello"));
}

TEST_F(HttpServerTest, takes_over_sound_ids_and_makes_others) {
  add_on_pool(Method::kGet, "/ids", [](const Request& request) {
    return Response::text(request.request_id + " " + request.traceparent);
  });
  start();
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const std::string kept =
      ask(request_text("GET /ids", "X-Request-Id: my-1.x_Y\r\ntraceparent: " + parent + "\r\n"));
  EXPECT_EQ(body_of(kept), "my-1.x_Y " + parent);
  EXPECT_NE(kept.find("\r\nX-Request-Id: my-1.x_Y\r\n"), std::string::npos);
  EXPECT_NE(kept.find("\r\ntraceparent: " + parent + "\r\n"), std::string::npos);
  const std::string made =
      ask(request_text("GET /ids", "X-Request-Id: a b\"<script>\r\ntraceparent: 00-0-0-0\r\n"));
  EXPECT_EQ(made.find("script"), std::string::npos);
  EXPECT_EQ(body_of(made).size(), 16u + 1 + 55);
  EXPECT_NE(body_of(ask(request_text("GET /ids"))), body_of(ask(request_text("GET /ids"))));
}

TEST_F(HttpServerTest, the_gate_decides_before_the_handler) {
  std::atomic<int> handled = 0;
  for (const char* path : {"/loop", "/pool", "/v2/x"}) {
    Route made = route(Method::kPost, path, [&](const Request& request) {
      ++handled;
      return Response::text(std::string(find_header(request.headers, "X-Principal")));
    });
    made.runs_on = std::string_view(path) == "/loop" ? RunsOn::kLoop : RunsOn::kPool;
    made.dialect = std::string_view(path) == "/v2/x" ? "inference" : "native";
    router_.add(std::move(made));
  }
  gate_ = [](const Route& asked, Request& request) -> Status {
    EXPECT_EQ(asked.permission.action(), "public.read");
    if (find_header(request.headers, "Authorization").empty()) {
      return Error(Code::kUnauthenticated, "who are you?");
    }
    request.headers.emplace_back("X-Principal", "amal");
    return {};
  };
  start();
  // Over 64 KiB the gate is asked before the body is read; the answer is the same.
  for (const std::string& body : {std::string("x"), std::string(100'000, 'x')}) {
    for (const std::string path : {"/loop", "/pool"}) {
      const std::string denied = ask(request_text("POST " + path, "", body));
      EXPECT_EQ(status_of(denied), 401) << path << body.size();
      EXPECT_EQ(parse_json(body_of(denied)).value().text("detail"), "who are you?");
      EXPECT_EQ(body_of(ask(request_text("POST " + path, "Authorization: a\r\n", body))), "amal");
    }
  }
  EXPECT_EQ(body_of(ask(request_text("POST /v2/x"))), R"({"error":"who are you?"})");
  EXPECT_EQ(handled, 4);
}

TEST_F(HttpServerTest, a_gate_that_blocks_runs_on_the_pool) {
  std::thread::id gate_thread;
  std::thread::id loop_thread;
  Route made(Method::kPost, "/loop", Permission::anyone(), Target::nothing(), "Usually quick.",
             [](const Request& request) { return Response::text(request.principal); });
  made.runs_on = RunsOn::kLoop;
  router_.add(std::move(made));
  options_.loop_threads = 1;
  options_.gate_blocks = [&](const Request& request) {
    loop_thread = std::this_thread::get_id();
    return !find_header(request.headers, "Authorization").empty();
  };
  gate_ = [&](const Route&, Request& request) -> Status {
    gate_thread = std::this_thread::get_id();
    request.principal = "somebody";
    return {};
  };
  start();
  for (const std::size_t size : {std::size_t{2}, std::size_t{100'000}}) {
    const std::string body(size, 'x');
    EXPECT_EQ(body_of(ask(request_text("POST /loop", "", body))), "somebody");
    EXPECT_EQ(gate_thread, loop_thread);
    EXPECT_EQ(body_of(ask(request_text("POST /loop", "Authorization: slow\r\n", body))),
              "somebody");
    EXPECT_NE(gate_thread, loop_thread);
  }
}

// What made the gate block, the handler may wait for too: an idle model that loads.
TEST_F(HttpServerTest, a_handler_that_may_block_runs_on_the_pool_also_after_its_gate) {
  std::atomic<bool> idle = false;
  std::thread::id loop_thread;
  std::thread::id handler_thread;
  add_on_loop(Method::kPost, "/loop", [&](const Request& request) {
    handler_thread = std::this_thread::get_id();
    return Response::text(request.body);
  });
  options_.loop_threads = 1;
  options_.gate_blocks = [&](const Request&) {
    loop_thread = std::this_thread::get_id();
    return idle.load();
  };
  gate_ = [](const Route&, Request&) -> Status { return {}; };
  start();
  const std::string chunked =
      "POST /loop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\n\r\n";
  const std::string large(100'000, 'x');
  for (const bool blocks : {false, true}) {
    idle = blocks;
    EXPECT_EQ(body_of(ask(chunked)), "abc");
    EXPECT_EQ(handler_thread != loop_thread, blocks) << "chunked";
    EXPECT_EQ(body_of(ask(request_text("POST /loop", "", large))), large);
    EXPECT_EQ(handler_thread != loop_thread, blocks) << "large";
  }
}

TEST_F(HttpServerTest, an_asynchronous_handler_answers_later_from_any_thread) {
  Event asked;
  Reply kept;
  const Request* seen = nullptr;
  for (const RunsOn where : {RunsOn::kLoop, RunsOn::kPool}) {
    Route made(Method::kGet, where == RunsOn::kLoop ? "/loop" : "/pool", Permission::anyone(),
               Target::nothing(), "Answers later.", nullptr);
    made.runs_on = where;
    made.handler = [&](const Request& request, Reply reply) {
      seen = &request;
      kept = std::move(reply);
      asked.set();
    };
    router_.add(std::move(made));
  }
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /pool"));
  ASSERT_TRUE(asked.wait());
  EXPECT_EQ(seen->path, "/pool");  // Still there until it is answered.
  kept(Response::text("first"));
  kept(Response::text("second"));  // Too late: dropped.
  EXPECT_EQ(body_of(socket.reply()), "first");
  kept = nullptr;
}

TEST_F(HttpServerTest, a_forgotten_request_is_answered_500) {
  Route made(Method::kGet, "/forgets", Permission::anyone(), Target::nothing(), "Forgets.",
             nullptr);
  made.handler = [](const Request&, const Reply&) {};
  router_.add(std::move(made));
  start();
  EXPECT_EQ(status_of(ask(request_text("GET /forgets"))), 500);
}

TEST_F(HttpServerTest, a_late_answer_survives_its_client_and_its_server) {
  Event asked;
  Reply kept;
  Route made(Method::kGet, "/later", Permission::anyone(), Target::nothing(), "Answers late.",
             nullptr);
  made.handler = [&](const Request&, Reply reply) {
    kept = std::move(reply);
    asked.set();
  };
  router_.add(std::move(made));
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /later"));
  ASSERT_TRUE(asked.wait());
  socket.close();
  server_->drain(Duration::milliseconds(1));
  server_.reset();
  kept(Response::text("too late"));
  kept = nullptr;
}

TEST_F(HttpServerTest, an_exception_of_a_library_is_a_500) {
  const SyncHandler throws = [](const Request&) -> Response { throw std::runtime_error("broken"); };
  add_on_loop(Method::kGet, "/loop", throws);
  add_on_pool(Method::kGet, "/pool", throws);
  start();
  EXPECT_EQ(status_of(ask(request_text("GET /loop"))), 500);
  EXPECT_EQ(status_of(ask(request_text("GET /pool"))), 500);
}

TEST_F(HttpServerTest, a_full_pool_says_503_at_once) {
  options_.pool_threads = 1;
  options_.pool_queue_max = 1;
  Event release;
  std::atomic<int> running = 0;
  Event occupied;
  add_on_pool(Method::kGet, "/slow", [&](const Request&) {
    ++running;
    occupied.set();
    release.wait();
    return Response::text("done");
  });
  start();
  RawSocket first(port());
  first.write(request_text("GET /slow"));
  ASSERT_TRUE(occupied.wait());
  // One runs and one waits: of two more, exactly one finds no room and is answered first.
  RawSocket second(port());
  RawSocket third(port());
  second.write(request_text("GET /slow"));
  third.write(request_text("GET /slow"));
  std::array<pollfd, 2> waiting{
      {{second.descriptor(), POLLIN, 0}, {third.descriptor(), POLLIN, 0}}};
  ASSERT_GT(::poll(waiting.data(), waiting.size(), 20'000), 0);
  const bool second_refused = (waiting[0].revents & POLLIN) != 0;
  const std::string refused = (second_refused ? second : third).reply();
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_NE(refused.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  release.set();
  EXPECT_EQ(status_of(first.reply()), 200);
  EXPECT_EQ(status_of((second_refused ? third : second).reply()), 200);
  EXPECT_EQ(running, 2);
}

TEST_F(HttpServerTest, spools_large_bodies) {
  options_.make_spool = make_memory_spool;
  Route made = route(Method::kPut, "/files/{name}", [&](const Request& request) {
    const std::string content = read_whole(*request.body_file).value();
    EXPECT_TRUE(request.body.empty());
    return Response::text(std::to_string(hash64(content)) + " " + std::to_string(content.size()));
  });
  made.body_to = BodyTo::kFile;
  made.body_bytes_max = 64 << 20;
  router_.add(std::move(made));
  start();
  std::string body(7 << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 13) body[i] = static_cast<char>(i % 251);
  for (const std::string& sent : {body, std::string("small"), std::string()}) {
    RawSocket socket(port());
    socket.write(request_text("PUT /files/a", "", sent));
    EXPECT_EQ(body_of(socket.reply()),
              std::to_string(hash64(sent)) + " " + std::to_string(sent.size()));
  }
}

TEST_F(HttpServerTest, says_when_a_large_body_cannot_be_kept) {
  options_.make_spool = []() -> Result<std::unique_ptr<Spool>> {
    return Error(ErrorId::kDataFolderFull, "no room");
  };
  Route made = route(Method::kPut, "/a", [](const Request&) { return Response{}; });
  made.body_to = BodyTo::kFile;
  router_.add(std::move(made));
  start();
  RawSocket socket(port());
  socket.write(request_text("PUT /a", "", "body"));
  EXPECT_EQ(status_of(socket.reply()), 507);
}

TEST_F(HttpServerTest, counts_by_declared_route_never_by_path) {
  add_on_loop(Method::kGet, "/a/{x}", [](const Request&) { return Response{}; });
  start();
  ask(request_text("GET /a/secret-1"));
  ask(request_text("GET /a/secret-2"));
  ask(request_text("GET /secret-3"));
  server_->drain(Duration::seconds(5));
  const std::string text = metrics_.exposition();
  EXPECT_NE(
      text.find("falaj_http_requests_total{route=\"/a/{x}\",method=\"GET\",status=\"200\"} 2"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("route=\"unmatched\",method=\"GET\",status=\"404\"} 1"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_NE(text.find("falaj_http_request_seconds_count{route=\"/a/{x}\"} 2"), std::string::npos);
  EXPECT_NE(text.find("falaj_http_connections 0"), std::string::npos);
}

TEST_F(HttpServerTest, tells_a_handler_that_answers_later_that_its_client_has_left) {
  testing::Event begun;
  testing::Event left;
  Route waits = route(Method::kPost, "/waits", nullptr);
  waits.handler = [&](const Request& request, const Reply& reply) {
    begun.set();
    request.gone->wait(false);
    left.set();
    reply(Response::text("nobody reads this"));
  };
  router_.add(std::move(waits));
  start();
  {
    RawSocket socket(port());
    socket.write(request_text("POST /waits", "", "x"));
    begun.wait();
  }
  EXPECT_TRUE(left.wait());
}

TEST_F(HttpServerTest, serves_many_threads_of_clients) {
  add_on_loop(Method::kGet, "/loop/{n}",
              [](const Request& r) { return Response::text(r.params.at("n")); });
  add_on_pool(Method::kGet, "/pool/{n}",
              [](const Request& r) { return Response::text(r.params.at("n")); });
  start();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      RawSocket socket(port());
      for (int i = 0; i < 100; ++i) {
        const std::string n = std::to_string(t * 1000 + i);
        socket.write(request_text("GET /" + std::string(i % 2 == 0 ? "loop/" : "pool/") + n));
        if (body_of(socket.reply()) == n) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

}  // namespace
}  // namespace falaj::net
