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

class TlsTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.tls = make_certificate(folder_.path());
    add_hello();
    add_on_pool(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
  }
  ClientOptions client_options() {
    ClientOptions options;
    options.base_url = "https://127.0.0.1:" + std::to_string(port());
    options.ca_file = options_.tls.certificate;
    return options;
  }

  // The protocol agreed with a client that speaks at most `version`; "" when refused.
  std::string handshake_with(int version) {
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                               SSL_CTX_free);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), version);
    RawSocket socket(port());
    const std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context.get()), SSL_free);
    SSL_set_fd(session.get(), socket.descriptor());
    return SSL_connect(session.get()) == 1 ? SSL_get_version(session.get()) : "";
  }
};

TEST_F(TlsTest, speaks_1_3_and_nothing_older) {
  start();
  EXPECT_EQ(handshake_with(TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(handshake_with(TLS1_2_VERSION), "");
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

TEST_F(TlsTest, the_client_checks_who_answers) {
  start();
  ClientOptions unknown_authority = client_options();
  unknown_authority.ca_file = "";
  auto client = Client::create(unknown_authority).value();
  const auto reply = client->send(Method::kGet, "/hello", "");
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message.find("certificate"), std::string::npos) << reply.error().message;

  ClientOptions other_name = client_options();  // Loopback too, but not in the certificate.
  other_name.base_url = "https://127.0.0.2:" + std::to_string(port());
  EXPECT_FALSE(Client::create(other_name).value()->send(Method::kGet, "/hello", "").ok());
  ClientOptions by_name = client_options();
  by_name.base_url = "https://localhost:" + std::to_string(port());
  EXPECT_TRUE(Client::create(by_name).value()->send(Method::kGet, "/hello", "").ok());
}

TEST_F(TlsTest, plain_http_to_a_tls_port_is_cut) {
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /hello"));
  EXPECT_EQ(socket.rest().find("hello"), std::string::npos);
}

TEST_F(TlsTest, a_client_that_never_shakes_hands_is_cut) {
  options_.header_timeout = Duration::milliseconds(40);
  start();
  RawSocket socket(port());
  EXPECT_EQ(socket.rest(), "");
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

TEST_F(TlsTest, names_a_certificate_that_cannot_be_read) {
  options_.tls.certificate = folder_.path() + "/none.pem";
  auto server = Server::start(options_, router_, nullptr, metrics_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("none.pem"), std::string::npos);
  options_.tls = make_certificate(folder_.path());
  std::ofstream(options_.tls.key) << "not a key";
  server = Server::start(options_, router_, nullptr, metrics_);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("key.pem"), std::string::npos);
}

}  // namespace
}  // namespace falaj::net
