#include "crypto/x509.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/hash.h"

namespace falaj::crypto {
namespace {

using X509Ptr = std::unique_ptr<X509, void (*)(X509*)>;

const Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

X509Ptr parsed(std::string_view pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509Ptr certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free);
  BIO_free(bio);
  return certificate;
}

std::string der(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  std::string out(reinterpret_cast<char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return out;
}

std::string der(const std::string& pem) { return der(parsed(pem).get()); }

// X509_V_OK, or why OpenSSL does not believe the chain at `when` for `purpose`.
int verified(const std::string& chain, const std::string& root, Timestamp when, int purpose) {
  X509_STORE* store = X509_STORE_new();
  const X509Ptr trusted = parsed(root);
  X509_STORE_add_cert(store, trusted.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  const X509Ptr leaf = parsed(chain);
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_time(context, 0, when.nanos / 1'000'000'000);
  X509_STORE_CTX_set_purpose(context, purpose);
  X509_verify_cert(context);
  const int code = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return code;
}

CertificateAuthority authority() {
  return CertificateAuthority::create("falaj.local", kNow).value();
}

// A certificate as a stranger might make it: any alternative names, any usage, self-signed.
std::string stranger(const char* names, const char* constraints = "critical,CA:FALSE",
                     const char* usage = "critical,digitalSignature") {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* x = X509_new();
  X509_set_version(x, X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(x), 0);
  X509_gmtime_adj(X509_getm_notAfter(x), 60);
  X509_set_pubkey(x, key);
  // The name that must never count.
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("spiffe://falaj.local/admin"),
                             -1, -1, 0);
  const std::pair<int, const char*> extensions[] = {
      {NID_subject_alt_name, names}, {NID_basic_constraints, constraints}, {NID_key_usage, usage}};
  for (const auto& [nid, value] : extensions) {
    if (value == nullptr) continue;
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(x, key, EVP_sha256());
  std::string out = der(x);
  X509_free(x);
  EVP_PKEY_free(key);
  return out;
}

TEST(SpiffeIds, are_read_strictly) {
  const auto id = parse_spiffe_id("spiffe://falaj.local/service/loop-2_A.b");
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->trust_domain, "falaj.local");
  EXPECT_EQ(id->path, "/service/loop-2_A.b");
  EXPECT_EQ(id->text(), "spiffe://falaj.local/service/loop-2_A.b");
  for (const std::string& text : {std::string(""),
                                  std::string("spiffe://"),
                                  std::string("spiffe:///a"),
                                  std::string("spiffe://falaj.local"),
                                  std::string("spiffe://falaj.local/"),
                                  std::string("SPIFFE://falaj.local/a"),
                                  std::string("https://falaj.local/a"),
                                  std::string("spiffe://Falaj.local/a"),
                                  std::string("spiffe://falaj.local:7070/a"),
                                  std::string("spiffe://user@falaj.local/a"),
                                  std::string("spiffe://falaj.local/a/"),
                                  std::string("spiffe://falaj.local//a"),
                                  std::string("spiffe://falaj.local/a/../b"),
                                  std::string("spiffe://falaj.local/./a"),
                                  std::string("spiffe://falaj.local/a%2fb"),
                                  std::string("spiffe://falaj.local/a?b"),
                                  std::string("spiffe://falaj.local/a#b"),
                                  std::string("spiffe://falaj.local/a b"),
                                  std::string("spiffe://falaj.local/\xc3\xa4"),
                                  std::string("spiffe://falaj.local/a\0b", 24),
                                  "spiffe://" + std::string(256, 'a') + "/a",
                                  "spiffe://falaj.local/" + std::string(2048, 'a')}) {
    const auto refused = parse_spiffe_id(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().id, ErrorId::kPeerRefused);
    EXPECT_EQ(refused.error().message.find('\xc3'), std::string::npos);
  }
}

TEST(Authority, issues_process_certificates_that_openssl_believes) {
  const CertificateAuthority ca = authority();
  const Credential made = ca.issue_process("/service/loop", kNow, Duration::hours(1)).value();
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
    EXPECT_EQ(verified(made.chain_pem, ca.certificate_pem(), kNow, purpose), X509_V_OK);
  }
  EXPECT_EQ(made.not_after, kNow + Duration::hours(1));
  const CertificateInfo info = read_certificate(made.chain_pem).value();
  EXPECT_EQ(info.uris, std::vector<std::string>{"spiffe://falaj.local/service/loop"});
  EXPECT_TRUE(info.dns_names.empty());
  EXPECT_FALSE(info.is_authority);
  EXPECT_EQ(info.not_after, made.not_after);
  EXPECT_EQ(peer_spiffe_id(der(made.chain_pem), "falaj.local").value().path, "/service/loop");
  EXPECT_TRUE(made.key_pem.view().starts_with("-----BEGIN PRIVATE KEY-----"));
}

TEST(Authority, certificates_end_with_their_hour) {
  const CertificateAuthority ca = authority();
  const Credential made = ca.issue_process("/a", kNow, Duration::hours(1)).value();
  const auto at = [&](Timestamp when) {
    return verified(made.chain_pem, ca.certificate_pem(), when, X509_PURPOSE_SSL_CLIENT);
  };
  EXPECT_EQ(at(kNow - Duration::minutes(4)), X509_V_OK);  // A clock that is a little behind.
  EXPECT_EQ(at(kNow + Duration::minutes(61)), X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(at(kNow - Duration::minutes(6)), X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_FALSE(ca.issue_process("/a", kNow, Duration::hours(1) + Duration::seconds(1)).ok());
  EXPECT_FALSE(ca.issue_process("/a", kNow, Duration{}).ok());
  EXPECT_FALSE(ca.issue_process("a", kNow, Duration::hours(1)).ok());
  EXPECT_FALSE(ca.issue_process("/a/../b", kNow, Duration::hours(1)).ok());
}

TEST(Authority, issues_server_certificates_for_names_and_addresses) {
  const CertificateAuthority ca = authority();
  const Credential made = ca.issue_server({.dns_names = {"localhost", "falaj.bank.example"},
                                           .addresses = {"127.0.0.1", "::1"},
                                           .path = "/server"},
                                          kNow, Duration::days(1))
                              .value();
  EXPECT_EQ(verified(made.chain_pem, ca.certificate_pem(), kNow, X509_PURPOSE_SSL_SERVER),
            X509_V_OK);
  // A stolen server key does not speak as a client.
  EXPECT_NE(verified(made.chain_pem, ca.certificate_pem(), kNow, X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
  const X509Ptr leaf = parsed(made.chain_pem);
  EXPECT_EQ(X509_check_host(leaf.get(), "falaj.bank.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "evil.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "127.0.0.2", 0), 0);
  const CertificateInfo info = read_certificate(made.chain_pem).value();
  EXPECT_EQ(info.addresses, (std::vector<std::string>{"127.0.0.1", "::1"}));
  EXPECT_FALSE(ca.issue_server({.dns_names = {"a,DNS:evil.example"}, .addresses = {}, .path = "/s"},
                               kNow, Duration::days(1))
                   .ok());
  EXPECT_FALSE(ca.issue_server({.dns_names = {}, .addresses = {"localhost"}, .path = "/s"}, kNow,
                               Duration::days(1))
                   .ok());
}

TEST(Authority, signs_a_request_without_seeing_its_key) {
  const CertificateAuthority ca = authority();
  const CertificateRequest request = make_certificate_request().value();
  const std::string chain =
      ca.sign_request(request.request_pem, "/service/witness", kNow, Duration::minutes(30)).value();
  EXPECT_EQ(verified(chain, ca.certificate_pem(), kNow, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
  BIO* bio = BIO_new_mem_buf(request.key_pem.data(), static_cast<int>(request.key_pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  EXPECT_EQ(X509_check_private_key(parsed(chain).get(), key), 1);
  EVP_PKEY_free(key);
  BIO_free(bio);
}

TEST(Authority, refuses_requests_that_prove_nothing) {
  const CertificateAuthority ca = authority();
  const std::string good = make_certificate_request().value().request_pem;
  std::string flipped = good;
  // Within the signature, which is at the end.
  const std::size_t at = flipped.rfind("-----END") - 12;
  flipped[at] = flipped[at] == 'A' ? 'B' : 'A';
  for (const std::string& text : {std::string(), std::string("nonsense"), flipped,
                                  ca.certificate_pem(), std::string(1 << 20, 'x')}) {
    EXPECT_FALSE(ca.sign_request(text, "/a", kNow, Duration::minutes(1)).ok());
  }
  EXPECT_TRUE(ca.sign_request(good, "/a", kNow, Duration::minutes(1)).ok());
}

TEST(Authority, comes_back_from_its_two_texts) {
  const CertificateAuthority ca = authority();
  const SecretBytes key = ca.key_pem().value();
  const auto again = CertificateAuthority::load(ca.certificate_pem(), key.view(), "falaj.local");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->fingerprint(), ca.fingerprint());
  EXPECT_EQ(ca.fingerprint(), sha256_hex(der(ca.certificate_pem())));
  const Credential made = again->issue_process("/a", kNow, Duration::hours(1)).value();
  EXPECT_EQ(verified(made.chain_pem, ca.certificate_pem(), kNow, X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
  const SecretBytes other = authority().key_pem().value();
  EXPECT_FALSE(CertificateAuthority::load(ca.certificate_pem(), other.view(), "falaj.local").ok());
  EXPECT_FALSE(CertificateAuthority::load("", key.view(), "falaj.local").ok());
  // A process's certificate is no authority.
  EXPECT_FALSE(CertificateAuthority::load(made.chain_pem, made.key_pem.view(), "falaj.local").ok());
}

TEST(Authority, of_another_deployment_is_not_believed) {
  const CertificateAuthority ours = authority();
  const CertificateAuthority theirs = authority();
  const Credential made = theirs.issue_process("/a", kNow, Duration::hours(1)).value();
  EXPECT_NE(verified(made.chain_pem, ours.certificate_pem(), kNow, X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
}

TEST(PeerIds, need_exactly_one_uri_of_exactly_this_domain) {
  EXPECT_EQ(peer_spiffe_id(stranger("URI:spiffe://falaj.local/a"), "falaj.local").value().path,
            "/a");
  const std::pair<const char*, const char*> refused[] = {
      {nullptr, "CN alone"},
      {"DNS:falaj.local", "no URI"},
      {"URI:spiffe://falaj.local/a,URI:spiffe://falaj.local/b", "two"},
      {"URI:spiffe://falaj.local/a,URI:https://falaj.local/a", "one and another"},
      {"URI:spiffe://falaj.local.evil/a", "longer domain"},
      {"URI:spiffe://evil.falaj.local/a", "sub-domain"},
      {"URI:spiffe://falaj.loca/a", "shorter domain"},
      {"URI:https://falaj.local/a", "other scheme"},
      {"URI:spiffe://falaj.local", "no path"},
      {"email:a@falaj.local", "email"},
  };
  for (const auto& [names, why] : refused) {
    const auto id = peer_spiffe_id(stranger(names), "falaj.local");
    ASSERT_FALSE(id.ok()) << why;
    EXPECT_EQ(id.error().id, ErrorId::kPeerRefused) << why;
  }
}

TEST(PeerIds, are_not_taken_from_authorities_or_rubbish) {
  const char* name = "URI:spiffe://falaj.local/a";
  EXPECT_FALSE(peer_spiffe_id(stranger(name, "critical,CA:TRUE"), "falaj.local").ok());
  EXPECT_FALSE(
      peer_spiffe_id(stranger(name, "critical,CA:FALSE", "critical,digitalSignature,keyCertSign"),
                     "falaj.local")
          .ok());
  EXPECT_FALSE(
      peer_spiffe_id(stranger(name, "critical,CA:FALSE", "critical,keyAgreement"), "falaj.local")
          .ok());
  EXPECT_FALSE(peer_spiffe_id("", "falaj.local").ok());
  EXPECT_FALSE(peer_spiffe_id("rubbish", "falaj.local").ok());
  std::string cut = stranger(name);
  cut.resize(cut.size() / 2);
  EXPECT_FALSE(peer_spiffe_id(cut, "falaj.local").ok());
}

}  // namespace
}  // namespace falaj::crypto
