#include "net/mutual_tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "base/time.h"
#include "net/testing/certificate.h"

namespace falaj::net {
namespace {

using testing::TestAuthority;
using Stream = Result<std::unique_ptr<MutualStream>>;

std::int64_t patience() { return monotonic_nanos() + Duration::seconds(60).nanos; }

Stream open(Descriptor socket, TlsSide side, const MutualTls& options,
            std::int64_t deadline = patience()) {
  const auto context = MutualContext::make(options, side);
  if (!context.ok()) return context.error();
  return (*context)->open(std::move(socket), deadline);
}

struct Pair {
  Descriptor near;
  Descriptor far;
};
Pair connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class MutualStreamTest : public ::testing::Test {
 protected:
  struct Ends {
    Stream accepts = Error(Code::kInternal, "not yet");
    Stream connects = Error(Code::kInternal, "not yet");
  };

  // What one process of the deployment shows and believes.
  static MutualTls process(TestAuthority& authority, TestAuthority::Leaf leaf) {
    MutualTls tls;
    tls.identity = authority.issue(leaf);
    tls.authority_pem = authority.pem();
    tls.peer_name = [](std::string_view) -> Result<std::string> { return std::string("known"); };
    return tls;
  }
  MutualTls process() { return process(authority_, {.names = "URI:spiffe://falaj.local/a"}); }

  Ends open_both(const MutualTls& accepts, const MutualTls& connects) {
    Ends ends;
    Pair pair = connected();
    std::thread other(
        [&] { ends.connects = open(std::move(pair.far), TlsSide::kConnects, connects); });
    ends.accepts = open(std::move(pair.near), TlsSide::kAccepts, accepts);
    other.join();
    return ends;
  }
  // The code of what the side that connects hears in the end: of its handshake or its first read.
  static Code heard(Ends& ends) {
    if (!ends.connects.ok()) return ends.connects.error().code;
    char byte = 0;
    const auto got = (*ends.connects)->read(std::span(&byte, 1), patience());
    return got.ok() ? Code::kUnavailable : got.error().code;
  }
  // Shakes hands as a client of plain OpenSSL does; whether the accepting side took it.
  Stream accept_from(const std::function<void(SSL_CTX*)>& change) {
    std::signal(SIGPIPE, SIG_IGN);  // It writes to who may have closed already.
    Pair pair = connected();
    std::thread other([&] {
      SSL_CTX* context = SSL_CTX_new(TLS_client_method());
      change(context);
      SSL* session = SSL_new(context);
      SSL_set_fd(session, pair.far.get());
      char byte = 0;
      if (SSL_connect(session) == 1) SSL_read(session, &byte, 1);
      SSL_free(session);
      SSL_CTX_free(context);
      pair.far.reset();
    });
    Stream stream = open(std::move(pair.near), TlsSide::kAccepts, process());
    if (stream.ok()) (*stream)->close();
    other.join();
    return stream;
  }

  TestAuthority authority_;
};

TEST_F(MutualStreamTest, carries_bytes_both_ways_at_once_and_knows_the_peer) {
  Ends ends = open_both(process(), process());
  ASSERT_TRUE(ends.accepts.ok()) << ends.accepts.error().message;
  ASSERT_TRUE(ends.connects.ok()) << ends.connects.error().message;
  EXPECT_EQ((*ends.accepts)->peer(), "known");
  const std::string sent(3 << 20, 'x');
  const auto take = [&](MutualStream& from) {
    std::string all;
    while (all.size() < sent.size()) {
      char piece[64 * 1024];
      const auto got = from.read(piece, patience());
      if (!got.ok() || *got == 0) break;
      all.append(piece, *got);
    }
    return all;
  };
  std::string there;
  std::string back;
  std::thread reads([&] { there = take(**ends.connects); });
  std::thread answers([&] { EXPECT_TRUE((*ends.connects)->write(sent).ok()); });
  std::thread speaks([&] { EXPECT_TRUE((*ends.accepts)->write(sent).ok()); });
  back = take(**ends.accepts);
  reads.join();
  answers.join();
  speaks.join();
  EXPECT_EQ(there, sent);
  EXPECT_EQ(back, sent);
  ends.accepts = Error(Code::kInternal, "gone");
  EXPECT_EQ(heard(ends), Code::kUnavailable);
}

TEST_F(MutualStreamTest, past_the_deadline_it_says_so) {
  Ends ends = open_both(process(), process());
  ASSERT_TRUE(ends.accepts.ok() && ends.connects.ok());
  char byte = 0;
  EXPECT_EQ((*ends.accepts)->read(std::span(&byte, 1), monotonic_nanos()).error().code,
            Code::kDeadlineExceeded);
  Pair silent = connected();
  EXPECT_EQ(open(std::move(silent.near), TlsSide::kAccepts, process(),
                 monotonic_nanos() + Duration::milliseconds(20).nanos)
                .error()
                .code,
            Code::kDeadlineExceeded);
}

TEST_F(MutualStreamTest, whom_either_side_does_not_believe_is_refused) {
  TestAuthority other;
  const char* name = "URI:spiffe://falaj.local/a";
  const auto with = [&](TestAuthority& issuer, TestAuthority::Leaf leaf) {
    MutualTls tls = process(issuer, leaf);
    tls.authority_pem = authority_.pem();
    return tls;
  };
  const MutualTls foreign = with(other, {.names = name});
  const MutualTls expired = with(authority_, {.names = name, .from = -7200, .until = -3600});
  const MutualTls early = with(authority_, {.names = name, .from = 3600, .until = 7200});
  for (const MutualTls* wrong : {&foreign, &expired, &early}) {
    Ends joins = open_both(process(), *wrong);
    ASSERT_FALSE(joins.accepts.ok());
    EXPECT_EQ(joins.accepts.error().id, ErrorId::kPeerRefused) << joins.accepts.error().message;
    EXPECT_NE(joins.accepts.error().message.find("unproven: known"), std::string::npos)
        << joins.accepts.error().message;
    EXPECT_NE(heard(joins), Code::kDeadlineExceeded);
    Ends listens = open_both(*wrong, process());
    ASSERT_FALSE(listens.connects.ok());
    EXPECT_EQ(listens.connects.error().id, ErrorId::kPeerRefused);
    EXPECT_FALSE(listens.accepts.ok());
  }
}

TEST_F(MutualStreamTest, whom_the_name_does_not_please_is_refused) {
  MutualTls choosy = process();
  choosy.peer_name = [](std::string_view) -> Result<std::string> {
    return Error(ErrorId::kPeerRefused, "not this one");
  };
  Ends listens = open_both(choosy, process());
  EXPECT_EQ(listens.accepts.error().id, ErrorId::kPeerRefused);
  EXPECT_NE(listens.accepts.error().message.find("not this one"), std::string::npos)
      << listens.accepts.error().message;
  Ends joins = open_both(process(), choosy);
  EXPECT_EQ(joins.connects.error().id, ErrorId::kPeerRefused);
}

TEST_F(MutualStreamTest, who_shows_nothing_or_speaks_1_2_is_refused) {
  const Stream nothing = accept_from([](SSL_CTX*) {});
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().id, ErrorId::kPeerRefused) << nothing.error().message;
  const auto show = [this](SSL_CTX* context) {
    const TlsIdentity own = authority_.issue({.names = "URI:spiffe://falaj.local/a"});
    BIO* chain = BIO_new_mem_buf(own.chain_pem.data(), static_cast<int>(own.chain_pem.size()));
    BIO* key = BIO_new_mem_buf(own.key_pem.data(), static_cast<int>(own.key_pem.size()));
    X509* certificate = PEM_read_bio_X509(chain, nullptr, nullptr, nullptr);
    EVP_PKEY* secret = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    EXPECT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context, secret), 1);
    X509_free(certificate);
    EVP_PKEY_free(secret);
    BIO_free(chain);
    BIO_free(key);
  };
  EXPECT_TRUE(accept_from(show).ok()) << "what follows is refused for its version alone";
  const Stream old = accept_from([&](SSL_CTX* context) {
    show(context);
    SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  });
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().id, ErrorId::kPeerRefused) << old.error().message;
}

