#include "net/tls/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <fstream>
#include <string>

#include "net/client.h"
#include "net/testing/certificate.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;
using SslContext = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
using SslSession = std::unique_ptr<SSL, void (*)(SSL*)>;

class TlsTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.tls.identity = authority_.issue({});
    add_hello();
    add_on_loop(Method::kGet, "/peer", [](const Request& r) { return Response::text(r.tls_peer); });
    add_on_pool(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
  }
  ClientOptions client_options() {
    ClientOptions options;
    options.base_url = "https://127.0.0.1:" + std::to_string(port());
    options.tls.authority = authority_.file_in(folder_.path());
    return options;
  }
  Result<ClientReply> get(const ClientOptions& options, std::string_view path = "/hello") {
    return Client::create(options).value()->send(Method::kGet, path, "");
  }

  // The version and suite agreed with a client that is set up by `change`; "" when refused.
  std::string shake_hands(const std::function<void(SSL_CTX*)>& change) {
    const SslContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    change(context.get());
    RawSocket socket(port());
    const SslSession session(SSL_new(context.get()), SSL_free);
    SSL_set_fd(session.get(), socket.descriptor());
    if (SSL_connect(session.get()) != 1) return "";
    return std::string(SSL_get_version(session.get())) + " " + SSL_get_cipher_name(session.get());
  }

  TestAuthority authority_;
};

TEST_F(TlsTest, speaks_1_3_and_nothing_older) {
  start();
  EXPECT_EQ(shake_hands([](SSL_CTX*) {}), "TLSv1.3 TLS_AES_256_GCM_SHA384");
  EXPECT_EQ(shake_hands([](SSL_CTX* c) { SSL_CTX_set_max_proto_version(c, TLS1_2_VERSION); }), "");
}

TEST_F(TlsTest, agrees_on_two_suites_and_two_groups_only) {
  start();
  const auto suite = [&](const char* name) {
    return shake_hands([&](SSL_CTX* c) { SSL_CTX_set_ciphersuites(c, name); });
  };
  EXPECT_NE(suite("TLS_CHACHA20_POLY1305_SHA256"), "");
  EXPECT_EQ(suite("TLS_AES_128_GCM_SHA256"), "");
  const auto group = [&](const char* name) {
    return shake_hands([&](SSL_CTX* c) { SSL_CTX_set1_groups_list(c, name); });
  };
  EXPECT_NE(group("P-256"), "");
  EXPECT_EQ(group("P-521"), "");
  EXPECT_EQ(group("ffdhe2048"), "");
}

TEST_F(TlsTest, gives_no_ticket_to_resume_with) {
  start();
  const SslContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  int tickets = 0;
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT);
  SSL_CTX_set_app_data(context.get(), &tickets);
  SSL_CTX_sess_set_new_cb(context.get(), [](SSL* s, SSL_SESSION*) {
    ++*static_cast<int*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(s)));
    return 0;
  });
  RawSocket socket(port());
  const SslSession session(SSL_new(context.get()), SSL_free);
  SSL_set_fd(session.get(), socket.descriptor());
  ASSERT_EQ(SSL_connect(session.get()), 1);
  const std::string request = request_text("GET /hello");
  SSL_write(session.get(), request.data(), static_cast<int>(request.size()));
  char reply[4096];
  ASSERT_GT(SSL_read(session.get(), reply, sizeof reply), 0);  // A ticket would have come before.
  EXPECT_EQ(tickets, 0);
  EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get0_session(session.get())), 0);
}

TEST_F(TlsTest, the_rehearsal_notices_a_context_that_speaks_1_2) {
  const TlsContext good = make_server_tls(options_.tls).value();
  EXPECT_TRUE(prove_version(*good).ok());
  SSL_CTX_set_min_proto_version(good.get(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(good.get(), 0);
  const Status old = prove_version(*good);
  ASSERT_FALSE(old.ok());
  EXPECT_NE(old.error().message.find("1.2"), std::string::npos);
  const TlsContext weak = make_server_tls(options_.tls).value();
  SSL_CTX_set_ciphersuites(weak.get(), "TLS_AES_128_GCM_SHA256");
  EXPECT_FALSE(prove_version(*weak).ok());
}

TEST_F(TlsTest, serves_small_and_large_bodies_over_one_connection) {
  start();
  const auto client = Client::create(client_options()).value();
  EXPECT_EQ(client->send(Method::kGet, "/hello", "").value().body, "hello");
  std::string body(3 << 20, 'x');
  for (std::size_t i = 0; i < body.size(); i += 11) body[i] = static_cast<char>('a' + i % 26);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client->send(Method::kPost, "/echo", body).value().body, body);
  }
  EXPECT_EQ(client->send(Method::kGet, "/hello", "").value().body, "hello");
}

