// A real server and real certificates: which peers it lets in, and under which name.
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "crypto/x509.h"
#include "net/client.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;
using crypto::CertificateAuthority;
using crypto::Credential;

constexpr const char* kDomain = "falaj.local";

TlsIdentity identity_of(const Credential& credential) {
  return {credential.chain_pem, std::string(credential.key_pem.view())};
}

class TlsPeersTest : public ServerFixture {
 protected:
  void SetUp() override {
    const Credential own =
        authority_
            .issue_server(
                {.dns_names = {"localhost"}, .addresses = {"127.0.0.1"}, .path = "/server"}, now(),
                Duration::hours(1))
            .value();
    options_.tls.identity = identity_of(own);
    options_.tls.client_authorities_pem = authority_.certificate_pem();
    options_.tls.peer_name = [](std::string_view der) -> Result<std::string> {
      return FALAJ_TRY(crypto::peer_spiffe_id(der, kDomain)).text();
    };
    add_on_loop(Method::kGet, "/peer", [](const Request& r) { return Response::text(r.tls_peer); });
    start();
    ca_file_ = folder_.path() + "/ca.pem";
    std::ofstream(ca_file_) << authority_.certificate_pem();
  }

  static Timestamp now() { return SystemClock().now(); }
  // What /peer answers to who shows `identity`; "refused" when the handshake fails.
  std::string asked_as(const TlsIdentity& identity) {
    ClientOptions options;
    options.base_url = "https://127.0.0.1:" + std::to_string(port());
    options.tls.authority = ca_file_;
    options.tls.identity = identity;
    const auto reply = Client::create(options).value()->send(Method::kGet, "/peer", "");
    return reply.ok() ? reply->body : "refused";
  }
  // The same authority, as if it stood in another trust domain.
  CertificateAuthority in_domain(const char* domain) {
    const crypto::SecretBytes key = authority_.key_pem().value();
    return CertificateAuthority::load(authority_.certificate_pem(), key.view(), domain).value();
  }

  CertificateAuthority authority_ = CertificateAuthority::create(kDomain, now()).value();
  std::string ca_file_;
};

TEST_F(TlsPeersTest, a_process_is_known_by_its_spiffe_id) {
  const Credential made = authority_.issue_process("/service/a", now(), Duration::hours(1)).value();
  EXPECT_EQ(asked_as(identity_of(made)), "spiffe://falaj.local/service/a");
}

TEST_F(TlsPeersTest, a_certified_request_is_as_good) {
  const auto request = crypto::make_certificate_request().value();
  const std::string chain =
      authority_.sign_request(request.request_pem, "/service/b", now(), Duration::hours(1)).value();
  EXPECT_EQ(asked_as({chain, std::string(request.key_pem.view())}),
            "spiffe://falaj.local/service/b");
}

TEST_F(TlsPeersTest, who_shows_nothing_has_no_name) { EXPECT_EQ(asked_as({}), ""); }

TEST_F(TlsPeersTest, other_domains_expired_and_foreign_certificates_are_refused) {
  const auto issued = [](const CertificateAuthority& by, Timestamp at) {
    return identity_of(by.issue_process("/service/a", at, Duration::hours(1)).value());
  };
  const CertificateAuthority stranger = CertificateAuthority::create(kDomain, now()).value();
  EXPECT_EQ(asked_as(issued(in_domain("other.local"), now())), "refused");
  EXPECT_EQ(asked_as(issued(in_domain("falaj.local.evil"), now())), "refused");
  EXPECT_EQ(asked_as(issued(authority_, now() - Duration::hours(2))), "refused");  // Expired.
  EXPECT_EQ(asked_as(issued(authority_, now() + Duration::hours(2))), "refused");  // Not yet.
  EXPECT_EQ(asked_as(issued(stranger, now())), "refused");
  // A server's certificate is none of a client, stolen or not.
  EXPECT_EQ(asked_as(options_.tls.identity), "refused");
  // Neither is the authority's own.
  const crypto::SecretBytes key = authority_.key_pem().value();
  EXPECT_EQ(asked_as({authority_.certificate_pem(), std::string(key.view())}), "refused");
}

TEST_F(TlsPeersTest, serves_while_a_thousand_handshakes_hang) {
  std::vector<std::unique_ptr<RawSocket>> hanging;
  for (int i = 0; i < 1000; ++i) {
    hanging.push_back(std::make_unique<RawSocket>(port()));
    ASSERT_TRUE(hanging.back()->connected());
    // Half of them say nothing, half begin a hello and stop.
    if (i % 2 == 0) hanging.back()->write(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9));
  }
  const Credential made = authority_.issue_process("/service/a", now(), Duration::hours(1)).value();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(asked_as(identity_of(made)), "spiffe://falaj.local/service/a");
  }
}

}  // namespace
}  // namespace falaj::net
