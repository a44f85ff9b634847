#include "security/certificates/certificates.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/open.h"

namespace falaj::security {
namespace {

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() {
    std::string name = ::testing::TempDir() + "/certificates-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    options_.folder = folder_ + "/tls";
    options_.names.dns_names = {"localhost"};
    options_.names.addresses = {"127.0.0.1"};
    EXPECT_TRUE(sql_->migrate({kAuditMigration, kProcessesMigration}).ok());
  }
  ~CertificatesTest() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<Certificates>> open(
      std::string_view key = "0123456789abcdef0123456789abcdef") {
    return Certificates::open(options_, crypto::SecretBytes(key), *sql_, audit_, clock_);
  }
  std::string bytes_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(options_.folder + "/" + file, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string folder_;
  CertificatesOptions options_;
  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  Audit audit_{*sql_, clock_};
  RequestContext admin_ = system_context("user:admin", ProjectName(), Zone());
};

TEST_F(CertificatesTest, the_authority_is_made_once_and_its_key_is_sealed) {
  const std::string fingerprint = open().value()->fingerprint();
  EXPECT_EQ(open().value()->fingerprint(), fingerprint);
  EXPECT_EQ(bytes_of("authority.key").find("PRIVATE"), std::string::npos);
  struct stat info {};
  ASSERT_EQ(::stat((options_.folder + "/authority.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  ASSERT_EQ(::stat(options_.folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST_F(CertificatesTest, another_key_or_a_changed_file_does_not_open) {
  { ASSERT_TRUE(open().ok()); }
  const auto other = open("another key, also of 32 bytes...");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().id, ErrorId::kDecryptFailed);
  // A certificate of somebody else's authority in place of ours.
  const auto theirs = crypto::CertificateAuthority::create("falaj.local", clock_.now()).value();
  std::ofstream(options_.folder + "/authority.pem") << theirs.certificate_pem();
  EXPECT_FALSE(open().ok());
}

TEST_F(CertificatesTest, says_that_a_key_is_missing_instead_of_making_another) {
  { ASSERT_TRUE(open().ok()); }
  std::filesystem::remove(options_.folder + "/authority.key");
  const auto opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

TEST_F(CertificatesTest, a_start_that_was_killed_between_the_two_files_begins_anew) {
  { ASSERT_TRUE(open().ok()); }
  std::filesystem::remove(options_.folder + "/authority.pem");
  std::ofstream(options_.folder + "/authority.pem.new") << "half";
  EXPECT_TRUE(open().ok());
  EXPECT_TRUE(open().ok());
}

TEST_F(CertificatesTest, the_server_is_renewed_after_two_thirds_of_its_life) {
  const auto certificates = open().value();
  const std::string first = certificates->server().chain_pem;
  clock_.advance(Duration::minutes(40) - Duration::seconds(1));
  EXPECT_EQ(certificates->tick().value(), Certificates::Tick::kNothing);
  EXPECT_EQ(certificates->server().chain_pem, first);
  clock_.advance(Duration::seconds(1));
  EXPECT_EQ(certificates->tick().value(), Certificates::Tick::kRenewed);
  const crypto::Credential second = certificates->server();
  EXPECT_NE(second.chain_pem, first);
  EXPECT_EQ(second.not_after, clock_.now() + Duration::hours(1));
  EXPECT_EQ(certificates->tick().value(), Certificates::Tick::kNothing);
}

TEST_F(CertificatesTest, its_own_certificate_is_never_older_than_forty_minutes) {
  const auto certificates = open().value();
  const std::string first = certificates->own().value().chain_pem;
  clock_.advance(Duration::minutes(39));
  EXPECT_EQ(certificates->own().value().chain_pem, first);
  clock_.advance(Duration::minutes(1));
  const crypto::Credential second = certificates->own().value();
  EXPECT_NE(second.chain_pem, first);
  EXPECT_EQ(second.not_after, clock_.now() + Duration::hours(1));
}

TEST_F(CertificatesTest, issues_to_services_and_records_it) {
  const auto certificates = open().value();
  const auto request = crypto::make_certificate_request().value();
  const auto issued = certificates->issue(admin_, "witness", request.request_pem);
  ASSERT_TRUE(issued.ok()) << issued.error().message;
  EXPECT_EQ(issued->id, "spiffe://falaj.local/service/witness");
  EXPECT_EQ(issued->not_after, clock_.now() + Duration::hours(1));
  const auto entries = audit_.list({}).value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].action, "certificate.issue");
  EXPECT_EQ(entries[0].actor, "user:admin");
  EXPECT_EQ(entries[0].object, "Certificate/spiffe://falaj.local/service/witness");
  EXPECT_EQ(entries[0].detail.text("fingerprint"), issued->fingerprint);
}

TEST_F(CertificatesTest, issues_nothing_for_a_name_that_could_mean_another) {
  const auto certificates = open().value();
  const auto request = crypto::make_certificate_request().value();
  for (const char* name : {"", "a/b", "..", ".", "../server", "a b", "a%2fb", "\xc3\xa4"}) {
    EXPECT_FALSE(certificates->issue(admin_, name, request.request_pem).ok()) << name;
  }
  EXPECT_FALSE(certificates->issue(admin_, std::string(64, 'a'), request.request_pem).ok());
  EXPECT_FALSE(certificates->issue(admin_, "a", "no request").ok());
  EXPECT_TRUE(audit_.list({}).value().empty());
}

TEST_F(CertificatesTest, a_process_counts_until_it_is_revoked) {
  const auto certificates = open().value();
  const auto request = crypto::make_certificate_request().value();
  const std::string loop = "spiffe://falaj.local/service/loop";
  EXPECT_FALSE(certificates->check_process(loop).ok()) << "nobody gave it one";
  EXPECT_FALSE(certificates->renew(admin_, loop, request.request_pem).ok());
  ASSERT_TRUE(certificates->issue(admin_, "loop", request.request_pem).ok());
  ASSERT_TRUE(certificates->issue(admin_, "witness", request.request_pem).ok());
  EXPECT_TRUE(certificates->check_process(loop).ok());
  EXPECT_TRUE(certificates->renew(admin_, loop, request.request_pem).ok());
  EXPECT_TRUE(certificates->check_process("spiffe://falaj.local/server").ok());
  EXPECT_FALSE(certificates->check_process("spiffe://elsewhere/service/loop").ok());
  EXPECT_EQ(certificates->revoke(admin_, "nobody").error().code, Code::kNotFound);
  ASSERT_TRUE(certificates->revoke(admin_, loop).ok()) << "by its id, slashes and all";
  EXPECT_EQ(certificates->check_process(loop).error().id, ErrorId::kPeerRefused);
  EXPECT_EQ(certificates->renew(admin_, loop, request.request_pem).error().id,
            ErrorId::kPeerRefused);
  EXPECT_TRUE(certificates->check_process("spiffe://falaj.local/service/witness").ok());
  EXPECT_EQ(audit_.get(audit_.head()->sequence)->action, "certificate.revoke");
  ASSERT_EQ(certificates->processes().size(), 2u);
  EXPECT_EQ(certificates->processes()[0].revoked, clock_.now());
}

TEST_F(CertificatesTest, a_revoked_name_is_free_again_when_nothing_of_it_holds) {
  const auto request = crypto::make_certificate_request().value();
  const std::string loop = "spiffe://falaj.local/service/loop";
  {
    const auto certificates = open().value();
    ASSERT_TRUE(certificates->issue(admin_, "loop", request.request_pem).ok());
    ASSERT_TRUE(certificates->revoke(admin_, "loop").ok());
    ASSERT_TRUE(certificates->revoke(admin_, "loop").ok()) << "once more";
    EXPECT_EQ(certificates->issue(admin_, "loop", request.request_pem).error().code,
              Code::kFailedPrecondition);
  }
  const auto certificates = open().value();
  EXPECT_FALSE(certificates->check_process(loop).ok()) << "a restart does not forget";
  clock_.advance(Duration::hours(1));
  EXPECT_TRUE(certificates->issue(admin_, "loop", request.request_pem).ok());
  EXPECT_TRUE(certificates->check_process(loop).ok());
}

TEST(ServiceNames, are_read_from_ids_of_services_only) {
  EXPECT_EQ(service_of("spiffe://falaj.local/service/loop"), "loop");
  EXPECT_EQ(service_of("spiffe://falaj.local/server"), "");
  EXPECT_EQ(service_of("spiffe://falaj.local/service/a/b"), "");
  EXPECT_EQ(service_of("nonsense"), "");
}

}  // namespace
}  // namespace falaj::security