TEST_F(TlsTest, answers_requests_that_share_a_record_or_are_cut_into_many) {
  start();
  const SslContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  RawSocket socket(port());
  const SslSession session(SSL_new(context.get()), SSL_free);
  SSL_set_fd(session.get(), socket.descriptor());
  ASSERT_EQ(SSL_connect(session.get()), 1);
  const auto replies = [&](int wanted) {
    std::string seen;
    int found = 0;
    while (found < wanted) {
      char reply[4096];
      const int size = SSL_read(session.get(), reply, sizeof reply);
      if (size <= 0) break;
      seen.append(reply, static_cast<std::size_t>(size));
      found = 0;
      for (std::size_t at = seen.find("HTTP/1.1 200"); at != std::string::npos;
           at = seen.find("HTTP/1.1 200", at + 1)) {
        ++found;
      }
    }
    return found;
  };
  std::string many;
  for (int i = 0; i < 100; ++i) many += request_text("GET /hello");
  SSL_write(session.get(), many.data(), static_cast<int>(many.size()));
  EXPECT_EQ(replies(100), 100);
  for (const char c : request_text("GET /hello")) SSL_write(session.get(), &c, 1);
  EXPECT_EQ(replies(1), 1);
}

TEST_F(TlsTest, the_client_checks_who_answers) {
  start();
  ClientOptions unknown_authority = client_options();
  unknown_authority.tls.authority = "";
  const auto reply = get(unknown_authority);
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message.find("certificate"), std::string::npos) << reply.error().message;

  ClientOptions other_name = client_options();  // Loopback too, but not in the certificate.
  other_name.base_url = "https://127.0.0.2:" + std::to_string(port());
  EXPECT_FALSE(get(other_name).ok());
  ClientOptions by_name = client_options();
  by_name.base_url = "https://localhost:" + std::to_string(port());
  EXPECT_TRUE(get(by_name).ok());
}

TEST_F(TlsTest, the_client_believes_a_fingerprint) {
  start();
  ClientOptions pinned = client_options();
  pinned.tls.authority = authority_.pin();
  EXPECT_TRUE(get(pinned).ok());
  pinned.base_url = "https://127.0.0.2:" + std::to_string(port());
  EXPECT_FALSE(get(pinned).ok());  // The name counts all the same.
  ClientOptions other = client_options();
  other.tls.authority = TestAuthority().pin();
  EXPECT_FALSE(get(other).ok());
  for (const char* wrong : {"sha256:", "sha256:12", "sha256:zz"}) {
    other.tls.authority = wrong;
    EXPECT_FALSE(Client::create(other).ok()) << wrong;
  }
  other.tls.authority = authority_.pin() + "00";
  EXPECT_FALSE(Client::create(other).ok());
}

TEST_F(TlsTest, a_pin_does_not_cover_for_an_expired_certificate) {
  options_.tls.identity = authority_.issue({.from = -7200, .until = -3600});
  start();
  ClientOptions pinned = client_options();
  pinned.tls.authority = authority_.pin();
  EXPECT_FALSE(get(pinned).ok());
}

TEST_F(TlsTest, plain_http_to_a_tls_port_is_told_so) {
  start();
  for (const char* line : {"GET /hello", "POST /echo", "PUT /x", "HEAD /hello"}) {
    RawSocket socket(port());
    socket.write(request_text(line));
    const std::string reply = socket.rest();
    EXPECT_EQ(status_of(reply), 400) << line;
    EXPECT_NE(reply.find("https://"), std::string::npos) << line;
    EXPECT_EQ(reply.find("hello"), std::string::npos);
  }
}

TEST_F(TlsTest, rubbish_is_cut) {
  start();
  RawSocket socket(port());
  socket.write(std::string(500, '\x01'));
  EXPECT_EQ(socket.rest().find("HTTP"), std::string::npos);
}

TEST_F(TlsTest, a_client_that_never_shakes_hands_is_cut) {
  options_.header_timeout = Duration::milliseconds(40);
  start();
  RawSocket socket(port());
  EXPECT_EQ(socket.rest(), "");
}

TEST_F(TlsTest, a_client_that_shakes_hands_a_byte_at_a_time_is_cut) {
  options_.header_timeout = Duration::milliseconds(60);
  start();
  RawSocket socket(port());
  const std::string hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  socket.write(hello);
  pollfd waiting{socket.descriptor(), POLLIN, 0};
  int sent = 0;
  while (::poll(&waiting, 1, 1) == 0 && sent < 400 && socket.write("a")) ++sent;
  socket.rest();
  EXPECT_LT(sent, 400);
}

TEST_F(TlsTest, a_renewed_identity_is_shown_to_new_connections_only) {
  start();
  const auto old = Client::create(client_options()).value();
  ASSERT_TRUE(old->send(Method::kGet, "/hello", "").ok());
  TestAuthority other;
  ASSERT_TRUE(server_->renew(other.issue({})).ok());
  EXPECT_TRUE(old->send(Method::kGet, "/hello", "").ok());
  EXPECT_FALSE(get(client_options()).ok());
  ClientOptions to_new = client_options();
  to_new.tls.authority = other.pin();
  EXPECT_TRUE(get(to_new).ok());
  // What cannot be used changes nothing.
  EXPECT_FALSE(server_->renew({other.issue({}).chain_pem, other.issue({}).key_pem}).ok());
  EXPECT_FALSE(server_->renew({"", ""}).ok());
  EXPECT_TRUE(get(to_new).ok());
}

