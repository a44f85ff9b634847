#include "launch/certificates.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "launch/channel.h"
#include "launch/testing/gang_fixture.h"
#include "launch/testing/node_certificates.h"
#include "net/testing/certificate.h"

namespace falaj::launch {
namespace {

using Opened = Result<std::unique_ptr<Channel>>;

class CertificatesTest : public GangTest {
 protected:
  static ChannelOptions with(const CertificateFiles& files) {
    ChannelOptions options;
    options.secret = "a secret of sixteen and more";
    options.silence_max = Duration::seconds(60);
    options.handshake_max = Duration::seconds(60);
    if (files.any()) options.certificates = std::make_shared<KeptCertificates>(files);
    return options;
  }
  struct Ends {
    Opened listener = Error(Code::kInternal, "not yet");
    Opened joiner = Error(Code::kInternal, "not yet");
  };
  static Ends open_both(const ChannelOptions& listener, const ChannelOptions& joiner) {
    Ends ends;
    auto listening = listen_at({"127.0.0.1", 0});
    EXPECT_TRUE(listening.ok());
    std::thread other([&] {
      auto socket = connect_to({"127.0.0.1", listening->port}, Duration::seconds(60));
      if (socket.ok()) ends.joiner = Channel::open(*std::move(socket), Side::kJoiner, joiner);
    });
    Descriptor socket(::accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ends.listener = Channel::open(std::move(socket), Side::kListener, listener);
    other.join();
    return ends;
  }
  // Neither side has a channel afterwards, and the listener says that the other is not believed.
  static void expect_refused(const CertificateFiles& listener, const CertificateFiles& joiner) {
    const Ends ends = open_both(with(listener), with(joiner));
    ASSERT_FALSE(ends.listener.ok());
    EXPECT_EQ(ends.listener.error().id, ErrorId::kPeerRefused) << ends.listener.error().message;
    ASSERT_FALSE(ends.joiner.ok());
    EXPECT_NE(ends.joiner.error().code, Code::kDeadlineExceeded) << "it is told, or cut off";
  }
};

TEST_F(CertificatesTest, nodes_of_one_authority_speak_and_know_each_other) {
  const NodeCertificates made(folder_);
  Ends ends = open_both(with(made.node("first")), with(made.node("second")));
  ASSERT_TRUE(ends.listener.ok()) << ends.listener.error().message;
  ASSERT_TRUE(ends.joiner.ok()) << ends.joiner.error().message;
  EXPECT_EQ((*ends.listener)->peer_id(), "spiffe://falaj.local/service/second");
  EXPECT_EQ((*ends.joiner)->peer_id(), "spiffe://falaj.local/service/first");
  EXPECT_EQ((*ends.joiner)->own_address(), "127.0.0.1");
  Value message;
  message["what"] = std::string(100'000, 'x');
  ASSERT_TRUE((*ends.joiner)->send(message).ok());
  ASSERT_TRUE((*ends.listener)->send(message).ok());
  EXPECT_EQ((*ends.listener)->receive().value(), message);
  EXPECT_EQ((*ends.joiner)->receive().value(), message);
  ends.joiner = Error(Code::kInternal, "gone");
  EXPECT_EQ((*ends.listener)->receive().error().code, Code::kUnavailable) << "told at once";
}

TEST_F(CertificatesTest, do_not_stand_in_for_the_secret) {
  const NodeCertificates made(folder_);
  ChannelOptions other = with(made.node("second"));
  other.secret = "another secret of sixteen and more";
  const Ends ends = open_both(with(made.node("first")), other);
  ASSERT_FALSE(ends.listener.ok());
  EXPECT_EQ(ends.listener.error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(ends.joiner.ok());
}

TEST_F(CertificatesTest, of_others_are_refused) {
  const NodeCertificates made(folder_);
  const CertificateFiles own = made.node("first");
  CertificateFiles foreign = NodeCertificates(folder_).node("second");
  expect_refused(own, foreign);
  foreign.authority = own.authority;  // It believes us; we do not believe it.
  expect_refused(own, foreign);
  expect_refused(own, made.node("late", Duration::hours(2)));
  expect_refused(made.node("late", Duration::hours(2)), own);
}

TEST_F(CertificatesTest, of_another_trust_domain_are_refused_though_the_authority_is_one) {
  net::testing::TestAuthority loose;  // Ours would not make such.
  const NodeCertificates files(folder_);
  const auto node = [&](const std::string& name, const char* id) {
    const net::TlsIdentity made = loose.issue({.names = id});
    return CertificateFiles{files.keep(name + ".pem", made.chain_pem),
                            files.keep(name + ".key", made.key_pem),
                            files.keep("loose.pem", loose.pem()),
                            {}};
  };
  const CertificateFiles here = node("here", "URI:spiffe://falaj.local/service/here");
  const CertificateFiles too = node("too", "URI:spiffe://falaj.local/service/too");
  EXPECT_TRUE(open_both(with(here), with(too)).listener.ok()) << "the key in a file of its own";
  expect_refused(here, node("there", "URI:spiffe://elsewhere.local/service/there"));
  const CertificateFiles two =
      node("two", "URI:spiffe://falaj.local/service/a,URI:spiffe://falaj.local/service/b");
  EXPECT_EQ(read_certificates(two).error().id, ErrorId::kPeerRefused);
  EXPECT_EQ(read_certificates(node("plain", "DNS:localhost")).error().id, ErrorId::kPeerRefused);
}

TEST_F(CertificatesTest, are_needed_on_both_sides) {
  const NodeCertificates made(folder_);
  expect_refused(made.node("first"), {});
  // And a node that has them speaks to nobody who has none.
  const Ends ends = open_both(with({}), with(made.node("second")));
  ASSERT_FALSE(ends.joiner.ok());
  EXPECT_EQ(ends.joiner.error().id, ErrorId::kPeerRefused) << ends.joiner.error().message;
  EXPECT_FALSE(ends.listener.ok());
}

TEST_F(CertificatesTest, may_have_to_be_those_of_named_processes) {
  const NodeCertificates made(folder_);
  CertificateFiles picky = made.node("second");
  picky.peers = {"spiffe://falaj.local/service/first"};
  EXPECT_TRUE(open_both(with(made.node("first")), with(picky)).joiner.ok());
  Ends ends = open_both(with(made.node("impostor")), with(picky));
  ASSERT_FALSE(ends.joiner.ok());
  EXPECT_EQ(ends.joiner.error().id, ErrorId::kPeerRefused);
  EXPECT_NE(ends.joiner.error().message.find("spiffe://falaj.local/service/impostor"),
            std::string::npos)
      << "it says who was refused: " << ends.joiner.error().message;
  picky.peers.emplace_back("spiffe://falaj.local/service/impostor");
  EXPECT_TRUE(open_both(with(made.node("first")), with(picky)).joiner.ok());
  EXPECT_TRUE(open_both(with(made.node("impostor")), with(picky)).joiner.ok());
  expect_refused(picky, made.node("another"));
  for (const char* wrong : {"first", "spiffe://elsewhere.local/service/first", ""}) {
    picky.peers.back() = wrong;
    EXPECT_FALSE(read_certificates(picky).ok()) << wrong;
  }
}

TEST_F(CertificatesTest, of_a_refused_node_the_name_is_told_though_it_is_not_proven) {
  const NodeCertificates made(folder_);
  const Ends ends =
      open_both(with(made.node("first")), with(made.node("late", Duration::hours(2))));
  ASSERT_FALSE(ends.listener.ok());
  const std::string& message = ends.listener.error().message;
  EXPECT_NE(message.find("unproven: spiffe://falaj.local/service/late"), std::string::npos)
      << message;
}

class KeptCertificatesTest : public CertificatesTest {
 protected:
  // As if the files had been written an hour ago, which is what they are told apart by.
  std::shared_ptr<FakeClock> later_ =
      std::make_shared<FakeClock>(SystemClock().now() + Duration::hours(1));

  static auto take(KeptCertificates& kept) { return kept.take(net::TlsSide::kAccepts); }
};

TEST_F(KeptCertificatesTest, are_made_ready_once_and_again_when_a_file_changes) {
  const NodeCertificates made(folder_);
  const CertificateFiles files = made.node("first");
  KeptCertificates kept(files, later_);
  auto before = take(kept).value();
  EXPECT_EQ(take(kept).value(), before);
  EXPECT_NE(kept.take(net::TlsSide::kConnects).value(), before) << "each side has its own";
  EXPECT_EQ(take(kept).value(), before);
  for (const std::string& path : {files.certificate, files.authority}) {
    // The same bytes, put in its place as a renewal is: another file.
    std::filesystem::copy_file(path, path + ".new");
    std::filesystem::rename(path + ".new", path);
    const auto after = take(kept).value();
    EXPECT_NE(after, before) << path;
    EXPECT_EQ(take(kept).value(), after);
    before = after;
  }
}

TEST_F(KeptCertificatesTest, of_this_moment_are_read_again_for_their_time_may_not_show_a_change) {
  const NodeCertificates made(folder_);
  const auto now = std::make_shared<FakeClock>(SystemClock().now());
  KeptCertificates kept(made.node("first"), now);
  const auto first = take(kept).value();
  EXPECT_NE(take(kept).value(), first);
  now->advance(Duration::minutes(1));
  const auto settled = take(kept).value();
  EXPECT_EQ(take(kept).value(), settled);
}

TEST_F(KeptCertificatesTest, that_can_be_read_no_longer_count_no_longer) {
  const NodeCertificates made(folder_);
  const CertificateFiles files = made.node("first");
  KeptCertificates kept(files, later_);
  ASSERT_TRUE(take(kept).ok());
  std::filesystem::remove(files.certificate);
  EXPECT_EQ(take(kept).error().id, ErrorId::kFileUnreadable);
  made.node("first");
  EXPECT_TRUE(take(kept).ok());
}

TEST_F(CertificatesTest, renewed_in_place_are_shown_by_the_next_connection) {
  const NodeCertificates made(folder_);
  const ChannelOptions own = with(made.node("first", Duration::hours(2)));
  EXPECT_FALSE(open_both(own, with(made.node("second"))).joiner.ok());
  made.node("first");  // Renewed, in the same file.
  EXPECT_TRUE(open_both(own, with(made.node("second"))).listener.ok());
}

TEST_F(CertificatesTest, that_were_revoked_are_refused_as_soon_as_the_list_says_so) {
  const NodeCertificates made(folder_);
  const auto list = [&](const std::string& second) {
    return R"({"processes": [{"id": "spiffe://falaj.local/service/second", "revoked": )" + second +
           R"(}, {"id": "spiffe://falaj.local/service/third", "revoked": null}]})";
  };
  CertificateFiles files = made.node("first");
  files.revoked = made.keep("revoked.json", list("null"));
  const ChannelOptions own = with(files);
  EXPECT_TRUE(open_both(own, with(made.node("second"))).listener.ok());
  made.keep("revoked.json", list(R"("2026-11-18T09:00:00Z")"));
  const Ends ends = open_both(own, with(made.node("second")));
  ASSERT_FALSE(ends.listener.ok());
  EXPECT_EQ(ends.listener.error().id, ErrorId::kPeerRefused);
  EXPECT_NE(ends.listener.error().message.find("service/second, revoked"), std::string::npos)
      << ends.listener.error().message;
  EXPECT_FALSE(ends.joiner.ok());
  EXPECT_TRUE(open_both(own, with(made.node("third"))).listener.ok());
  for (const char* wrong : {"[]", "{}", R"({"processes": {}})", R"({"processes": ["second"]})",
                            R"({"processes": [{"id": "a"}]})", "spiffe://falaj.local/service/a"}) {
    made.keep("revoked.json", wrong);
    EXPECT_EQ(read_certificates(files).error().code, Code::kInvalidArgument) << wrong;
    EXPECT_FALSE(open_both(own, with(made.node("third"))).listener.ok()) << wrong;
  }
  EXPECT_TRUE(
      (CertificateFiles{.certificate = "", .key = "", .authority = "", .revoked = "a"}).any());
}

TEST_F(CertificatesTest, whose_key_others_may_read_are_refused) {
  using std::filesystem::perms;
  net::testing::TestAuthority authority;
  const NodeCertificates files(folder_);
  const net::TlsIdentity node =
      authority.issue({.names = "URI:spiffe://falaj.local/service/first"});
  const std::string chain = files.keep("own.pem", node.chain_pem);
  const std::string key = files.keep("own.key", node.key_pem);
  const std::string both = files.keep("both.pem", node.key_pem + node.chain_pem);
  const std::string ca = files.keep("ca.pem", authority.pem());
  const auto open_to = [](const std::string& path, perms others) {
    std::filesystem::permissions(path, perms::owner_read | perms::owner_write | others);
  };
  open_to(chain, perms::group_read | perms::others_read);
  open_to(ca, perms::group_read | perms::others_read);
  EXPECT_TRUE(read_certificates({chain, key, ca, {}}).ok()) << "certificates are no secret";
  EXPECT_TRUE(read_certificates({both, "", ca, {}}).ok());
  KeptCertificates kept({chain, key, ca, {}},
                        std::make_shared<FakeClock>(SystemClock().now() + Duration::hours(1)));
  EXPECT_TRUE(kept.take(net::TlsSide::kAccepts).ok());
  for (const perms each : {perms::group_read, perms::others_read, perms::group_write}) {
    open_to(key, each);
    open_to(both, each);
    const auto apart = read_certificates({chain, key, ca, {}});
    ASSERT_FALSE(apart.ok());
    EXPECT_EQ(apart.error().code, Code::kPermissionDenied);
    EXPECT_NE(apart.error().message.find("chmod 600 '" + key + "'"), std::string::npos)
        << apart.error().message;
    EXPECT_EQ(read_certificates({both, "", ca, {}}).error().code, Code::kPermissionDenied);
    EXPECT_EQ(kept.take(net::TlsSide::kAccepts).error().code, Code::kPermissionDenied)
        << "also when it was good before";
  }
}

TEST_F(CertificatesTest, that_cannot_be_read_are_named) {
  const NodeCertificates made(folder_);
  CertificateFiles files = made.node("first");
  files.authority = folder_ + "/nowhere.pem";
  const auto missing = read_certificates(files);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().id, ErrorId::kFileUnreadable);
  EXPECT_NE(missing.error().message.find("nowhere.pem"), std::string::npos);
  files.authority.clear();
  EXPECT_EQ(read_certificates(files).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(files.any());
  EXPECT_FALSE(CertificateFiles{}.any());
}

}  // namespace
}  // namespace falaj::launch