TEST_F(MutualStreamTest, who_speaks_no_tls_is_refused) {
  Pair pair = connected();
  const std::string plain = "FALAJLN1" + std::string(32, 'n');
  ASSERT_EQ(::send(pair.far.get(), plain.data(), plain.size(), 0),
            static_cast<ssize_t>(plain.size()));
  EXPECT_EQ(open(std::move(pair.near), TlsSide::kAccepts, process()).error().id,
            ErrorId::kPeerRefused);
}

TEST_F(MutualStreamTest, one_context_serves_many_connections_and_may_go_before_them) {
  auto accepts = MutualContext::make(process(), TlsSide::kAccepts).value();
  auto connects = MutualContext::make(process(), TlsSide::kConnects).value();
  std::vector<Stream> near;
  std::vector<Stream> far;
  for (int i = 0; i < 3; ++i) {
    Pair pair = connected();
    std::thread other([&] { far.push_back(connects->open(std::move(pair.far), patience())); });
    near.push_back(accepts->open(std::move(pair.near), patience()));
    other.join();
    ASSERT_TRUE(near.back().ok()) << near.back().error().message;
    ASSERT_TRUE(far.back().ok()) << far.back().error().message;
  }
  accepts.reset();
  connects.reset();
  for (std::size_t i = 0; i < near.size(); ++i) {
    ASSERT_TRUE((*near[i])->write("x").ok());
    char byte = 0;
    EXPECT_EQ((*far[i])->read(std::span(&byte, 1), patience()).value(), 1u);
    EXPECT_EQ(byte, 'x');
  }
}

TEST_F(MutualStreamTest, says_what_it_cannot_use) {
  MutualTls none = process();
  none.identity.key_pem.clear();
  EXPECT_EQ(MutualContext::make(none, TlsSide::kConnects).error().code, Code::kInvalidArgument);
  none = process();
  none.authority_pem.clear();
  EXPECT_EQ(MutualContext::make(none, TlsSide::kConnects).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace falaj::net
