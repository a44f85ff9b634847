#include "net/grpc_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "net/http2/testing/grpc_client.h"
#include "net/http2/unfinished.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using testing::Event;
using testing::GrpcTestClient;

class GrpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    add("/t.T/Echo", GrpcMethod::Kind::kUnary,
        [](Request&, std::string_view message, GrpcReply reply) { reply(std::string(message)); });
    add("/t.T/Chat", GrpcMethod::Kind::kStream,
        [](Request&, std::string_view message, GrpcReply reply) {
          if (message == "stop") return reply(Error(Code::kNotFound, "söme\n100% text"));
          reply("re:" + std::string(message));
        });
    add("/t.T/Whoami", GrpcMethod::Kind::kUnary,
        [](Request& request, std::string_view, GrpcReply reply) {
          reply(std::string(find_header(request.headers, "authorization")) + "|" +
                std::string(request.peer));
        });
  }
  void add(std::string_view path, GrpcMethod::Kind kind,
           std::function<void(Request&, std::string_view, GrpcReply)> answer) {
    methods_.emplace_back(path, kind, Permission::anyone(), Target::nothing(), "A test's.",
                          std::move(answer));
  }
  // "/t.T/Slow" says when it has begun, and answers "late" when it is told.
  void add_slow(Event& begun, Event& go) {
    add("/t.T/Slow", GrpcMethod::Kind::kUnary,
        [&begun, &go](Request&, std::string_view, GrpcReply reply) {
          begun.set();
          go.wait();
          reply(std::string("late"));
        });
  }
  void start() {
    auto started = GrpcServer::start(options_, methods_, gate_, metrics_);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = std::move(started).value();
  }
  static std::string framed(std::string_view message) {
    std::string bytes;
    append_message(bytes, message);
    return bytes;
  }

  GrpcOptions options_;
  std::vector<GrpcMethod> methods_;
  Gate gate_ = [](const Route&, Request&) { return Status(); };
  telemetry::Metrics metrics_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(GrpcServerTest, answers_a_call_with_its_message_and_a_status_in_the_trailers) {
  start();
  GrpcTestClient client(server_->port());
  for (const std::size_t size : {0, 1, 16'379, 16'384, 70'000, 3'000'000}) {
    const std::string message(size, 'm');
    const auto outcome = client.call("/t.T/Echo", message);
    EXPECT_EQ(outcome.status(), "0") << outcome.text();
    EXPECT_EQ(outcome.headers.at("content-type"), "application/grpc");
    ASSERT_EQ(outcome.messages().size(), 1U) << size;
    EXPECT_EQ(outcome.messages()[0], message);
  }
  EXPECT_EQ(client.call("/t.T/Whoami", "", {{"authorization", "Bearer x"}}).messages()[0],
            "Bearer x|127.0.0.1");
}

TEST_F(GrpcServerTest, answers_many_calls_of_one_connection_at_once) {
  start();
  GrpcTestClient client(server_->port());
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) {
    ids.push_back(client.begin("/t.T/Echo", framed("message " + std::to_string(i))));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.wait(ids[static_cast<std::size_t>(i)]).messages()[0],
              "message " + std::to_string(i));
  }
}

