#include "app/peer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/caller.h"
#include "api/native/certificates.h"
#include "net/testing/server_fixture.h"
#include "security/certificates/certificates.h"
#include "storage/open.h"

namespace falaj::app {
namespace {

using net::testing::ServerFixture;

// The other Falaj: its authority, its routes, its TLS.
class PeerTest : public ServerFixture {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({security::kAuditMigration, security::kProcessesMigration}).ok());
    security::CertificatesOptions options;
    options.folder = folder_.path() + "/theirs";
    options.names.dns_names = {"localhost"};
    options.names.addresses = {"127.0.0.1"};
    certificates_ = security::Certificates::open(options, crypto::SecretBytes(std::string(32, 'k')),
                                                 *sql_, audit_, clock_)
                        .value();
    for (net::Route& route : api::certificate_routes(certificates_.get())) {
      router_.add(std::move(route));
    }
    const crypto::Credential shown = certificates_->server();
    options_.tls.identity = {shown.chain_pem, std::string(shown.key_pem.view())};
    options_.tls.client_authorities_pem = certificates_->authority_pem();
    options_.tls.peer_name = [](std::string_view der) -> Result<std::string> {
      return FALAJ_TRY(crypto::peer_spiffe_id(der, "falaj.local")).text();
    };
    start();
  }

  std::string folder() const { return folder_.path() + "/ours"; }
  // What the other's administrator would do with `falaj certificates issue`.
  void issue() {
    const auto request = crypto::make_certificate_request().value();
    const auto issued = certificates_->issue(
        security::system_context("user:admin", ProjectName(), Zone()), "ours", request.request_pem);
    std::filesystem::create_directories(folder());
    std::ofstream(folder() + "/peer.pem") << request.key_pem.view() << issued.value().chain_pem;
  }
  Result<std::unique_ptr<Peer>> open(char key = 's') {
    return Peer::open("https://127.0.0.1:" + std::to_string(port()), folder(),
                      crypto::SecretBytes(std::string(32, key)));
  }
  std::size_t issued() { return audit_.list({}).value().size(); }

  SystemClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  security::Audit audit_{*sql_, clock_};
  std::unique_ptr<security::Certificates> certificates_;
};

TEST_F(PeerTest, what_was_issued_is_sealed_and_used) {
  issue();
  const auto peer = open().value();
  EXPECT_FALSE(std::filesystem::exists(folder() + "/peer.pem"));
  std::ostringstream sealed;
  sealed << std::ifstream(folder() + "/peer.sealed", std::ios::binary).rdbuf();
  EXPECT_EQ(sealed.str().find("PRIVATE"), std::string::npos);
  EXPECT_TRUE(peer->has_certificate());
  // By its fingerprint it believes an authority that no system knows.
  const auto client = peer->connect(Duration::seconds(20)).value();
  const auto reply = client->send(net::Method::kGet, "/api/v1/certificates/authority", "");
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
}

TEST_F(PeerTest, it_comes_back_after_a_restart_under_the_same_key_only) {
  issue();
  { ASSERT_TRUE(open().ok()); }
  EXPECT_TRUE(open().value()->has_certificate());
  const auto other = open('x');
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().id, ErrorId::kDecryptFailed);
}

TEST_F(PeerTest, it_renews_itself_when_two_thirds_of_its_life_have_passed) {
  issue();
  const auto peer = open().value();
  const Timestamp now = clock_.now();
  ASSERT_TRUE(peer->tick(now + Duration::minutes(30)).ok());
  EXPECT_EQ(issued(), 1u);
  const Status renewed = peer->tick(now + Duration::minutes(50));
  ASSERT_TRUE(renewed.ok()) << renewed.error().message;
  EXPECT_EQ(issued(), 2u);
  // With the new one it goes on, and the new one is what a restart finds.
  ASSERT_TRUE(open().value()->tick(now + Duration::minutes(50)).ok());
  EXPECT_EQ(issued(), 3u);
}

TEST_F(PeerTest, a_peer_that_is_gone_leaves_the_present_certificate_in_use) {
  issue();
  const auto peer = open().value();
  server_.reset();
  EXPECT_FALSE(peer->tick(clock_.now() + Duration::minutes(50)).ok());
  EXPECT_TRUE(peer->has_certificate());
}

TEST_F(PeerTest, without_a_certificate_it_shows_none) {
  const auto peer = open().value();
  EXPECT_FALSE(peer->has_certificate());
  EXPECT_TRUE(peer->tick(clock_.now()).ok());
}

}  // namespace
}  // namespace falaj::app