class MutualTlsTest : public TlsTest {
 protected:
  void SetUp() override {
    TlsTest::SetUp();
    options_.tls.client_authorities_pem = authority_.pem();
    // The tests' stand-in for crypto::peer_spiffe_id: the text of the only URI.
    options_.tls.peer_name = [](std::string_view der) -> Result<std::string> {
      const std::string_view scheme = "spiffe://ours/";
      const std::size_t at = der.find(scheme);
      if (at == std::string_view::npos) return Error(ErrorId::kPeerRefused, "not ours");
      return std::string(der.substr(at, scheme.size() + 1));
    };
  }
  ClientOptions client_as(TlsIdentity identity) {
    ClientOptions options = client_options();
    options.tls.identity = std::move(identity);
    return options;
  }
};

TEST_F(MutualTlsTest, names_a_client_by_its_certificate) {
  start();
  EXPECT_EQ(get(client_as(authority_.issue({.names = "URI:spiffe://ours/a"})), "/peer")->body,
            "spiffe://ours/a");
  EXPECT_EQ(get(client_options(), "/peer")->body, "");  // None shown, none needed.
}

TEST_F(MutualTlsTest, names_no_client_by_it_for_a_page_of_another_origin) {
  Route model = route(Method::kGet, "/v2/models/{model}",
                      [](const Request& r) { return Response::text("peer:" + r.tls_peer); });
  model.dialect = "inference";
  router_.add(std::move(model));
  options_.cors_origins = parse_origins("https://app.example").value();
  start();
  ClientOptions options = client_as(authority_.issue({.names = "URI:spiffe://ours/a"}));
  EXPECT_EQ(get(options, "/v2/models/m")->body, "peer:spiffe://ours/a");
  options.headers.emplace_back("Origin", "https://app.example");
  EXPECT_EQ(get(options, "/v2/models/m")->body, "peer:");
}

TEST_F(MutualTlsTest, refuses_a_bad_certificate_in_the_handshake) {
  start();
  TestAuthority stranger;
  const std::pair<TlsIdentity, const char*> refused[] = {
      {stranger.issue({.names = "URI:spiffe://ours/a"}), "unknown authority"},
      {authority_.issue({.names = "URI:spiffe://theirs/a"}), "other trust domain"},
      {authority_.issue({.names = "DNS:localhost"}), "no URI"},
      {authority_.issue({.names = "URI:spiffe://ours/a", .from = -7200, .until = -60}), "expired"},
      {authority_.issue({.names = "URI:spiffe://ours/a", .from = 600, .until = 7200}), "not yet"},
  };
  for (const auto& [identity, why] : refused) {
    EXPECT_FALSE(get(client_as(identity), "/hello").ok()) << why;
  }
}

TEST_F(MutualTlsTest, a_connection_does_not_outlive_its_certificate) {
  start();
  // Valid for a second or two: alive for the handshake, soon not any more.
  const auto client =
      Client::create(client_as(authority_.issue({.names = "URI:spiffe://ours/a", .until = 2})))
          .value();
  int status = 200;
  const std::int64_t limit = monotonic_nanos() + Duration::seconds(20).nanos;
  while (status == 200 && monotonic_nanos() < limit) {
    const auto reply = client->send(Method::kGet, "/peer", "");
    if (!reply.ok()) break;  // The next connection, with what is expired by now.
    status = reply->status;
  }
  EXPECT_EQ(status, 401);
}

TEST_F(TlsTest, streams_and_drains) {
  Event opened;
  std::shared_ptr<Stream> stream;
  add_on_pool(Method::kGet, "/events", [&](const Request&) {
    Response response;
    response.on_stream = [&](std::shared_ptr<Stream> made) {
      stream = std::move(made);
      stream->send("data: 1\n\n");
      opened.set();
    };
    return response;
  });
  start();
  const auto client = Client::create(client_options()).value();
  std::string seen;
  const Status status = client->stream("/events", [&](std::string_view data) {
    seen += data;
    stream->close();
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(seen, "1");
  server_->drain(Duration::seconds(10));
}

TEST_F(TlsTest, says_what_is_wrong_with_an_identity) {
  const TlsIdentity good = options_.tls.identity;
  options_.tls.identity.key_pem = "not a key";
  auto server = Server::start(options_, router_, nullptr, metrics_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("key"), std::string::npos);
  options_.tls.identity = {"not a certificate", good.key_pem};
  server = Server::start(options_, router_, nullptr, metrics_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("certificate"), std::string::npos);
  options_.tls.identity = {good.chain_pem, authority_.issue({}).key_pem};
  EXPECT_FALSE(Server::start(options_, router_, nullptr, metrics_).ok());
}

}  // namespace
}  // namespace falaj::net
