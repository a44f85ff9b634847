#include <gtest/gtest.h>

#include <atomic>

#include "net/client.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

class Meter final : public Caller {
 public:
  explicit Meter(std::atomic<std::size_t>& bytes) : bytes_(bytes) {}
  void sent(std::size_t bytes) const override { bytes_ += bytes; }

 private:
  std::atomic<std::size_t>& bytes_;
};

class SentBytesTest : public ServerFixture {
 protected:
  // Whoever asks under /a is one caller, under /b another.
  void meter() {
    gate_ = [this](const Route&, Request& request) -> Status {
      request.caller = std::make_shared<Meter>(request.path.starts_with("/a") ? a_ : b_);
      return {};
    };
  }
  std::atomic<std::size_t> a_{0};
  std::atomic<std::size_t> b_{0};
};

TEST_F(SentBytesTest, what_the_socket_took_is_told_to_the_caller) {
  meter();
  const std::string large(3u << 20, 'x');
  add_on_loop(Method::kGet, "/a/small", [](const Request&) { return Response::text("hello"); });
  add_on_pool(Method::kGet, "/a/large", [&](const Request&) { return Response::text(large); });
  start();
  const std::string small = ask(request_text("GET /a/small"));
  const std::string reply = ask(request_text("GET /a/large"));
  EXPECT_GT(reply.size(), large.size());
  server_->drain(Duration::seconds(5));
  EXPECT_EQ(a_.load(), small.size() + reply.size());
  EXPECT_EQ(b_.load(), 0u);
}

TEST_F(SentBytesTest, answers_in_one_pipeline_are_kept_apart) {
  meter();
  const auto answer = [](const Request& request) {
    return Response::text(std::string(request.path == "/a" ? 1000 : 7, 'x'));
  };
  add_on_loop(Method::kGet, "/a", answer);
  add_on_loop(Method::kGet, "/b", answer);
  start();
  RawSocket socket(port());
  socket.write(request_text("GET /a") + request_text("GET /b"));
  const std::string first = socket.reply();
  const std::string second = socket.reply();
  server_->drain(Duration::seconds(5));
  EXPECT_EQ(a_.load(), first.size());
  EXPECT_EQ(b_.load(), second.size());
}

}  // namespace
}  // namespace falaj::net
