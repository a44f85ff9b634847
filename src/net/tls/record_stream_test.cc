#include "net/tls/record_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/testing/certificate.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

TrafficSecret secret_of(unsigned char seed) {
  TrafficSecret secret;
  secret.bytes.fill(seed);
  return secret;
}

// A stream on one end of a pair of sockets; the test is at the other, with the same secrets.
class RecordStreamTest : public ::testing::Test {
 protected:
  RecordStreamTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    stream_ =
        std::make_unique<RecordStream>(ends_[0], RecordStream::Secrets{secret_of(1), secret_of(2)});
  }
  ~RecordStreamTest() override {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }

  std::string data(std::string_view content) {
    return made(content.size(), [&](unsigned char* out) { return writer_.data(content, out); });
  }
  std::string alert(Alert what) {
    return made(2, [&](unsigned char* out) { return writer_.alert(what, out); });
  }
  std::string key_update() {
    return made(5, [&](unsigned char* out) { return writer_.key_update(out); });
  }
  void send(std::string_view bytes) {
    ASSERT_EQ(::send(ends_[1], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // What the stream gives, and how the last call came out.
  IoOutcome read_all(std::string& into, std::size_t room = 100'000) {
    std::string buffer(room, '\0');
    while (true) {
      const IoResult result = stream_->read(buffer);
      if (result.outcome != IoOutcome::kDone) return result.outcome;
      into.append(buffer, 0, result.bytes);
    }
  }
  // What the stream has sent, opened.
  std::string received(std::vector<RecordReader::Kind>* kinds = nullptr) {
    std::string sealed(400'000, '\0');
    const ssize_t size = ::recv(ends_[1], sealed.data(), sealed.size(), 0);
    wire_.append(sealed, 0, size > 0 ? static_cast<std::size_t>(size) : 0);
    std::string out;
    std::vector<unsigned char> content(kRecordBytesMax);
    while (true) {
      const auto opened = reader_.open(
          {reinterpret_cast<const unsigned char*>(wire_.data()), wire_.size()}, content);
      if (opened.used == 0) return out;
      if (kinds != nullptr) kinds->push_back(opened.kind);
      wire_.erase(0, opened.used);
      if (opened.kind != RecordReader::Kind::kData) continue;
      out.append(reinterpret_cast<const char*>(content.data()), opened.bytes);
    }
  }

  int ends_[2] = {-1, -1};
  std::unique_ptr<RecordStream> stream_;
  RecordWriter writer_{secret_of(1)};
  RecordReader reader_{secret_of(2)};
  std::string wire_;

 private:
  static std::string made(std::size_t content,
                          const std::function<std::size_t(unsigned char*)>& make) {
    std::string out(content + kRecordOverhead, '\0');
    EXPECT_EQ(make(reinterpret_cast<unsigned char*>(out.data())), out.size());
    return out;
  }
};

TEST_F(RecordStreamTest, reads_records_however_they_are_cut_and_joined) {
  std::string all;
  std::string wanted;
  for (int i = 0; i < 30; ++i) {
    const std::string content(static_cast<std::size_t>(i * i * 17 % 16'000), static_cast<char>(i));
    all += data(content);
    wanted += content;
  }
  for (const std::size_t room : {std::size_t{100'000}, std::size_t{100}}) {
    std::string seen;
    for (std::size_t at = 0; at < all.size(); at += 1'111) {
      send(std::string_view(all).substr(at, 1'111));
      EXPECT_EQ(read_all(seen, room), IoOutcome::kWantRead);
      EXPECT_TRUE(stream_->has_drained());
    }
    EXPECT_EQ(seen, wanted);
    stream_ =
        std::make_unique<RecordStream>(ends_[0], RecordStream::Secrets{secret_of(1), secret_of(2)});
  }
}

TEST_F(RecordStreamTest, is_not_drained_while_it_holds_something) {
  send(data("abc"));
  send(data(std::string(200, 'x')));
  char small[100];
  EXPECT_EQ(stream_->read(small).bytes, 3u);
  EXPECT_FALSE(stream_->has_drained());  // A whole record waits.
  EXPECT_EQ(stream_->read(small).bytes, 100u);
  EXPECT_FALSE(stream_->has_drained());  // Half of one.
  stream_->rest();
  EXPECT_EQ(stream_->read(small).bytes, 100u);
  EXPECT_TRUE(stream_->has_drained());
}

TEST_F(RecordStreamTest, what_was_sent_before_the_end_comes_before_it) {
  send(data("last words"));
  send(alert(Alert::kCloseNotify));
  send("and rubbish");
  char into[100];
  EXPECT_EQ(stream_->read(into).bytes, 10u);
  EXPECT_FALSE(stream_->has_drained());
  EXPECT_EQ(stream_->read(into).outcome, IoOutcome::kClosed);
  EXPECT_EQ(stream_->error_text(), "");
  EXPECT_EQ(stream_->read(into).outcome, IoOutcome::kClosed);
}

TEST_F(RecordStreamTest, a_complaint_is_told) {
  send(alert(Alert::kDecodeError));
  std::string seen;
  EXPECT_EQ(read_all(seen), IoOutcome::kClosed);
  EXPECT_EQ(stream_->error_text(), "decode error");
}

TEST_F(RecordStreamTest, a_connection_that_was_cut_is_no_end) {
  send(data("first half"));
  ::close(ends_[1]);
  ends_[1] = -1;
  std::string seen;
  EXPECT_EQ(read_all(seen), IoOutcome::kFailed);
  EXPECT_EQ(seen, "first half");
}

TEST_F(RecordStreamTest, a_forged_record_ends_it_and_the_peer_is_told) {
  send(data("good"));
  std::string forged = data("forged");
  forged.back() = static_cast<char>(forged.back() ^ 1);
  send(forged);
  send(data("after"));
  std::string seen;
  EXPECT_EQ(read_all(seen), IoOutcome::kFailed);
  EXPECT_EQ(seen, "good");
  std::vector<RecordReader::Kind> kinds;
  received(&kinds);
  EXPECT_EQ(kinds, std::vector{RecordReader::Kind::kAlert});
  EXPECT_EQ(stream_->write("more", "").outcome, IoOutcome::kFailed);
}

TEST_F(RecordStreamTest, records_without_data_are_borne_for_a_while) {
  std::string many;
  for (int i = 0; i < 32; ++i) many += i % 2 == 0 ? data("") : key_update();
  send(many);
  send(data("x"));
  std::string seen;
  EXPECT_EQ(read_all(seen), IoOutcome::kWantRead);
  EXPECT_EQ(seen, "x");
  many.clear();
  for (int i = 0; i < 33; ++i) many += data("");
  send(many);
  EXPECT_EQ(read_all(seen), IoOutcome::kFailed);
}

TEST_F(RecordStreamTest, writes_both_parts_in_order_and_says_goodbye) {
  const std::string large(50'000, 'b');
  std::string_view first = "head";
  std::string_view second = large;
  std::string seen;
  while (!first.empty() || !second.empty()) {
    const IoResult result = stream_->write(first, second);
    ASSERT_EQ(result.outcome, IoOutcome::kDone);
    const std::size_t of_first = std::min(first.size(), result.bytes);
    first.remove_prefix(of_first);
    second.remove_prefix(result.bytes - of_first);
    seen += received();
  }
  EXPECT_EQ(seen, "head" + large);
  stream_->finish();
  stream_->finish();
  std::vector<RecordReader::Kind> kinds;
  EXPECT_EQ(received(&kinds), "");
  EXPECT_EQ(kinds, std::vector{RecordReader::Kind::kAlert});
}

TEST_F(RecordStreamTest, a_full_socket_takes_the_rest_later_and_each_byte_once) {
  std::string all(3 << 20, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i % 251);
  std::string_view left = all;
  std::string seen;
  int blocked = 0;
  while (!left.empty()) {
    const IoResult result = stream_->write(left, "");
    if (result.outcome == IoOutcome::kWantWrite) {
      ++blocked;
      seen += received();
      continue;
    }
    ASSERT_EQ(result.outcome, IoOutcome::kDone);
    left.remove_prefix(result.bytes);
  }
  EXPECT_GT(blocked, 0);
  while (seen.size() < all.size()) seen += received();
  EXPECT_EQ(seen, all);
}

TEST_F(RecordStreamTest, nothing_is_written_after_the_end_though_a_record_was_stuck) {
  const std::string large(16'000, 'x');
  while (stream_->write(large, "").outcome == IoOutcome::kDone) {
  }
  std::string forged = data("forged");
  forged.back() = static_cast<char>(forged.back() ^ 1);
  send(forged);
  std::string seen;
  EXPECT_EQ(read_all(seen), IoOutcome::kFailed);
  received();  // There is room again.
  EXPECT_EQ(stream_->write(large, "").outcome, IoOutcome::kFailed);
}

// ---- OpenSSL as the judge
// ------------------------------------------------------------------------

class TakenOverTest : public ServerFixture {
 protected:
  using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
  using Session = std::unique_ptr<SSL, void (*)(SSL*)>;

  void SetUp() override {
    options_.tls.identity = authority_.issue({});
    add_on_pool(Method::kPost, "/echo", [](const Request& r) { return Response::text(r.body); });
    start();
    socket_ = std::make_unique<RawSocket>(port());
    session_.reset(SSL_new(context_.get()));
    SSL_set_fd(session_.get(), socket_->descriptor());
  }
  void connect() { ASSERT_EQ(SSL_connect(session_.get()), 1); }

  // The body that comes back; "" when none does.
  std::string echo(const std::string& body) {
    const std::string request =
        "POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    if (SSL_write(session_.get(), request.data(), static_cast<int>(request.size())) <= 0) return "";
    std::string reply;
    while (true) {
      const std::size_t head = reply.find("\r\n\r\n");
      if (head != std::string::npos && reply.size() == head + 4 + body.size()) {
        return reply.substr(head + 4);
      }
      char part[20'000];
      const int size = SSL_read(session_.get(), part, sizeof part);
      if (size <= 0) return "";
      reply.append(part, static_cast<std::size_t>(size));
    }
  }

  TestAuthority authority_;
  Context context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<RawSocket> socket_;
  Session session_{nullptr, SSL_free};
};

TEST_F(TakenOverTest, openssl_reads_what_we_seal_and_we_what_it_seals) {
  connect();
  std::string body;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(echo(body), body) << body.size();
    body += std::string(static_cast<std::size_t>(i) * 67, static_cast<char>('a' + i % 26));
  }
}

TEST_F(TakenOverTest, keys_are_updated_when_the_client_says_so) {
  connect();
  for (const int asked : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(echo("before"), "before");
      ASSERT_EQ(SSL_key_update(session_.get(), asked), 1);
      EXPECT_EQ(echo("after"), "after");
    }
  }
}

TEST_F(TakenOverTest, padded_records_and_another_suite_do_as_well) {
  SSL_set_block_padding(session_.get(), 512);
  connect();
  EXPECT_EQ(echo("padded"), "padded");
  RawSocket other(port());
  const Session chacha(SSL_new(context_.get()), SSL_free);
  SSL_set_ciphersuites(chacha.get(), "TLS_CHACHA20_POLY1305_SHA256");
  SSL_set_fd(chacha.get(), other.descriptor());
  ASSERT_EQ(SSL_connect(chacha.get()), 1);
  const std::string request = "POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
  ASSERT_GT(SSL_write(chacha.get(), request.data(), static_cast<int>(request.size())), 0);
  char reply[4096];
  ASSERT_GT(SSL_read(chacha.get(), reply, sizeof reply), 12);
  EXPECT_EQ(std::string(reply, 12), "HTTP/1.1 200");
}

TEST_F(TakenOverTest, a_client_with_room_for_small_records_gets_small_ones) {
  SSL_set_tlsext_max_fragment_length(session_.get(), TLSEXT_max_fragment_length_512);
  connect();
  // The length of the largest record that comes, from each head as OpenSSL shows it.
  std::size_t largest = 0;
  SSL_set_msg_callback_arg(session_.get(), &largest);
  SSL_set_msg_callback(session_.get(), [](int sent, int, int kind, const void* bytes,
                                          std::size_t size, SSL*, void* into) {
    if (sent != 0 || kind != SSL3_RT_HEADER || size != 5) return;
    const auto* head = static_cast<const unsigned char*>(bytes);
    auto& most = *static_cast<std::size_t*>(into);
    most = std::max(most, static_cast<std::size_t>(head[3]) << 8 | head[4]);
  });
  const std::string body(5'000, 'b');
  EXPECT_EQ(echo(body), body);
  EXPECT_GT(largest, 0u);
  EXPECT_LE(largest, 512u + 256u);
}

TEST_F(TakenOverTest, a_goodbye_is_answered_by_one) {
  connect();
  EXPECT_EQ(echo("x"), "x");
  const std::string last =
      "POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
      "Content-Length: 2\r\n\r\nhi";
  ASSERT_GT(SSL_write(session_.get(), last.data(), static_cast<int>(last.size())), 0);
  char part[4096];
  int size = 0;
  while ((size = SSL_read(session_.get(), part, sizeof part)) > 0) {
  }
  EXPECT_EQ(SSL_get_error(session_.get(), size), SSL_ERROR_ZERO_RETURN);  // Not just cut.
}

TEST_F(TakenOverTest, a_byte_that_was_changed_on_the_way_is_answered_by_an_alert) {
  connect();
  EXPECT_EQ(echo("x"), "x");
  // The client's next record, with its last byte changed.
  BIO* made = BIO_new(BIO_s_mem());
  SSL_set0_wbio(session_.get(), made);
  ASSERT_GT(SSL_write(session_.get(), "GET", 3), 0);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(made, &bytes);
  std::string record(bytes, static_cast<std::size_t>(size));
  record.back() = static_cast<char>(record.back() ^ 1);
  ASSERT_TRUE(socket_->write(record));
  char part[100];
  ERR_clear_error();
  EXPECT_LE(SSL_read(session_.get(), part, sizeof part), 0);
  EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
}

}  // namespace
}  // namespace falaj::net