TEST_F(GrpcServerTest, ends_with_the_status_of_what_went_wrong_before_the_handler) {
  options_.message_bytes_max = 1000;
  start();
  GrpcTestClient client(server_->port());
  EXPECT_EQ(client.call("/t.T/Nothing", "x").status(), "12");
  EXPECT_EQ(client.wait(client.begin("/t.T/Echo", "")).status(), "3");
  EXPECT_EQ(client.wait(client.begin("/t.T/Echo", framed("abc").substr(0, 7))).status(), "3");
  EXPECT_EQ(client.wait(client.begin("/t.T/Echo", std::string("\2\0\0\0\0", 5))).status(), "3");
  EXPECT_EQ(client.wait(client.begin("/t.T/Echo", std::string("\1\0\0\0\1x", 6))).status(), "3")
      << "no grpc-encoding says how it is packed";
  const auto large = client.call("/t.T/Echo", std::string(1001, 'x'));
  EXPECT_EQ(large.status(), "8");
  EXPECT_NE(large.text().find("larger than max"), std::string::npos);
  EXPECT_EQ(client.call("/t.T/Echo", "x", {{"grpc-encoding", "br"}}).status(), "12");
  EXPECT_EQ(client.call("/t.T/Echo", "x", {{"grpc-timeout", "soon"}}).status(), "3");
  EXPECT_EQ(client.call("/t.T/Echo", "x", {{"origin", "https://elsewhere"}}).status(), "7");
  EXPECT_EQ(client.call("/t.T/Echo", "x", {{"big", std::string(17'000, 'x')}}).status(), "8");
  EXPECT_EQ(client.call("/t.T/Echo", "x").status(), "0") << "the connection is as good as before";
}

TEST_F(GrpcServerTest, reads_packed_messages_and_refuses_bombs) {
  options_.message_bytes_max = 1 << 20;
  start();
  GrpcTestClient client(server_->port());
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    const auto packed = [&](const std::string& plain) {
      std::string bytes = framed(deflate(plain, coding).value());
      bytes[0] = '\1';
      return bytes;
    };
    const std::vector<std::pair<std::string, std::string>> named{
        {"grpc-encoding", std::string(coding_name(coding))}};
    const auto& outcome = client.wait(client.begin("/t.T/Echo", packed("packed"), named));
    EXPECT_EQ(outcome.messages().at(0), "packed");
    EXPECT_EQ(
        client.wait(client.begin("/t.T/Echo", packed(std::string(8 << 20, '\0')), named)).status(),
        "3");
  }
}

TEST_F(GrpcServerTest, answers_a_stream_message_by_message_in_order) {
  start();
  GrpcTestClient client(server_->port());
  const std::int32_t id = client.begin("/t.T/Chat", framed("1"), {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(client.wait(id, 1).messages(), (std::vector<std::string>{"re:1"}));
  std::string many;
  std::vector<std::string> expected{"re:1"};
  for (int i = 2; i < 500; ++i) {
    many += framed(std::to_string(i));
    expected.push_back("re:" + std::to_string(i));
  }
  client.send_more(id, many, GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(client.wait(id).messages(), expected);
  EXPECT_EQ(client.wait(id).status(), "0");
  // An error ends it, with its text made safe for a header.
  const auto& ended =
      client.wait(client.begin("/t.T/Chat", framed("a") + framed("stop") + framed("b")));
  EXPECT_EQ(ended.messages(), (std::vector<std::string>{"re:a"}));
  EXPECT_EQ(ended.status(), "5");
  EXPECT_EQ(ended.text(), "s%C3%B6me%0A100%25 text");
  EXPECT_EQ(client.wait(client.begin("/t.T/Chat", "")).status(), "0") << "none in, none out";
}

TEST_F(GrpcServerTest, unpacks_on_the_pool_and_not_on_the_loop) {
  options_.pool_threads = 1;
  Event begun;
  Event go;
  add_slow(begun, go);
  start();
  GrpcTestClient client(server_->port());
  const std::int32_t running = client.begin("/t.T/Slow", framed(""));
  begun.wait();
  std::string damaged = framed("no gzip");
  damaged[0] = '\1';
  const std::int32_t packed = client.begin("/t.T/Echo", damaged, {{"grpc-encoding", "gzip"}});
  EXPECT_EQ(client.call("/t.T/Nothing", "").status(), "12");
  EXPECT_FALSE(client.wait(packed, 0).closed) << "the loop has seen it, the pool is busy";
  go.set();
  EXPECT_EQ(client.wait(packed).status(), "3");
  EXPECT_EQ(client.wait(running).status(), "0");
}

TEST_F(GrpcServerTest, gives_every_message_of_a_stream_an_id_of_its_own) {
  const auto id = [](Request& request, std::string_view, const GrpcReply& reply) {
    reply(request.request_id);
  };
  add("/t.T/Id", GrpcMethod::Kind::kUnary, id);
  add("/t.T/Ids", GrpcMethod::Kind::kStream, id);
  start();
  GrpcTestClient client(server_->port());
  const auto& stream = client.wait(
      client.begin("/t.T/Ids", framed("") + framed("") + framed(""), {{"x-request-id", "r7"}}));
  EXPECT_EQ(stream.messages(), (std::vector<std::string>{"r7-1", "r7-2", "r7-3"}));
  EXPECT_EQ(stream.headers.at("x-request-id"), "r7");
  EXPECT_EQ(client.call("/t.T/Id", "", {{"x-request-id", "r8"}}).messages().at(0), "r8");
}

TEST_F(GrpcServerTest, ends_a_stream_whose_next_message_was_begun_and_does_not_come) {
  options_.message_timeout = Duration::milliseconds(500);
  start();
  GrpcTestClient client(server_->port());
  const std::int32_t idle = client.begin("/t.T/Chat", framed("1"), {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(client.wait(idle, 1).messages().size(), 1U);
  const std::int32_t id = client.begin("/t.T/Chat", framed("1"), {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(client.wait(id, 1).messages().size(), 1U);
  client.send_more(id, framed("second").substr(0, 8), GrpcTestClient::End::kLater);
  EXPECT_EQ(client.wait(id).status(), "4");
  EXPECT_EQ(client.wait(id).messages().size(), 1U);
  client.send_more(idle, framed("2"), GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(client.wait(idle).status(), "0") << "one that has begun nothing may rest";
}

TEST_F(GrpcServerTest, gives_one_connection_no_more_than_half_of_the_room_for_messages) {
  options_.message_bytes_max = 60'000;
  options_.buffered_bytes_max = 200'000;
  start();
  const std::string part = framed(std::string(60'000, 'x')).substr(0, 59'000);
  GrpcTestClient client(server_->port());
  const std::int32_t first = client.begin("/t.T/Chat", part, {}, GrpcTestClient::End::kLater);
  const std::int32_t second = client.begin("/t.T/Chat", part, {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(client.wait(second).status(), "8");
  GrpcTestClient other(server_->port());
  EXPECT_EQ(other.call("/t.T/Echo", std::string(60'000, 'y')).status(), "0");
  client.send_more(first, std::string(1'005, 'x'), GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(client.wait(first).status(), "0") << "what the other held is free again";
}

// Whoever the gate knows.
struct Known : Caller {};

TEST_F(GrpcServerTest, asks_the_gate_for_every_message_before_the_method_sees_it) {
  static_assert(!std::is_default_constructible_v<GrpcMethod>);
  static_assert(!std::is_constructible_v<GrpcMethod, std::string_view, GrpcMethod::Kind,
                                         std::string_view, GrpcMethod::Answer>,
                "a method without a permission and a target must not compile");
  std::atomic<int> answered = 0;
  GrpcMethod method("/t.T/Read", GrpcMethod::Kind::kStream, Permission("things.read"),
                    Target::object("Thing", "name"), "Reads.",
                    [&](Request& request, std::string_view, const GrpcReply& reply) {
                      ++answered;
                      reply(request.params.at("name"));
                    });
  method.name = [](Request& request, std::string_view message) -> Status {
    if (message == "damaged") return Error(Code::kInvalidArgument, "unreadable");
    request.params["name"] = message;
    return {};
  };
  method.unnamed = Route(Method::kPost, "/t.T/Read", Permission("things.list"),
                         Target::across_projects("Thing"), "Lists.", nullptr);
  method.refused = [](const Request&, const Error& error) -> Result<std::string> {
    if (error.code == Code::kPermissionDenied) return error;
    return "told: " + error.message;
  };
  methods_.push_back(method);
  Mutex mutex;
  std::vector<std::string> asked;
  gate_ = [&](const Route& route, Request& request) -> Status {
    MutexLock lock(mutex);
    const std::string name = request.params["name"];
    asked.push_back(route.permission.action() + " " + name);
    if (name == "hidden") return Error(Code::kNotFound, "none");
    if (name == "secret") return Error(Code::kPermissionDenied, "no");
    return {};
  };
  start();
  GrpcTestClient client(server_->port());
  const auto& outcome =
      client.wait(client.begin("/t.T/Read", framed("a") + framed("damaged") + framed("hidden") +
                                                framed("") + framed("secret") + framed("b")));
  EXPECT_EQ(outcome.messages(),
            (std::vector<std::string>{"a", "told: unreadable", "told: none", ""}));
  EXPECT_EQ(outcome.status(), "7");
  EXPECT_EQ(answered.load(), 2);
  MutexLock lock(mutex);
  EXPECT_EQ(asked, (std::vector<std::string>{"things.read a", "things.read hidden", "things.list ",
                                             "things.read secret"}));
}

TEST_F(GrpcServerTest, does_not_start_with_a_declaration_that_is_none) {
  const auto dies = [&](Permission permission, Target target) {
    const GrpcMethod method("/t.T/X", GrpcMethod::Kind::kUnary, std::move(permission),
                            std::move(target), "", nullptr);
    EXPECT_DEATH((void)GrpcServer::start(options_, {method}, gate_, metrics_), "");
  };
  dies(Permission("Things"), Target::platform("Thing"));
  dies(Permission::anyone(), Target::platform("Thing"));
  dies(Permission("things.read"), Target::nothing());
  dies(Permission("things.read"), Target::object("Thing", "name"));  // Nothing reads the name.
  EXPECT_DEATH((void)GrpcServer::start(options_, methods_, nullptr, metrics_), "");
}

TEST_F(GrpcServerTest, takes_room_from_the_oldest_unfinished_message_when_there_is_none_left) {
  options_.message_bytes_max = 60'000;
  options_.buffered_bytes_max = 150'000;
  start();
  const std::string part = framed(std::string(60'000, 'x')).substr(0, 59'000);
  // Nobody that it knows holds the room with messages that never end, on several connections.
  GrpcTestClient first(server_->port());
  GrpcTestClient second(server_->port());
  const auto hold = [&](GrpcTestClient& client) {
    const std::int32_t id = client.begin("/t.T/Chat", part, {}, GrpcTestClient::End::kLater);
    EXPECT_EQ(client.call("/t.T/Echo", "").status(), "0") << "until it was read";
    return id;
  };
  const std::int32_t oldest = hold(first);
  const std::int32_t younger = hold(second);
  GrpcTestClient honest(server_->port());
  const std::int32_t mine = honest.begin("/t.T/Echo", part, {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(first.wait(oldest).status(), "8");
  EXPECT_NE(first.wait(oldest).text().find("no room left"), std::string::npos);
  honest.send_more(mine, std::string(1'005, 'x'), GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(honest.wait(mine).status(), "0");
  second.send_more(younger, std::string(1'005, 'x'), GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(second.wait(younger).status(), "0") << "one was enough";
}

TEST_F(GrpcServerTest, takes_room_from_strangers_before_it_does_from_those_it_let_through) {
  options_.message_bytes_max = 60'000;
  options_.buffered_bytes_max = 150'000;
  methods_.clear();
  methods_.emplace_back("/t.T/Chat", GrpcMethod::Kind::kStream, Permission("things.read"),
                        Target::platform("Thing"), "Says it again.",
                        [](Request&, std::string_view message, const GrpcReply& reply) {
                          reply(std::string(message));
                        });
  gate_ = [](const Route&, Request& request) {
    request.caller = std::make_shared<const Known>();
    return Status();
  };
  start();
  const std::string part = framed(std::string(60'000, 'x')).substr(0, 59'000);
  const std::string rest(1'005, 'x');
  GrpcTestClient known(server_->port());
  const std::int32_t mine = known.begin("/t.T/Chat", framed("1"), {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(known.wait(mine, 1).messages().size(), 1U);
  known.send_more(mine, part, GrpcTestClient::End::kLater);
  EXPECT_EQ(known.call("/t.T/Chat", "").status(), "0");
  GrpcTestClient stranger(server_->port());
  const std::int32_t held = stranger.begin("/t.T/Chat", part, {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(stranger.call("/t.T/Chat", "").status(), "0");
  GrpcTestClient other(server_->port());
  const std::int32_t late = other.begin("/t.T/Chat", part, {}, GrpcTestClient::End::kLater);
  EXPECT_EQ(stranger.wait(held).status(), "8") << "though the other's is older";
  known.send_more(mine, rest, GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(known.wait(mine).status(), "0");
  EXPECT_EQ(known.wait(mine).messages().size(), 2U);
  other.send_more(late, rest, GrpcTestClient::End::kAtOnce);
  EXPECT_EQ(other.wait(late).status(), "0");
}

TEST(UnfinishedMessages, give_way_by_who_sends_them_and_then_by_age) {
  UnfinishedMessages all;
  const auto turn = [&](Turn::Caller caller, std::int64_t since) {
    return Turn{caller, since, all.next_number()};
  };
  const Turn known = turn(Turn::Caller::kLetThrough, 1);
  const Turn older = turn(Turn::Caller::kUnknown, 2);
  const Turn younger = turn(Turn::Caller::kUnknown, 3);
  EXPECT_FALSE(all.gives_way_to(known).has_value());
  all.add(known, {nullptr, 1});
  EXPECT_FALSE(all.gives_way_to(older).has_value()) << "a stranger takes nothing from the known";
  EXPECT_EQ(all.gives_way_to(turn(Turn::Caller::kLetThrough, 9))->call, 1);
  all.add(younger, {nullptr, 3});
  all.add(older, {nullptr, 2});
  EXPECT_EQ(all.gives_way_to(known)->call, 2);
  EXPECT_EQ(all.gives_way_to(younger)->call, 2);
  EXPECT_FALSE(all.gives_way_to(older).has_value()) << "not even to itself";
  all.remove(older);
  EXPECT_EQ(all.gives_way_to(known)->call, 3);
}

TEST_F(GrpcServerTest, answers_no_further_than_its_client_takes_and_leaves_who_takes_nothing) {
  options_.message_timeout = Duration::milliseconds(500);
  std::atomic<int> asked = 0;
  add("/t.T/Big", GrpcMethod::Kind::kStream, [&](Request&, std::string_view, GrpcReply reply) {
    ++asked;
    reply(std::string(300'000, 'b'));
  });
  start();
  std::string ten;
  for (int i = 0; i < 10; ++i) ten += framed("");
  GrpcTestClient client(server_->port(), 0);
  const auto& cut = client.wait(client.begin("/t.T/Big", ten));
  EXPECT_EQ(asked.load(), 1) << "the first answer is still here";
  EXPECT_EQ(cut.close_code, NGHTTP2_CANCEL);
  const std::int32_t taking = client.begin("/t.T/Big", ten);
  client.grant(taking, 8 << 20);
  EXPECT_EQ(client.wait(taking).status(), "0");
  EXPECT_EQ(client.wait(taking).messages(),
            std::vector<std::string>(10, std::string(300'000, 'b')));
}

TEST_F(GrpcServerTest, tells_the_handler_that_its_caller_has_left) {
  Event begun;
  Event left;
  std::atomic<bool> gone = false;
  add("/t.T/Wait", GrpcMethod::Kind::kUnary,
      [&](Request& request, std::string_view, GrpcReply reply) {
        begun.set();
        request.gone->wait(false);
        gone = request.gone->load();
        left.set();
        reply(std::string());
      });
  start();
  GrpcTestClient client(server_->port());
  const std::int32_t id = client.begin("/t.T/Wait", framed(""));
  begun.wait();
  client.cancel(id);
  left.wait();
  EXPECT_TRUE(gone.load());
}

TEST_F(GrpcServerTest, says_unavailable_and_not_to_retry_when_its_pool_is_full) {
  options_.pool_threads = 1;
  options_.pool_queue_max = 1;
  Event begun;
  Event go;
  add_slow(begun, go);
  start();
  GrpcTestClient client(server_->port());
  const std::int32_t running = client.begin("/t.T/Slow", framed(""));
  begun.wait();
  const std::int32_t waiting = client.begin("/t.T/Slow", framed(""));
  const auto& refused = client.wait(client.begin("/t.T/Slow", framed("")));
  EXPECT_EQ(refused.status(), "14");
  EXPECT_EQ(refused.headers.at("grpc-retry-pushback-ms"), "-1");
  go.set();
  EXPECT_EQ(client.wait(running).status(), "0");
  EXPECT_EQ(client.wait(waiting).status(), "0");
}

TEST_F(GrpcServerTest, cuts_what_is_no_http2_and_lets_running_calls_finish_when_it_drains) {
  Event begun;
  Event go;
  add_slow(begun, go);
  start();
  testing::RawSocket plain(server_->port());
  plain.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(plain.rest().find("HTTP/1.1"), std::string::npos);
  GrpcTestClient client(server_->port());
  const std::int32_t id = client.begin("/t.T/Slow", framed(""));
  begun.wait();
  std::thread drains([&] { server_->drain(Duration::seconds(20)); });
  go.set();
  EXPECT_EQ(client.wait(id).messages(), (std::vector<std::string>{"late"}));
  client.wait_for_close();
  drains.join();
}

TEST(GrpcTimeout, is_digits_and_a_unit) {
  EXPECT_EQ(parse_grpc_timeout("1H"), Duration::hours(1));
  EXPECT_EQ(parse_grpc_timeout("100m"), Duration::milliseconds(100));
  EXPECT_EQ(parse_grpc_timeout("7u")->nanos, 7000);
  EXPECT_EQ(parse_grpc_timeout("99999999n")->nanos, 99'999'999);
  for (const char* wrong : {"", "1", "S", "-1S", "1s", "123456789S", "1.5S", " 1S"}) {
    EXPECT_FALSE(parse_grpc_timeout(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace falaj::net
